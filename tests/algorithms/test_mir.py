"""MIR replays the candidates that the stream's update hurts most."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from mmgen.algorithms.er import make_er
from mmgen.algorithms.mir import interference, make_mir, pick
from mmgen.errors import UserError

SMALL = {"candidates": 4, "replay_size": 1, "learning_rate": 0.3}


def without_dropout(task):
    return task._replace(loss=lambda params, batch, key: task.loss(params, batch))


@pytest.fixture(scope="module")
def planted(toy):
    """Candidates are the stream's example, but the third has another target: it alone is hurt."""
    feed = toy.feed([1, 1, 1], [[1, 1, 1, 1]], [0, 1, 2])
    candidates = feed.replay[0]
    assert not np.isin(10, candidates["targets"])
    candidates["targets"][2] = np.where(candidates["target_mask"][2], 10, 0)
    return feed


@pytest.fixture(scope="module")
def after_replaying_it(toy, planted):
    """State after experience replay with the third candidate alone, and the loss."""
    optimizer = toy.optimizer()
    er = make_er(without_dropout(toy.task), optimizer, toy.memory, 1)
    row = {name: values[2:3] for name, values in planted.replay[0].items()}
    feed = planted._replace(replay=(row,))
    return jax.jit(er.step)(toy.state(er, optimizer), feed, jax.random.key(0))


@pytest.mark.parametrize("virtual_step, aggregate", [("adamw", "avg"), ("sgd", "max")])
def test_replays_the_planted_candidate(toy, planted, after_replaying_it, virtual_step, aggregate):
    optimizer = toy.optimizer()
    settings = SMALL | {"virtual_step": virtual_step, "aggregate": aggregate}
    mir = make_mir(without_dropout(toy.task), optimizer, toy.memory, **settings)
    state, scalars = jax.jit(mir.step)(toy.state(mir, optimizer), planted, jax.random.key(0))
    expected, er_scalars = after_replaying_it
    for ours, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(scalars["loss"], er_scalars["loss"], rtol=1e-5)
    assert scalars["interference"] > 0


def test_virtual_step_is_the_stream_update(toy, planted):
    """Interference is measured at the weights after the real update, with the real moments."""
    optimizer, task = toy.optimizer(), without_dropout(toy.task)
    planted = planted._replace(replay=(toy.batch([2, 3, 4, 5]),))
    mir = make_mir(task, optimizer, toy.memory, candidates=4, replay_size=4)
    state = toy.state(mir, optimizer)
    step = jax.jit(mir.step)
    state, _ = step(state, planted, jax.random.key(0))  # Moments that are not zero.
    _, scalars = step(state, planted, jax.random.key(0))
    nothing = planted._replace(replay=(toy.batch([-1, -1, -1, -1]),))
    after, _ = step(state, nothing, jax.random.key(0))
    batch = planted.replay[0]
    before_nll, after_nll = (task.loss(s.params, batch, None)[1]["nll"] for s in (state, after))
    tokens = batch["target_mask"].sum(1)
    expected = ((after_nll - before_nll).sum(1) / tokens).mean()
    np.testing.assert_allclose(scalars["interference"], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("scoring_dropout", [False, True])
def test_scores_are_noisy_only_with_scoring_dropout(toy, scoring_dropout):
    """Without a stream example no weight changes: what is left of the scores is dropout's noise."""
    optimizer, feed = toy.optimizer(), toy.feed([-1, -1], [[2, 3, 4, 5]])
    settings = {"candidates": 4, "replay_size": 4, "scoring_dropout": scoring_dropout}
    mir = make_mir(toy.task, optimizer, toy.memory, **settings)
    step, state = jax.jit(mir.step), toy.state(mir, optimizer)
    found = [float(step(state, feed, jax.random.key(seed))[1]["interference"]) for seed in (0, 1)]
    assert (found == [0.0, 0.0]) != scoring_dropout
    assert (found[0] != found[1]) == scoring_dropout


def test_scores():
    increase = jnp.array([[1.0, 3.0], [2.5, 9.0], [-2.0, -1.0]])
    target = jnp.array([[True, True], [True, False], [True, False]])
    assert interference(increase, target, "avg", False).tolist() == [2.0, 2.5, -2.0]
    assert interference(increase, target, "max", False).tolist() == [3.0, 2.5, -2.0]
    assert interference(increase, target, "max", True).tolist() == [3.0, 2.5, 0.0]


def test_pick_takes_the_highest_real_rows():
    score = jnp.array([0.1, 9.0, -3.0, 0.7])
    assert pick(score, jnp.array([True, False, True, True]), 3).tolist() == [3, 0, 2]


def test_picks_uniformly_without_scores(toy):
    """Candidates come in random order, so that equal scores are a uniform draw."""
    state = toy.memory.init().replace(seen=jnp.int32(toy.capacity))

    def picks(key):
        slots = toy.memory.sample(state, key, 4)
        return slots[pick(jnp.zeros(4), slots < toy.capacity, 2)]

    runs = 3000
    picked = jax.jit(jax.vmap(picks))(jax.random.split(jax.random.key(0), runs))
    pairs = np.sort(np.asarray(picked), axis=1)
    observed = np.bincount(pairs[:, 0] * toy.capacity + pairs[:, 1])
    observed = observed[observed > 0]
    assert len(observed) == 15, "every pair of six slots"
    expected = runs / 15
    assert chi2.sf(np.sum((observed - expected) ** 2 / expected), 14) > 1e-5


def test_costs(toy):
    feed = toy.feed([1, 2], [[3, 4, 5]])
    sizes = {"candidates": 3, "replay_size": 1}
    assert toy.passes(make_mir, feed, **sizes) == ([2, 3, 3, 1], 2)
    assert toy.passes(make_mir, feed, **sizes, as_released=True) == ([2, 3, 3, 2, 1], 3)
    assert toy.passes(make_mir, feed, **sizes, virtual_step="none") == ([2, 1], 2)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"candidates": 10, "replay_size": 32}, "candidates is 10, fewer than"),
        ({"aggregate": "mean"}, "aggregate is 'mean', which is not one"),
        ({"virtual_step": "adam"}, "did you mean 'adamw'"),
        ({"virtual_step": "sgd"}, "needs a positive learning rate"),
    ],
)
def test_bad_settings_are_refused(toy, settings, message):
    with pytest.raises(UserError, match=message):
        make_mir(toy.task, toy.optimizer(), toy.memory, **settings)
