"""A toy masked-token task that an algorithm can train in microseconds, and its batches."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmgen.algorithms.base import Feed
from mmgen.core.state import TrainState
from mmgen.memory.reservoir import make_reservoir
from mmgen.tasks.base import Task

VOCABULARY, HIDDEN, POSITIONS, MASKED = 11, 4, 5, 2
CAPACITY, RATE = 6, 0.2


class Passes(NamedTuple):
    """Forward and backward passes, counted while a step is traced."""

    forward: list
    backward: list


def init(key, batch):
    del batch
    word, out = jax.random.split(key)
    return {
        "word": 0.5 * jax.random.normal(word, (VOCABULARY, HIDDEN)),
        "out": 0.5 * jax.random.normal(out, (HIDDEN, VOCABULARY)),
    }


def logits(params, batch, key=None):
    """Softmax over the mean of the text's vectors plus the vector of the position."""
    context = params["word"][batch["tokens"]].mean(1)
    if key is not None:
        context = context * jax.random.bernoulli(key, 1 - RATE, context.shape) / (1 - RATE)
    hidden = context[:, None] + params["word"][batch["span_positions"]]
    return hidden @ params["out"]


def loss(params, batch, key=None):
    scores = logits(params, batch, key)
    log_p = jax.nn.log_softmax(scores)
    weight = (batch["target_mask"] & batch["mask"][:, None]).astype(jnp.float32)
    nll = -jnp.take_along_axis(log_p, batch["targets"][..., None], axis=-1)[..., 0] * weight
    return (nll.sum(), weight.sum()), {"nll": nll, "logits": scores}


def make_batch(ids):
    """Rows are functions of their id, as in a data set; a negative id is padding."""
    ids = np.asarray(ids, np.int32)
    rows = [np.random.default_rng(max(i, 0)) for i in ids]
    real = ids >= 0
    target_mask = np.stack([r.random(MASKED) < 0.7 for r in rows])
    target_mask[:, 0] = True
    target_mask &= real[:, None]
    tokens = np.stack([r.integers(1, VOCABULARY, POSITIONS) for r in rows])
    return {
        "ids": ids,
        "mask": real,
        "tokens": np.where(real[:, None], tokens, 0).astype(np.int32),
        "span_positions": np.stack([r.integers(0, POSITIONS, MASKED) for r in rows]) * target_mask,
        "targets": np.stack([r.integers(1, VOCABULARY, MASKED) for r in rows]) * target_mask,
        "target_mask": target_mask,
    }


@jax.jit
def _gradient(params, batch, key):
    def mean(params):
        (total, count), _ = loss(params, batch, key)
        return total / count

    return jax.grad(mean)(params)


class Toy:
    """Everything a test of an algorithm needs, on one tiny set of shapes."""

    capacity = CAPACITY
    vocabulary = VOCABULARY
    masked = MASKED
    task = Task(init, loss, lambda params, batch: {"logits": logits(params, batch)}, logits)
    batch = staticmethod(make_batch)

    def __init__(self):
        self.memory = make_reservoir(CAPACITY)
        self.params = jax.jit(init)(jax.random.key(0), ())

    def optimizer(self, learning_rate=0.05):
        return optax.adam(learning_rate, eps=1e-4)

    def state(self, algorithm, optimizer, memory=None):
        memory = memory or self.memory
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=self.params,
            opt_state=optimizer.init(self.params),
            memory=memory.init(),
            extras=algorithm.init(self.params),
        )

    def feed(self, stream, replay=(), insert_slot=None, replay_slot=None, side=()):
        """`stream` and every entry of `replay` are lists of ids."""
        insert = np.full(len(stream), CAPACITY) if insert_slot is None else insert_slot
        slots = replay_slot or [np.full(len(r), CAPACITY) for r in replay]
        return Feed(
            stream=make_batch(stream),
            replay=tuple(make_batch(r) for r in replay),
            insert_slot=np.asarray(insert, np.int32),
            replay_slot=tuple(np.asarray(s, np.int32) for s in slots),
            side=side,
        )

    def gradient(self, params, batch, key=None):
        """Of the mean loss, straight from the definition; a dict of numpy."""
        return jax.tree.map(np.asarray, _gradient(params, batch, key))

    def counted(self):
        """The task, and the passes that tracing it has cost so far."""
        passes = Passes([], [])

        @jax.custom_vjp
        def tap(params):
            return params

        def forward(params):
            return params, None

        def backward(_, grads):
            passes.backward.append(1)
            return (grads,)

        tap.defvjp(forward, backward)

        def counted_loss(params, batch, key=None):
            passes.forward.append(len(batch["ids"]))
            return loss(tap(params), batch, key)

        def counted_logits(params, batch, key=None):
            passes.forward.append(len(batch["ids"]))
            return logits(tap(params), batch, key)

        return self.task._replace(loss=counted_loss, logits=counted_logits), passes

    def passes(self, make, feed, memory=None, **settings):
        """(rows of every forward pass, number of backward passes) of one step."""
        task, passes = self.counted()
        optimizer = self.optimizer()
        algorithm = make(task, optimizer, memory or self.memory, **settings)
        state = jax.eval_shape(lambda: self.state(algorithm, optimizer, memory))
        passes.forward.clear()
        jax.eval_shape(algorithm.step, state, feed, jax.random.key(0))
        return passes.forward, len(passes.backward)


@pytest.fixture(scope="session")
def toy():
    return Toy()
