"""Synaptic intelligence without task boundaries."""

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


def make_si(
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory | None = None,
    weight: float = 1.0,
    interval: int = 100,
    decay: float = 1.0,
    damping: float = 0.1,
) -> Algorithm:
    """Synaptic intelligence (Zenke et al. 2017, equations 3 to 5), task-free.

    Order: forward and backward of the stream batch, gradient of
    weight * sum(importance * (params - anchor)^2) added, one update. Each parameter collects
    minus the loss's gradient times its own change. Every `interval` iterations what it collected,
    if positive, over the square of its change since the anchor plus `damping`, is added to
    `decay` times its importance, and the anchor moves to the new parameters.

    Cost: 1 forward, 1 backward; three copies of the parameters are kept.

    Raises:
      UserError: a negative weight, no interval, or a decay outside 0 .. 1.
    """
    check_regulariser(weight, interval, decay)

    def init(params: PyTree) -> PyTree:
        return start_anchor(params, "importance", "path")

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        held = state.extras
        stream = loss_and_grad(task, state.params, feed.stream, key)
        cost, pull = penalty(held["importance"], state.params, held["anchor"], 2 * weight)
        grads = jax.tree.map(jnp.add, stream.grads, pull)
        params, opt_state = apply_update(
            optimizer, state.params, state.opt_state, grads, stream.targets
        )
        path = jax.tree.map(
            lambda w, g, new, old: w - g * (new - old),
            held["path"],
            stream.grads,
            params,
            state.params,
        )

        def consolidate(held: PyTree) -> PyTree:
            def grow(importance: Array, path: Array, new: Array, anchor: Array) -> Array:
                gained = jnp.maximum(path, 0) / ((new - anchor) ** 2 + damping)
                return decay * importance + gained

            importance = jax.tree.map(
                grow, held["importance"], held["path"], params, held["anchor"]
            )
            zeros = jax.tree.map(jnp.zeros_like, path)
            return {"importance": importance, "path": zeros, "anchor": params}

        extras = every(interval, state, consolidate, held | {"path": path})
        state = next_state(state, memory, feed, key, params, opt_state, stream, extras=extras)
        return state, {"loss": stream.loss, "penalty": cost}

    return Algorithm(draws=(), init=init, step=step)
