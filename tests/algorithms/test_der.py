"""Dark experience replay keeps each stored row's logits and pulls the model back to them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmgen.algorithms.der import make_der
from mmgen.algorithms.stored_logits import (
    MAX_BYTES,
    empty_logits,
    logit_distance,
    stored_bytes,
    write_logits,
)
from mmgen.errors import UserError
from mmgen.memory.plan import make_plan


def without_dropout(task):
    return task._replace(
        loss=lambda params, batch, key: task.loss(params, batch),
        logits=lambda params, batch, key: task.logits(params, batch),
    )


@pytest.fixture
def sizes(toy):
    return {"width": toy.masked, "rows": toy.vocabulary}


@pytest.mark.parametrize("top_k", [0, 3])
def test_slots_hold_the_logits_of_their_rows(toy, sizes, top_k):
    """After many overwrites, with weights that never change; so the distance is rounding."""
    optimizer = optax.sgd(0.0)
    der = make_der(
        without_dropout(toy.task), optimizer, toy.memory, **sizes, replay_size=2, top_k=top_k
    )
    rows = np.arange(24, dtype=np.int32).reshape(8, 3)
    plan = make_plan(toy.memory, rows, der.draws, 0)
    state, step = toy.state(der, optimizer), jax.jit(der.step)
    for t in range(8):
        slots = [plan.replay_slot[t]]
        feed = toy.feed(rows[t], [plan.replay_ids[t]], plan.insert_slot[t], slots)
        state, scalars = step(state, feed, jax.random.key(t))
        assert scalars["penalty"] < 1e-5
    held = toy.batch(np.asarray(state.memory.ids))
    logits = toy.task.logits(toy.params, held)
    if top_k:
        logits, index = jax.lax.top_k(logits, top_k)
        assert np.array_equal(index, state.extras["index"])
    np.testing.assert_allclose(state.extras["logits"], logits, atol=2e-3)
    assert state.extras["logits"].dtype == jnp.float16


def test_one_update_from_the_sum(toy, sizes):
    """DER++; with a label weight of 0 the second batch is not drawn."""
    label_weight = 0.7
    optimizer, task = optax.sgd(0.5), without_dropout(toy.task)
    der = make_der(
        task, optimizer, toy.memory, **sizes, replay_size=2, weight=0.3, label_weight=label_weight
    )
    then = np.random.default_rng(0).normal(size=(2, toy.masked, toy.vocabulary))
    then = jnp.float32(then)
    state = toy.state(der, optimizer)
    state = state.replace(extras=write_logits(state.extras, jnp.array([4, 1]), then))
    replay, slots = [[7, -1], [8, 9]], [[4, toy.capacity], [1, 1]]
    assert der.draws == (2, 2)
    feed = toy.feed([1, 2, 3], replay, [0, toy.capacity, 1], slots)
    new, scalars = jax.jit(der.step)(state, feed, jax.random.key(0))

    def dark(params):
        target = feed.replay[0]["target_mask"][..., None]
        squares = (task.logits(params, feed.replay[0], None) - then.astype(jnp.float16)) ** 2
        return 0.3 * jnp.sum(squares * target) / (target.sum() * toy.vocabulary)

    grads = toy.gradient(toy.params, feed.stream)
    penalty, pull = jax.jit(jax.value_and_grad(dark))(toy.params)
    labels = toy.gradient(toy.params, feed.replay[-1])
    for name, value in toy.params.items():
        total = grads[name] + pull[name] + label_weight * labels[name]
        np.testing.assert_allclose(new.params[name], value - 0.5 * total, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(scalars["penalty"], penalty, rtol=1e-3)
    stored = new.extras["logits"]
    logits = task.logits(toy.params, feed.stream, None)
    np.testing.assert_allclose(stored[jnp.array([0, 1])], logits[jnp.array([0, 2])], atol=2e-3)


def test_empty_memory_adds_nothing(toy, sizes):
    optimizer = optax.sgd(0.5)
    der = make_der(without_dropout(toy.task), optimizer, toy.memory, **sizes, replay_size=2)
    feed = toy.feed([1, 2], [[-1, -1]])
    state, scalars = jax.jit(der.step)(toy.state(der, optimizer), feed, jax.random.key(0))
    grads = toy.gradient(toy.params, feed.stream)
    assert scalars["penalty"] == 0
    np.testing.assert_allclose(
        state.params["out"], toy.params["out"] - 0.5 * grads["out"], rtol=1e-4, atol=1e-6
    )


def test_rest_of_the_distribution_counts():
    """With the same kept logits, a change of the others shows in the log-sum-exp alone."""
    logits = jnp.array([[[3.0, 2.0, 0.0, -1.0]]])
    stored = write_logits(empty_logits(1, 1, 4, 2), jnp.array([0]), logits)
    target = jnp.array([[True]])
    measure = jax.jit(logit_distance)
    assert measure(stored, jnp.array([0]), logits, target) < 1e-5
    other = logits.at[0, 0, 3].set(2.0)
    change = np.log(np.exp(other).sum()) - np.log(np.exp(logits).sum())
    distance = measure(stored, jnp.array([0]), other, target)
    np.testing.assert_allclose(distance, change**2 / 3, rtol=2e-2)


def test_bytes(toy):
    for top_k in (0, 3):
        stored = empty_logits(5, 2, toy.vocabulary, top_k)
        assert sum(part.nbytes for part in stored.values()) == stored_bytes(
            5, 2, toy.vocabulary, top_k
        )
    assert stored_bytes(10_000, 8, 30_600, 64) == 10_000 * 8 * (64 * 4 + 2) < MAX_BYTES
    assert empty_logits(1, 1, 2**16 + 1, 1)["index"].dtype == jnp.int32


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"weight": 0.0}, r"algorithm\.weight is 0\.0"),
        ({"replay_size": 0}, r"algorithm\.replay_size is 0"),
    ],
)
def test_bad_settings_are_refused(toy, sizes, settings, message):
    with pytest.raises(UserError, match=message):
        make_der(toy.task, toy.optimizer(), toy.memory, **sizes, **settings)


def test_what_does_not_fit_is_refused(toy, sizes):
    with pytest.raises(UserError, match=r"would take 4\.6 GiB .* set algorithm\.top_k to 64"):
        empty_logits(10_000, 8, 30_600, 0)
    with pytest.raises(UserError, match=r"algorithm\.top_k is 12"):
        empty_logits(5, 2, 11, 12)
    with pytest.raises(UserError, match=r"memory\.policy has no plan"):
        make_der(toy.task, toy.optimizer(), toy.memory._replace(planned=False), **sizes)


def test_costs(toy, sizes):
    one, two = toy.feed([1, 2], [[3]]), toy.feed([1, 2], [[3], [4]])
    assert toy.passes(make_der, one, **sizes, replay_size=1) == ([2, 1], 2)
    assert toy.passes(make_der, two, **sizes, replay_size=1, label_weight=1.0) == ([2, 1, 1], 3)
