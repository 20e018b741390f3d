"""Dark experience replay: keep what the model once answered, not only what was right."""

import jax
import optax
from jaxtyping import Array, Float, Key

from mmgen.algorithms.base import (
    Algorithm,
    Feed,
    PyTree,
    Scalars,
    apply_update,
    check_size,
    loss_and_grad,
    next_state,
)
from mmgen.algorithms.stored_logits import empty_logits, logit_distance, write_logits
from mmgen.core.state import TrainState
from mmgen.errors import UserError
from mmgen.memory.base import Memory
from mmgen.tasks.base import Task


def make_der(
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory,
    width: int,
    rows: int,
    replay_size: int = 32,
    weight: float = 0.5,
    label_weight: float = 0.0,
    top_k: int = 0,
) -> Algorithm:
    """DER, and DER++ if `label_weight` is positive (Buzzega et al. 2020, equations 6 and 7).

    Order: draw (before the iteration) one batch, for DER++ two; forward and backward of each at
    the same weights: the stream's loss, `weight` times the distance of the first batch's logits
    from those stored, `label_weight` times the second one's loss; one update from the sum; store
    the logits of the stream pass, dropout included, where the examples are inserted. An empty
    memory adds nothing.

    Logits are kept at masked positions only, in float16: all of them, or the `top_k` highest and
    their log-sum-exp (`stored_bytes` gives the bytes).

    Cost: 2 forward, 2 backward (DER++ 3 and 3), 1 update.

    Args:
      width: masked positions of a row. rows: rows of the word table.

    Raises:
      UserError: sizes or weights that are not positive, a memory without a plan, or logits that
        would not fit.
    """
    check_size("replay_size", replay_size)
    if weight <= 0 or label_weight < 0:
        raise UserError(
            f"algorithm.weight is {weight} and algorithm.label_weight {label_weight}; the first "
            "must be positive, the second 0 (DER) or more (DER++)."
        )
    if not memory.planned:
        raise UserError(
            "algorithm.name 'der' stores logits where the plan inserts an example, but this "
            "memory.policy has no plan; choose another one, e.g. 'reservoir'."
        )
    draws = (replay_size, replay_size) if label_weight else (replay_size,)

    def init(params: PyTree) -> PyTree:
        del params
        return empty_logits(memory.capacity, width, rows, top_k)

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        stream_key, dark_key, label_key = jax.random.split(key, 3)
        stream = loss_and_grad(task, state.params, feed.stream, stream_key)

        def distance(params: PyTree) -> Float[Array, ""]:
            batch = feed.replay[0]
            logits = task.logits(params, batch, dark_key)
            target = batch["target_mask"] & batch["mask"][:, None]
            return weight * logit_distance(state.extras, feed.replay_slot[0], logits, target)

        dark, dark_grads = jax.value_and_grad(distance)(state.params)
        grads = optax.tree.add(stream.grads, dark_grads)
        scalars = {"loss": stream.loss, "penalty": dark}
        if label_weight:
            labels = loss_and_grad(task, state.params, feed.replay[1], label_key)
            grads = optax.tree.add_scale(grads, label_weight, labels.grads)
            scalars["loss_replay"] = labels.loss
        new = apply_update(optimizer, state.params, state.opt_state, grads, stream.targets)
        extras = write_logits(state.extras, feed.insert_slot, stream.aux["logits"])
        return next_state(state, memory, feed, key, *new, stream, extras=extras), scalars

    return Algorithm(draws=draws, init=init, step=step)
