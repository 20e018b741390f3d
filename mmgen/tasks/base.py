"""The contract between a model and an algorithm."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float, Key

from mmgen.data.schema import Batch

PyTree = Any
LossFn = Callable[
    [PyTree, Batch, Key[Array, ""] | None],
    tuple[tuple[Float[Array, ""], Float[Array, ""]], PyTree],
]


class Task(NamedTuple):
    """A trainable problem as pure functions; no attribute is read under jit.

    Attributes:
      init: `(key, batch) -> params`. `batch` may hold `ShapeDtypeStruct`-like zeros.
      loss: `(params, batch, key) -> ((total, count), aux)`. `total / count` is the mean loss; both
        are float32 scalars over the *global* batch and rows with `mask == False` add to neither.
        `key=None` switches dropout off. `aux` is a dict of arrays with a leading batch axis:
        `nll: float32[b, m]` (0 where there is no target) is always in it, and `logits` of the same
        pass, as below, for algorithms that store or compare them.
      predict: `(params, batch) -> dict of arrays` with a leading batch axis, dropout off.
      logits: `(params, batch, key) -> float32[b, m, v]` at the target positions.
    """

    init: Callable[[Key[Array, ""], Batch], PyTree]
    loss: LossFn
    predict: Callable[[PyTree, Batch], dict[str, Array]]
    logits: Callable[[PyTree, Batch, Key[Array, ""] | None], Float[Array, "b m v"]]
