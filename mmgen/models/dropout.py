"""Dropout from packed threefry bytes, numbered by site instead of by a tree of keys.

Each place of a model that drops has a number, its site. The random bits of a pass are threefry of
the pass's one key over the counter (site, element), so no key is ever split: twenty splits and
draws of `jax.random` in a model took three quarters of its compile time. One byte per element,
eight to a counter, is what makes the bits cheap to draw.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt, UInt8, UInt32

from mmgen.errors import UserError

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


class Noise(NamedTuple):
    """Where a pass's random bits come from.

    Attributes:
      key: the key's two words.
      site: number of the next site to drop. At least 1: `split` and `fold_in` of the same key read
        the counters (0, i).
      rows: for states whose rows were taken out of a larger array, which rows of it: they lose
        what they would lose there. Its shape is that of the states but for the last axis.
    """

    key: UInt32[Array, "2"]
    site: UInt32[Array, ""] | int
    rows: Int[Array, "*lead"] | None = None


def noise_from(key: Key[Array, ""] | None) -> Noise | None:
    """The noise of a pass, from site 1; `key` is a threefry key, None switches dropout off."""
    return None if key is None else Noise(jax.random.key_data(key), 1)


def at_site(noise: Noise | None, offset: UInt[Array, ""] | int) -> Noise | None:
    """The noise `offset` sites further on."""
    return None if noise is None else noise._replace(site=noise.site + offset)


def site_blocks(noise: Noise | None, *sizes: int) -> list[Noise | None]:
    """One noise for each of consecutive blocks of `sizes` sites."""
    return [at_site(noise, sum(sizes[:index])) for index in range(len(sizes))]


def dropped_of_256(rate: float) -> int:
    """Of 256 byte values, how many drop: 0.1 -> 26, so the rate in effect is 26/256 = 0.1016.

    A tenth cannot be met exactly with one random byte per element. The released models drop .1
    exactly; kept values are scaled by the inverse of the probability in effect, so the expectation
    is theirs.

    Raises:
      UserError: a rate that would drop nothing although it is not 0, or everything.
    """
    dropped = round(rate * 256)
    if (dropped == 0 and rate != 0) or not 0 <= dropped < 256:
        raise UserError(
            f"config.model.dropout is {rate}, but dropout goes in steps of 1/256; give 0 or a rate "
            "from 0.002 to 0.998."
        )
    return dropped


def dropout(x: Float[Array, "*shape"], rate: float, noise: Noise | None) -> Float[Array, "*shape"]:
    """Zeroes each element with probability `dropped_of_256(rate) / 256` and rescales the rest."""
    if noise is None or rate == 0:
        return x
    dropped = dropped_of_256(rate)
    keep = random_bytes(noise, x.shape) >= dropped
    return jnp.where(keep, x * (256 / (256 - dropped)), 0.0)


@functools.partial(jax.jit, static_argnames="shape")
def random_bytes(noise: Noise, shape: tuple[int, ...]) -> UInt8[Array, "*shape"]:
    """Uniform bytes at the noise's site.

    Counters lie along the last axis, so a sharded batch axis draws its own rows only. Jitted for
    the sake of tracing, of which a hundred operations per site were a third.
    """
    *lead, last = shape
    counters = (*lead, -(-last // 8))
    if noise.rows is None:
        strides = [math.prod(counters[axis + 1 :]) for axis in range(len(counters))]
        element = sum(
            jax.lax.broadcasted_iota(jnp.uint32, counters, axis) * jnp.uint32(stride)
            for axis, stride in enumerate(strides)
        )
    else:
        first = noise.rows.astype(jnp.uint32) * jnp.uint32(counters[-1])
        element = first[..., None] + jnp.arange(counters[-1], dtype=jnp.uint32)
    site = jnp.full_like(element, noise.site)
    # Joined before they are cut into bytes: XLA would otherwise hash again for every byte.
    words = jnp.concatenate(threefry2x32(noise.key, site, element), axis=-1)
    return jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(*lead, -1)[..., :last]


def threefry2x32(
    key: UInt32[Array, "2"], high: UInt32[Array, "..."], low: UInt32[Array, "..."]
) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """The 20-round Threefry-2x32 block of Salmon et al. 2011, as `jax.random` uses it.

    Written out because jax's own runs as a loop over arrays on CPU: seven times the compile time
    and twice the run time of this one fused pass.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY))
    high, low = high + schedule[0], low + schedule[1]
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            high = high + low
            low = (low << jnp.uint32(rotation)) | (low >> jnp.uint32(32 - rotation))
            low = low ^ high
        high = high + schedule[(block + 1) % 3]
        low = low + schedule[(block + 2) % 3] + jnp.uint32(block + 1)
    return high, low
