"""What the quadratic regularisers share: a penalty on leaving an anchor, and when to move it.

"Task-free" means that no task boundary is told: the anchor moves every `interval` iterations,
wherever the stream is. Nothing is penalised before the first anchor.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from mmgen.algorithms.base import PyTree, check_size
from mmgen.core.state import TrainState
from mmgen.errors import UserError


def check_regulariser(weight: float, interval: int, decay: float) -> None:
    """Refuses settings that no regulariser can have.

    Raises:
      UserError: a negative weight, no interval, or a decay outside 0 .. 1.
    """
    check_size("interval", interval)
    if weight < 0:
        raise UserError(f"algorithm.weight is {weight}; a penalty's weight is 0 or more.")
    if not 0 <= decay <= 1:
        raise UserError(f"algorithm.decay is {decay}; give a number from 0 to 1.")


def start_anchor(params: PyTree, *zeros: str) -> dict[str, PyTree]:
    """An anchor at `params` and zeros of their shape under each name, no two in one buffer.

    The step is compiled with a donated state, and a buffer can be donated once.
    """
    fresh = {name: jax.tree.map(jnp.zeros_like, params) for name in zeros}
    return fresh | {"anchor": jax.tree.map(jnp.copy, params)}


def penalty(
    importance: PyTree, params: PyTree, anchor: PyTree, weight: float
) -> tuple[Float[Array, ""], PyTree]:
    """`weight / 2 * sum(importance * (params - anchor)^2)` and its gradient, without a pass."""
    drift = jax.tree.map(jnp.subtract, params, anchor)
    grads = jax.tree.map(lambda f, d: weight * f * d, importance, drift)
    return 0.5 * optax.tree.vdot(grads, drift), grads


def every(
    interval: int, state: TrainState, consolidate: Callable[[PyTree], PyTree], extras: PyTree
) -> PyTree:
    """`consolidate(extras)` at the end of every `interval`-th iteration, else `extras`."""
    due = (state.step + 1) % interval == 0
    return jax.lax.cond(due, consolidate, lambda same: same, extras)
