"""EWC and SI follow their equations, consolidating every interval, whatever the stream does."""

import jax
import numpy as np
import optax
import pytest

from mmgen.algorithms.ewc import make_ewc
from mmgen.algorithms.plain import make_plain
from mmgen.algorithms.si import make_si
from mmgen.errors import UserError

RATE, STEPS = 0.5, 5
SETTINGS = {"weight": 3.0, "interval": 2, "decay": 0.5}


def slow_ewc(toy, feeds, keys):
    params = {name: np.array(value) for name, value in toy.params.items()}
    zeros = {name: 0 * value for name, value in params.items()}
    fisher, squares, anchor, penalties = zeros, zeros, params, []
    for t, (feed, key) in enumerate(zip(feeds, keys, strict=True)):
        grads = toy.gradient(params, feed.stream, key)
        drift = {name: params[name] - anchor[name] for name in params}
        penalties.append(sum(1.5 * (fisher[n] * drift[n] ** 2).sum() for n in params))
        squares = {n: squares[n] + grads[n] ** 2 for n in params}
        params = {n: params[n] - RATE * (grads[n] + 3.0 * fisher[n] * drift[n]) for n in params}
        if t % 2 == 1:
            fisher = {n: 0.5 * fisher[n] + squares[n] / 2 for n in params}
            squares, anchor = zeros, params
    return params, penalties


def slow_si(toy, feeds, keys):
    params = {name: np.array(value) for name, value in toy.params.items()}
    zeros = {name: 0 * value for name, value in params.items()}
    importance, path, anchor, penalties = zeros, zeros, params, []
    for t, (feed, key) in enumerate(zip(feeds, keys, strict=True)):
        grads = toy.gradient(params, feed.stream, key)
        drift = {name: params[name] - anchor[name] for name in params}
        penalties.append(sum(3.0 * (importance[n] * drift[n] ** 2).sum() for n in params))
        change = {n: -RATE * (grads[n] + 6.0 * importance[n] * drift[n]) for n in params}
        path = {n: path[n] - grads[n] * change[n] for n in params}
        params = {n: params[n] + change[n] for n in params}
        if t % 2 == 1:
            gained = {
                n: np.maximum(path[n], 0) / ((params[n] - anchor[n]) ** 2 + 0.1) for n in params
            }
            importance = {n: 0.5 * importance[n] + gained[n] for n in params}
            path, anchor = zeros, params
    return params, penalties


@pytest.mark.parametrize("make, slow", [(make_ewc, slow_ewc), (make_si, slow_si)])
def test_follows_the_slow_copy(toy, make, slow):
    optimizer = optax.sgd(RATE)
    algorithm = make(toy.task, optimizer, None, **SETTINGS)
    feeds = [toy.feed([3 * t, 3 * t + 1, 3 * t + 2]) for t in range(STEPS)]
    keys = list(jax.random.split(jax.random.key(0), STEPS))
    state, step, penalties = toy.state(algorithm, optimizer), jax.jit(algorithm.step), []
    for feed, key in zip(feeds, keys, strict=True):
        state, scalars = step(state, feed, key)
        penalties.append(float(scalars["penalty"]))
    params, expected = slow(toy, feeds, keys)
    np.testing.assert_allclose(penalties, expected, rtol=1e-3, atol=1e-7)
    assert penalties[:3] == [0.0, 0.0, 0.0] and penalties[3] > 0 and penalties[4] == 0
    for name, value in params.items():
        np.testing.assert_allclose(state.params[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [make_ewc, make_si])
def test_nothing_is_penalised_before_the_first_anchor(toy, make):
    optimizer = optax.sgd(RATE)
    feed, key = toy.feed([1, 2, 3]), jax.random.key(0)
    states = []
    for algorithm in (make(toy.task, optimizer, weight=1e6), make_plain(toy.task, optimizer)):
        state = toy.state(algorithm, optimizer)
        for _ in range(2):
            state, _ = jax.jit(algorithm.step)(state, feed, key)
        states.append(state)
    for name, value in states[1].params.items():
        np.testing.assert_allclose(states[0].params[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [make_ewc, make_si])
def test_extras_share_no_buffer(toy, make):
    """Or the donated state of the compiled step would name one buffer twice."""
    algorithm = make(toy.task, toy.optimizer())
    leaves = jax.tree.leaves((toy.params, algorithm.init(toy.params)))
    assert len({leaf.unsafe_buffer_pointer() for leaf in leaves}) == len(leaves) == 8


@pytest.mark.parametrize("make", [make_ewc, make_si])
def test_costs_one_forward_and_one_backward_pass(toy, make):
    assert toy.passes(make, toy.feed([1, 2])) == ([2], 1)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"weight": -1.0}, r"algorithm\.weight is -1\.0"),
        ({"interval": 0}, r"algorithm\.interval is 0"),
        ({"decay": 1.5}, r"algorithm\.decay is 1\.5"),
    ],
)
def test_bad_settings_are_refused(toy, settings, message):
    for make in (make_ewc, make_si):
        with pytest.raises(UserError, match=message):
            make(toy.task, toy.optimizer(), **settings)
