"""The training step as one compiled program per batch shape."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key

from mmgen.algorithms.base import Feed, Scalars
from mmgen.core.mesh import replicated
from mmgen.core.rng import stream_key
from mmgen.core.seeds import for_each_seed
from mmgen.core.state import TrainState
from mmgen.memory.base import MemoryState

PyTree = Any
StepFn = Callable[[TrainState, Feed, Key[Array, ""]], tuple[TrainState, Scalars]]


class Trace(NamedTuple):
    """What tracing has shown: the names of the scalars; one entry per compiled program."""

    names: tuple[str, ...]


class CompiledStep(NamedTuple):
    """`call(state, feed, seed) -> (state, scalars float32[n])`; the state passed in is used up.

    `traces[-1].names` are the names of the scalars, `len(traces)` counts the programs.
    """

    call: Callable[[TrainState, Feed, Int[Array, ""]], tuple[TrainState, Float[Array, " n"]]]
    traces: list[Trace]


def compile_step(step: StepFn, shardings: PyTree, mesh: Mesh) -> CompiledStep:
    """Wrap `step` for the loop.

    The key derives from (seed, "step", number of finished iterations); the seed is an argument, so
    that runs which differ in it alone share a compiled program. The scalars travel as one array,
    which is one transfer, and to them is added how full the memory is.

    Args:
      shardings: of the state, which stays where it is.
    """
    traces: list[Trace] = []
    keyed = keyed_step(step)

    def traced(state: TrainState, feed: Feed, seed: Int[Array, ""]):
        new_state, scalars = keyed(state, feed, seed)
        traces.append(Trace(tuple(sorted(scalars))))
        return new_state, stack_scalars(scalars)

    call = jax.jit(traced, donate_argnums=0, out_shardings=(shardings, replicated(mesh)))
    return CompiledStep(call, traces)


def keyed_step(
    step: StepFn,
) -> Callable[[TrainState, Feed, Int[Array, ""]], tuple[TrainState, Scalars]]:
    """`(state, feed, seed) -> (state, scalars)`: `step` with its key and one scalar more.

    A vector of seeds makes it that of several runs, see `core.seeds`.
    """

    def keyed(state: TrainState, feed: Feed, seed: Int[Array, ""]) -> tuple[TrainState, Scalars]:
        new_state, scalars = step(state, feed, stream_key(seed, "step", state.step))
        return new_state, {**scalars, **_memory_fill(new_state)}

    return for_each_seed(keyed)


def stack_scalars(scalars: Scalars) -> Float[Array, " n"]:
    """The scalars as one float32 array, in the order of their names."""
    return jnp.stack([jnp.asarray(scalars[name], jnp.float32) for name in sorted(scalars)])


def _memory_fill(state: TrainState) -> Scalars:
    """Share of the slots that are filled."""
    if not isinstance(state.memory, MemoryState):
        return {}
    return {"memory_fill": state.memory.size / state.memory.ids.shape[0]}
