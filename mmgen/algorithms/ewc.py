"""Online elastic weight consolidation without task boundaries."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from mmgen.algorithms.base import (
    Algorithm,
    Feed,
    PyTree,
    Scalars,
    apply_update,
    loss_and_grad,
    next_state,
)
from mmgen.algorithms.regularise import check_regulariser, every, penalty, start_anchor
from mmgen.core.state import TrainState
from mmgen.memory.base import Memory
from mmgen.tasks.base import Task


def make_ewc(
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory | None = None,
    weight: float = 100.0,
    interval: int = 100,
    decay: float = 0.9,
) -> Algorithm:
    """Online EWC (Schwarz et al. 2018, section 4.2), task-free.

    Order: forward and backward of the stream batch, gradient of
    weight / 2 * sum(fisher * (params - anchor)^2) added, one update. The squared gradient of each
    stream batch is summed; every `interval` iterations the mean of these squares is added to
    `decay` times the old Fisher diagonal and the anchor moves to the new parameters. The squares
    are of a batch's mean gradient (the empirical Fisher up to the batch size), since gradients of
    single examples would cost as many passes.

    Cost: 1 forward, 1 backward; three copies of the parameters are kept.

    Raises:
      UserError: a negative weight, no interval, or a decay outside 0 .. 1.
    """
    check_regulariser(weight, interval, decay)

    def init(params: PyTree) -> PyTree:
        return start_anchor(params, "fisher", "squares")

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        held = state.extras
        stream = loss_and_grad(task, state.params, feed.stream, key)
        cost, pull = penalty(held["fisher"], state.params, held["anchor"], weight)
        grads = jax.tree.map(jnp.add, stream.grads, pull)
        params, opt_state = apply_update(
            optimizer, state.params, state.opt_state, grads, stream.targets
        )
        squares = jax.tree.map(lambda s, g: s + g**2, held["squares"], stream.grads)

        def consolidate(held: PyTree) -> PyTree:
            fisher = jax.tree.map(
                lambda f, s: decay * f + s / interval, held["fisher"], held["squares"]
            )
            zeros = jax.tree.map(jnp.zeros_like, fisher)
            return {"fisher": fisher, "squares": zeros, "anchor": params}

        extras = every(interval, state, consolidate, held | {"squares": squares})
        state = next_state(state, memory, feed, key, params, opt_state, stream, extras=extras)
        return state, {"loss": stream.loss, "penalty": cost}

    return Algorithm(draws=(), init=init, step=step)
