"""Dropout: threefry's bits, the rate in effect, and what a key and a site decide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmgen.core.rng import stream_key
from mmgen.errors import UserError
from mmgen.models.dropout import (
    Noise,
    at_site,
    dropout,
    noise_from,
    random_bytes,
    threefry2x32,
)

KEY = stream_key(0, "test")


def test_threefry_has_the_bits_of_jax_random():
    # jax.random xors the two words of the counters (0, i).
    low = jnp.arange(30, dtype=jnp.uint32)
    words = threefry2x32(jax.random.key_data(KEY), jnp.zeros_like(low), low)
    np.testing.assert_array_equal(words[0] ^ words[1], jax.random.bits(KEY, (30,), jnp.uint32))


def test_bytes_are_uniform_and_differ_between_elements_sites_and_keys():
    noise = noise_from(KEY)
    draw = np.asarray(random_bytes(noise, (64, 32, 33)))
    counts = np.bincount(draw.ravel(), minlength=256)
    expected = draw.size / 256
    # chi-squared with 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 5 * 22.6
    for other in (at_site(noise, 1), noise_from(stream_key(1, "test"))):
        same = (np.asarray(random_bytes(other, draw.shape)) == draw).mean()
        assert same == pytest.approx(1 / 256, abs=0.001)
    assert len(np.unique(draw.reshape(-1, 33), axis=0)) == 64 * 32


def test_a_tenth_drops_26_of_256_and_keeps_the_mean():
    x = jnp.ones((400, 500))
    y = np.asarray(dropout(x, 0.1, noise_from(KEY)))
    dropped = (y == 0).mean()
    assert dropped == pytest.approx(26 / 256, abs=4 * np.sqrt(0.09 / x.size))
    assert y.mean() == pytest.approx(1, abs=0.004)
    np.testing.assert_allclose(np.unique(y), [0, 256 / 230], rtol=1e-6)


def test_no_noise_or_rate_zero_changes_nothing():
    x = jnp.arange(12.0).reshape(3, 4)
    assert dropout(x, 0.1, None) is x
    assert dropout(x, 0.0, noise_from(KEY)) is x


@pytest.mark.parametrize("rate", [0.001, 0.999, -0.1])
def test_a_rate_that_bytes_cannot_meet_is_refused(rate):
    with pytest.raises(UserError, match=r"steps of 1/256"):
        dropout(jnp.ones(3), rate, noise_from(KEY))


def test_vmap_and_scan_draw_what_single_calls_draw():
    x = jnp.ones((5, 9))
    keys = jnp.stack([jax.random.key_data(stream_key(seed, "test")) for seed in range(3)])
    single = [dropout(x, 0.3, Noise(key, 7)) for key in keys]
    vmapped = jax.vmap(lambda key: dropout(x, 0.3, Noise(key, 7)))(keys)
    np.testing.assert_array_equal(vmapped, jnp.stack(single))

    noise = noise_from(KEY)
    _, scanned = jax.lax.scan(
        lambda carry, index: (carry, dropout(x, 0.3, at_site(noise, index))),
        None,
        jnp.arange(3, dtype=jnp.uint32),
    )
    expected = [dropout(x, 0.3, at_site(noise, index)) for index in range(3)]
    np.testing.assert_array_equal(scanned, jnp.stack(expected))


def test_the_gradient_passes_where_the_value_did():
    x = jnp.ones((8, 8))
    noise = noise_from(KEY)
    gradient = jax.grad(lambda x: dropout(x, 0.3, noise).sum())(x)
    np.testing.assert_array_equal(gradient, dropout(x, 0.3, noise))
