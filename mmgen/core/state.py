"""The training state: the one pytree that a step maps to its successor and a checkpoint holds."""

from typing import Any

import flax.struct
import jax
from jaxtyping import Array, Int

PyTree = Any


class TrainState(flax.struct.PyTreeNode):
    """Everything that changes during training.

    Random keys are not here: they derive from (seed, stream name, step), see `mmgen.core.rng`.

    Attributes:
      step: number of finished iterations, int32 scalar. One iteration reads one stream batch,
        however many optimizer updates it makes.
      params: parameters of the model, float32.
      opt_state: state of the optax optimizer.
      memory: state of the replay memory (`mmgen.memory.base.MemoryState`), or `()` without one.
      extras: what the algorithm keeps besides (Fisher diagonals, logits, ...), `()` for most.
    """

    step: Int[Array, ""]
    params: PyTree
    opt_state: PyTree
    memory: PyTree = ()
    extras: PyTree = ()


def parameter_count(params: PyTree) -> int:
    """Number of scalars in `params` (arrays or `ShapeDtypeStruct`s)."""
    return sum(int(leaf.size) for leaf in jax.tree.leaves(params))
