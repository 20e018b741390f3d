"""The vanilla step: one update from the stream batch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mmgen.algorithms.base import apply_update
from mmgen.algorithms.plain import make_plain


def test_one_update_of_the_mean_loss(toy):
    optimizer = optax.sgd(0.1)
    plain = make_plain(toy.task, optimizer)
    state = toy.state(plain, optimizer)
    feed, key = toy.feed([1, 2, -1]), jax.random.key(3)
    after, scalars = jax.jit(plain.step)(state, feed, key)

    (total, count), _ = jax.jit(toy.task.loss)(toy.params, feed.stream, key)
    grads = toy.gradient(toy.params, feed.stream, key)
    np.testing.assert_allclose(scalars["loss"], total / count, rtol=1e-5)
    for name, grad in grads.items():
        np.testing.assert_allclose(after.params[name], toy.params[name] - 0.1 * grad, rtol=1e-4)
    assert int(after.step) == 1
    assert after.memory.ids.tolist() == [-1] * toy.capacity, "no memory was given"


def test_keeps_a_memory_up_to_date(toy):
    optimizer = toy.optimizer()
    plain = make_plain(toy.task, optimizer, toy.memory)
    feed = toy.feed([4, 9, -1], insert_slot=[0, 1, toy.capacity])
    state, _ = jax.jit(plain.step)(toy.state(plain, optimizer), feed, jax.random.key(0))
    assert state.memory.ids.tolist() == [4, 9, -1, -1, -1, -1]
    assert int(state.memory.seen) == 2


def test_costs_one_forward_and_one_backward_pass(toy):
    assert toy.passes(make_plain, toy.feed([1, 2])) == ([2], 1)


def test_update_without_targets_is_undone(toy):
    """Momentum alone must not move the weights."""
    optimizer = toy.optimizer()
    ones = jax.tree.map(jnp.ones_like, toy.params)
    params, moments = apply_update(optimizer, toy.params, optimizer.init(toy.params), ones, 3.0)
    zeros = jax.tree.map(jnp.zeros_like, toy.params)
    same, same_moments = apply_update(optimizer, params, moments, zeros, jnp.float32(0))
    for new, old in zip(
        jax.tree.leaves((same, same_moments)), jax.tree.leaves((params, moments)), strict=True
    ):
        assert np.array_equal(new, old)
    moved, _ = apply_update(optimizer, params, moments, zeros, jnp.float32(1))
    assert not np.array_equal(moved["out"], params["out"])
