"""Experience replay: train on the stream batch, then on rows drawn from memory."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from mmgen.algorithms.base import (
    Algorithm,
    Feed,
    Gradient,
    PyTree,
    Scalars,
    apply_update,
    insert_stream,
    loss_and_grad,
    no_extras,
)
from mmgen.core.state import TrainState
from mmgen.errors import UserError
from mmgen.memory.base import Memory
from mmgen.tasks.base import Task

UPDATES = ("two_step", "joint")


def check_size(name: str, size: int) -> None:
    """Refuses a number of rows that cannot be drawn.

    Raises:
      UserError: `size` is not positive; `name` is the key that holds it.
    """
    if size < 1:
        raise UserError(f"algorithm.{name} is {size}; it must be at least 1.")


def replay_scalars(stream: Gradient, replay: Gradient) -> Scalars:
    """Both losses, and as `loss` their mean, or the stream's alone while there is no replay."""
    both = 0.5 * (stream.loss + replay.loss)
    return {
        "loss": jnp.where(replay.targets > 0, both, stream.loss),
        "loss_stream": stream.loss,
        "loss_replay": replay.loss,
    }


def _pooled(stream: Gradient, replay: Gradient) -> tuple[PyTree, Float[Array, ""]]:
    """Gradient of the mean loss over the targets of both batches together."""
    count = stream.targets + replay.targets
    weight = stream.targets / jnp.maximum(count, 1)

    def pool(ours: Array, theirs: Array) -> Array:
        return weight * ours + (1 - weight) * theirs

    return jax.tree.map(pool, stream.grads, replay.grads), count


def make_er(
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory,
    replay_size: int = 32,
    update: str = "two_step",
) -> Algorithm:
    """Experience replay (VisCOLL ocl/er.py:261-293).

    Order of "two_step": draw from memory (before the iteration), forward and backward of the
    stream batch, update, forward and backward of the replay batch with the updated weights,
    second update with the same moments, insert the stream batch. The second update is left
    undone while the memory is empty.

    "joint": one update from the mean loss over the targets of both batches.

    Cost: 2 forward, 2 backward, in one dispatch.

    Raises:
      UserError: `replay_size` is not positive, or `update` is neither of the two.
    """
    check_size("replay_size", replay_size)
    if update not in UPDATES:
        raise UserError(f"algorithm.update is {update!r}; choose one of {', '.join(UPDATES)}.")

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        stream_key, replay_key = jax.random.split(key)
        (replay_batch,) = feed.replay
        params, opt_state = state.params, state.opt_state
        stream = loss_and_grad(task, params, feed.stream, stream_key)
        if update == "two_step":
            params, opt_state = apply_update(
                optimizer, params, opt_state, stream.grads, stream.targets
            )
            replay = loss_and_grad(task, params, replay_batch, replay_key)
            params, opt_state = apply_update(
                optimizer, params, opt_state, replay.grads, replay.targets
            )
        else:
            replay = loss_and_grad(task, params, replay_batch, replay_key)
            grads, count = _pooled(stream, replay)
            params, opt_state = apply_update(optimizer, params, opt_state, grads, count)
        state = state.replace(
            step=state.step + 1,
            params=params,
            opt_state=opt_state,
            memory=insert_stream(state, memory, feed),
        )
        return state, replay_scalars(stream, replay)

    return Algorithm(draws=(replay_size,), init=no_extras, step=step)
