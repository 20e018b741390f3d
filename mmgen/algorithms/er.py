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
    check_size,
    loss_and_grad,
    next_state,
    no_extras,
)
from mmgen.core.state import TrainState
from mmgen.memory.base import Memory
from mmgen.settings.suggest import check_choice
from mmgen.tasks.base import Task

UPDATES = ("two_step", "joint")


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
    check_choice("algorithm.update", update, UPDATES)

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
        replayed = tuple((slots, replay.aux["nll"]) for slots in feed.replay_slot)
        state = next_state(state, memory, feed, key, params, opt_state, stream, replayed)
        return state, replay_scalars(stream, replay)

    return Algorithm(draws=(replay_size,), init=no_extras, step=step)
