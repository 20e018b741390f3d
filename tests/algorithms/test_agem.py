"""A-GEM never updates against the reference gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.algorithms.agem import make_agem, project
from mmgen.errors import UserError

jitted_project = jax.jit(project)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-3, 1e3), opposed=st.booleans())
def test_projection_never_conflicts(seed, scale, opposed):
    """The dot product is never negative beyond float32's rounding of it."""
    rng = np.random.default_rng(seed)
    reference = {"a": rng.normal(size=(3, 4)), "b": rng.normal(size=5)}
    noise = jax.tree.map(lambda r: rng.normal(size=r.shape), reference)
    sign = -1.0 if opposed else 0.2
    grads = jax.tree.map(lambda r, n: scale * (sign * r + n), reference, noise)
    grads, reference = jax.tree.map(jnp.float32, (grads, reference))
    projected, violation = jitted_project(grads, reference)
    before, after = (float(optax.tree.vdot(g, reference)) for g in (grads, projected))
    lengths = float(optax.tree.norm(grads) * optax.tree.norm(reference))
    assert after >= -1e-6 * lengths
    assert violation == (before < 0)
    if before >= 0:
        assert all(jnp.array_equal(projected[name], grads[name]) for name in grads)
    else:  # What is taken away is along the reference, and no more than needed.
        assert abs(after) <= 1e-6 * lengths


def test_zero_reference_is_no_constraint():
    grads = {"a": jnp.array([1.0, -2.0])}
    projected, violation = project(grads, jax.tree.map(jnp.zeros_like, grads))
    assert jnp.array_equal(projected["a"], grads["a"]) and violation == 0


@pytest.mark.parametrize("reference, violated", [([4, 5, 6], False), ([5, 6, 7], True)])
def test_step_is_one_update_with_the_projected_gradient(toy, reference, violated):
    optimizer = optax.sgd(0.1)
    agem = make_agem(toy.task, optimizer, toy.memory, 3)
    feed, key = toy.feed([1, 2], [reference], [0, 1]), jax.random.key(2)
    stream_key, reference_key = jax.random.split(key)

    g = toy.gradient(toy.params, feed.stream, stream_key)
    r = toy.gradient(toy.params, feed.replay[0], reference_key)
    flat_g, flat_r = (np.concatenate([np.ravel(v) for v in tree.values()]) for tree in (g, r))
    dot = flat_g @ flat_r
    if dot < 0:
        flat_g = flat_g - dot / (flat_r @ flat_r) * flat_r
    state, scalars = jax.jit(agem.step)(toy.state(agem, optimizer), feed, key)
    moved = np.concatenate([np.ravel(state.params[name] - toy.params[name]) for name in g])
    np.testing.assert_allclose(moved, -0.1 * flat_g, rtol=1e-3, atol=1e-6)
    assert scalars["violation"] == (dot < 0) == violated
    assert state.memory.ids.tolist() == [1, 2, -1, -1, -1, -1]


def test_empty_memory_constrains_nothing(toy):
    optimizer = toy.optimizer()
    agem = make_agem(toy.task, optimizer, toy.memory, 2)
    state, scalars = jax.jit(agem.step)(
        toy.state(agem, optimizer), toy.feed([1, 2], [[-1, -1]]), jax.random.key(0)
    )
    assert scalars["violation"] == 0 and scalars["loss_reference"] == 0
    assert not np.array_equal(state.params["out"], toy.params["out"])


def test_costs_two_forward_and_two_backward_passes(toy):
    assert toy.passes(make_agem, toy.feed([1, 2], [[3, 4, 5]])) == ([3, 2], 2)


def test_bad_settings_are_refused(toy):
    with pytest.raises(UserError, match=r"algorithm\.reference_size is -1"):
        make_agem(toy.task, toy.optimizer(), toy.memory, reference_size=-1)
