"""Maximally interfering retrieval: replay what the coming update would hurt most."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from mmgen.algorithms.base import (
    Algorithm,
    Feed,
    PyTree,
    Scalars,
    apply_update,
    check_size,
    loss_and_grad,
    next_state,
    no_extras,
)
from mmgen.algorithms.er import replay_scalars
from mmgen.core.state import TrainState
from mmgen.data.schema import Batch
from mmgen.errors import UserError
from mmgen.memory.base import Memory
from mmgen.settings.suggest import check_choice
from mmgen.tasks.base import Task

AGGREGATES = ("avg", "max")
VIRTUAL_STEPS = ("adamw", "sgd", "none")


def interference(
    increase: Float[Array, "r m"], target_mask: Bool[Array, "r m"], aggregate: str, floor: bool
) -> Float[Array, " r"]:
    """How much a candidate's loss grows: per masked token ("avg") or at its worst token ("max").

    With `floor`, positions that are not masked count as 0 in the maximum, as in the release.
    """
    if aggregate == "avg":
        total = jnp.sum(jnp.where(target_mask, increase, 0), axis=1)
        return total / jnp.maximum(jnp.sum(target_mask, axis=1), 1)
    return jnp.max(jnp.where(target_mask, increase, 0 if floor else -jnp.inf), axis=1)


def pick(score: Float[Array, " r"], mask: Bool[Array, " r"], k: int) -> Int[Array, " k"]:
    """The k candidates of the highest score, real rows first; ties go to the earlier candidate.

    Candidates come in random order (`Memory.sample`), so that ties are broken at random.
    """
    return jax.lax.top_k(jnp.where(mask, score, -jnp.inf), k)[1]


def make_mir(
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory,
    candidates: int = 80,
    replay_size: int = 32,
    aggregate: str = "avg",
    virtual_step: str = "adamw",
    scoring_dropout: bool = False,
    as_released: bool = False,
    learning_rate: float = 0.0,
) -> Algorithm:
    """ER-MIR and ER-MIR-max (Aljundi et al. 2019; VisCOLL ocl/er.py:179-220, 327-386).

    Order: draw the candidates (before the iteration), forward and backward of the stream batch,
    virtual step, losses of the candidates before and after it, pick `replay_size` of them on the
    device, then as experience replay: stream update, replay of the picked rows with the updated
    weights, insert.

    The virtual step "adamw" is the update of the real optimizer with the real moments. As the
    stream pass is the same, its weights are those after the stream update, and nothing is
    computed twice. "sgd" takes a plain step of `learning_rate` instead; "none" switches scoring
    off and replays uniformly. `scoring_dropout` draws another dropout mask before and after.

    `as_released`: the stream pass is computed again for the update, with another dropout mask,
    and "max" counts unmasked positions as 0.

    Cost: 2 forward and 2 backward, plus 2 forward of the candidates; `as_released` adds 1 forward
    and 1 backward. "none" costs what experience replay costs.

    Raises:
      UserError: sizes that are not positive, fewer candidates than replayed rows, an unknown
        name, or "sgd" without a learning rate.
    """
    check_size("replay_size", replay_size)
    if candidates < replay_size:
        raise UserError(
            f"algorithm.candidates is {candidates}, fewer than algorithm.replay_size "
            f"{replay_size}, the number to be picked from them; raise it."
        )
    check_choice("algorithm.aggregate", aggregate, AGGREGATES)
    check_choice("algorithm.virtual_step", virtual_step, VIRTUAL_STEPS)
    if virtual_step == "sgd" and learning_rate <= 0:
        raise UserError("algorithm.virtual_step 'sgd' needs a positive learning rate.")

    def losses(params: PyTree, batch: Batch, key: Key[Array, ""]) -> Float[Array, "r m"]:
        return task.loss(params, batch, key if scoring_dropout else None)[1]["nll"]

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        stream_key, before_key, after_key, again_key, replay_key = jax.random.split(key, 5)
        (batch,) = feed.replay
        update = partial(apply_update, optimizer, state.params, state.opt_state)
        stream = loss_and_grad(task, state.params, feed.stream, stream_key)
        params, opt_state = update(stream.grads, stream.targets)

        score = jnp.zeros(batch["mask"].shape)
        if virtual_step != "none":
            virtual = params
            if virtual_step == "sgd":
                virtual = jax.tree.map(
                    lambda p, g: p - learning_rate * g, state.params, stream.grads
                )
            increase = losses(virtual, batch, after_key) - losses(state.params, batch, before_key)
            score = interference(increase, batch["target_mask"], aggregate, as_released)
        picked = pick(score, batch["mask"], replay_size)
        replay_batch = {name: values[picked] for name, values in batch.items()}

        if as_released and virtual_step != "none":
            stream = loss_and_grad(task, state.params, feed.stream, again_key)
            params, opt_state = update(stream.grads, stream.targets)
        replay = loss_and_grad(task, params, replay_batch, replay_key)
        params, opt_state = apply_update(optimizer, params, opt_state, replay.grads, replay.targets)
        replayed = tuple((slots[picked], replay.aux["nll"]) for slots in feed.replay_slot)
        state = next_state(state, memory, feed, key, params, opt_state, stream, replayed)
        real = replay_batch["mask"].astype(jnp.float32)
        mean_score = jnp.sum(score[picked] * real) / jnp.maximum(jnp.sum(real), 1)
        return state, replay_scalars(stream, replay) | {"interference": mean_score}

    return Algorithm(draws=(candidates,), init=no_extras, step=step, picks=(replay_size,))
