"""Distillation from an earlier self (learning without forgetting), without task boundaries."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from mmgen.algorithms.base import (
    Algorithm,
    Feed,
    PyTree,
    Scalars,
    apply_update,
    loss_and_grad,
    next_state,
)
from mmgen.algorithms.regularise import check_regulariser, every
from mmgen.core.state import TrainState
from mmgen.data.schema import Batch
from mmgen.memory.base import Memory
from mmgen.tasks.base import Task


def distillation(
    student: Float[Array, "b m v"], teacher: Float[Array, "b m v"], batch: Batch
) -> Float[Array, ""]:
    """KL(teacher || student) in nats, mean over the masked tokens of the batch."""
    target = batch["target_mask"] & batch["mask"][:, None]
    log_teacher, log_student = jax.nn.log_softmax(teacher), jax.nn.log_softmax(student)
    kl = jnp.sum(jnp.exp(log_teacher) * (log_teacher - log_student), axis=-1)
    return jnp.sum(jnp.where(target, kl, 0)) / jnp.maximum(jnp.sum(target), 1)


def make_lwf(
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory | None = None,
    weight: float = 1.0,
    interval: int = 100,
) -> Algorithm:
    """Learning without forgetting (Li and Hoiem 2016), task-free.

    Order: forward of the teacher without dropout, forward and backward of the stream batch on
    its loss plus weight times `distillation`, one update. The teacher is a copy of the parameters
    that is renewed every `interval` iterations, so it is up to `interval` - 1 iterations old;
    before the first renewal nothing is distilled. Temperature 1: the published 2 presumes a head
    for each task.

    Cost: 2 forward, 1 backward; one copy of the parameters is kept.

    Raises:
      UserError: a negative weight or no interval.
    """
    check_regulariser(weight, interval, 0.0)

    def init(params: PyTree) -> PyTree:
        return {"teacher": jax.tree.map(jnp.copy, params)}  # A donated buffer has one owner.

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        batch = feed.stream
        teacher = task.logits(state.extras["teacher"], batch, None)
        taught = jnp.where(state.step >= interval, weight, 0.0)

        def distil(aux: dict[str, Array]) -> Float[Array, ""]:
            return taught * distillation(aux["logits"], teacher, batch)

        stream = loss_and_grad(task, state.params, batch, key, distil)
        params, opt_state = apply_update(
            optimizer, state.params, state.opt_state, stream.grads, stream.targets
        )
        extras = every(interval, state, lambda _: {"teacher": params}, state.extras)
        state = next_state(state, memory, feed, key, params, opt_state, stream, extras=extras)
        return state, {"loss": stream.loss, "penalty": distil(stream.aux)}

    return Algorithm(draws=(), init=init, step=step)
