"""One update per stream batch and nothing else: vanilla, and every offline run.

The stream decides what this is: the shifting stream gives the vanilla (naive) baseline, one
shuffle gives "offline one pass", a new shuffle each epoch gives "offline".
"""

import optax
from jaxtyping import Array, Key

from mmgen.algorithms.base import (
    Algorithm,
    Feed,
    Scalars,
    apply_update,
    loss_and_grad,
    next_state,
    no_extras,
)
from mmgen.core.state import TrainState
from mmgen.memory.base import Memory
from mmgen.tasks.base import Task


def make_plain(
    task: Task, optimizer: optax.GradientTransformation, memory: Memory | None = None
) -> Algorithm:
    """Vanilla online gradient descent (VisCOLL ocl/naive.py:34-44).

    Order: forward and backward of the stream batch, update, insert. Cost: 1 forward, 1 backward.
    A memory is kept up to date if there is one, but never read.
    """

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        stream = loss_and_grad(task, state.params, feed.stream, key)
        new = apply_update(optimizer, state.params, state.opt_state, stream.grads, stream.targets)
        return next_state(state, memory, feed, key, *new, stream), {"loss": stream.loss}

    return Algorithm(draws=(), init=no_extras, step=step)
