"""Experience replay does what its docstring says, against a slow copy of it in numpy."""

import jax
import numpy as np
import optax
import pytest

from mmgen.algorithms.er import make_er
from mmgen.algorithms.plain import make_plain
from mmgen.errors import UserError
from mmgen.memory.plan import make_plan, memory_at

STEPS, STREAM, REPLAY = 20, 3, 2


def without_dropout(task):
    return task._replace(loss=lambda params, batch, key: task.loss(params, batch))


class SlowLearner:
    """The toy task's loss, gradient and Adam in numpy, one target at a time."""

    def __init__(self, params, learning_rate, eps):
        self.params = {name: np.array(value, np.float64) for name, value in params.items()}
        self.moments = {name: [0 * value, 0 * value] for name, value in self.params.items()}
        self.updates, self.learning_rate, self.eps = 0, learning_rate, eps

    def loss_and_grad(self, batch):
        word, out = self.params["word"], self.params["out"]
        grads = {name: 0 * value for name, value in self.params.items()}
        total, count = 0.0, 0
        for row, column in zip(*np.nonzero(batch["target_mask"]), strict=True):
            tokens, place = batch["tokens"][row], batch["span_positions"][row, column]
            hidden = np.mean([word[token] for token in tokens], axis=0) + word[place]
            scores = np.exp(hidden @ out)
            p = scores / scores.sum()
            target = batch["targets"][row, column]
            total, count = total - np.log(p[target]), count + 1
            p[target] -= 1
            grads["out"] += np.outer(hidden, p)
            grads["word"][place] += out @ p
            for token in tokens:
                grads["word"][token] += out @ p / len(tokens)
        return total, count, grads

    def update(self, grads):
        self.updates += 1
        for name, grad in grads.items():
            first, second = self.moments[name]
            first[:] = 0.9 * first + 0.1 * grad
            second[:] = 0.999 * second + 0.001 * grad**2
            mean = first / (1 - 0.9**self.updates)
            spread = np.sqrt(second / (1 - 0.999**self.updates))
            self.params[name] -= self.learning_rate * mean / (spread + self.eps)

    def er_step(self, stream, replay, update):
        total, count, grads = self.loss_and_grad(stream)
        if update == "two_step":
            self.update({name: grad / count for name, grad in grads.items()})
        replay_total, replay_count, replay_grads = self.loss_and_grad(replay)
        if update == "joint":
            both = count + replay_count
            self.update({name: (grads[name] + replay_grads[name]) / both for name in grads})
        elif replay_count:
            self.update({name: grad / replay_count for name, grad in replay_grads.items()})
        losses = [total / count] + ([replay_total / replay_count] if replay_count else [])
        return np.mean(losses)


@pytest.fixture(scope="module")
def rows():
    order = np.random.default_rng(4).permutation(STEPS * STREAM).astype(np.int32)
    order = order.reshape(STEPS, STREAM)
    order[-1, -1] = -1
    return order


@pytest.mark.parametrize("update", ["two_step", "joint"])
def test_golden_run(toy, rows, update):
    """20 steps: losses, parameters and memory of an independent slow implementation."""
    optimizer = toy.optimizer()
    er = make_er(without_dropout(toy.task), optimizer, toy.memory, REPLAY, update)
    plan = make_plan(toy.memory, rows, er.draws, seed=0)
    state = toy.state(er, optimizer)
    slow = SlowLearner(toy.params, 0.05, 1e-4)
    step = jax.jit(er.step)
    for t in range(STEPS):
        feed = toy.feed(rows[t], [plan.replay_ids[t]], plan.insert_slot[t], [plan.replay_slot[t]])
        state, scalars = step(state, feed, jax.random.key(t))
        expected = slow.er_step(feed.stream, feed.replay[0], update)
        np.testing.assert_allclose(scalars["loss"], expected, rtol=1e-4)
    assert int(state.step) == STEPS
    assert state.memory.ids.tolist() == memory_at(plan, toy.memory, rows, STEPS).ids.tolist()
    for name, value in state.params.items():
        np.testing.assert_allclose(value, slow.params[name], atol=2e-4)
    assert slow.updates == (2 * STEPS - 1 if update == "two_step" else STEPS)
    assert int(optax.tree.get(state.opt_state, "count")) == slow.updates


def test_replay_sees_the_updated_weights(toy):
    """Replaying the stream batch itself gives a lower loss: the first update was applied."""
    optimizer = toy.optimizer()
    er = make_er(without_dropout(toy.task), optimizer, toy.memory, 3)
    state = toy.state(er, optimizer)
    _, scalars = jax.jit(er.step)(state, toy.feed([1, 2, 3], [[1, 2, 3]]), jax.random.key(0))
    assert scalars["loss_replay"] < scalars["loss_stream"]
    np.testing.assert_allclose(
        scalars["loss"], (scalars["loss_stream"] + scalars["loss_replay"]) / 2
    )


@pytest.mark.parametrize("update", ["two_step", "joint"])
def test_empty_replay_is_no_update(toy, update):
    """What the stream update alone leaves: weights, moments and their count."""
    optimizer = toy.optimizer()
    er = make_er(without_dropout(toy.task), optimizer, toy.memory, 2, update)
    plain = make_plain(without_dropout(toy.task), optimizer, toy.memory)
    # Moments that are not zero: a second update would move the weights.
    warm, _ = jax.jit(plain.step)(toy.state(plain, optimizer), toy.feed([7, 8]), jax.random.key(0))
    feed = toy.feed([1, 2, 3], [[-1, -1]], [0, 1, 2])
    with_replay, scalars = jax.jit(er.step)(warm, feed, jax.random.key(1))
    without, plain_scalars = jax.jit(plain.step)(warm, feed, jax.random.key(1))
    for ours, theirs in zip(jax.tree.leaves(with_replay), jax.tree.leaves(without), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    assert int(optax.tree.get(with_replay.opt_state, "count")) == 2
    np.testing.assert_allclose(scalars["loss"], plain_scalars["loss"], rtol=1e-6)


def test_padded_rows_change_nothing(toy):
    optimizer = toy.optimizer()
    er = make_er(without_dropout(toy.task), optimizer, toy.memory, 2)
    state = toy.state(er, optimizer)
    step = jax.jit(er.step)
    short, _ = step(state, toy.feed([1, 2], [[5]], [0, 1]), jax.random.key(0))
    slots = [0, 6, 1, 6]
    padded, _ = step(state, toy.feed([1, -1, 2, -1], [[-1, 5]], slots), jax.random.key(0))
    assert padded.memory.ids.tolist() == short.memory.ids.tolist() == [1, 2, -1, -1, -1, -1]
    assert int(padded.memory.seen) == 2
    for name, value in short.params.items():
        np.testing.assert_allclose(padded.params[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("update", ["two_step", "joint"])
def test_costs_two_forward_and_two_backward_passes(toy, update):
    feed = toy.feed([1, 2, 3], [[4, 5]])
    assert toy.passes(make_er, feed, update=update) == ([3, 2], 2)


def test_bad_settings_are_refused(toy):
    with pytest.raises(UserError, match=r"algorithm\.update is 'both'"):
        make_er(toy.task, toy.optimizer(), toy.memory, update="both")
    with pytest.raises(UserError, match=r"algorithm\.replay_size is 0"):
        make_er(toy.task, toy.optimizer(), toy.memory, replay_size=0)
