"""The contract of a memory policy: pure functions around a frozen state of row numbers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

PyTree = Any


class MemoryState(flax.struct.PyTreeNode):
    """What is stored: row numbers of the stream's split, never features.

    Attributes:
      ids: int32[capacity], row number of each slot, `IGNORE_ID` where empty. Every policy fills
        its slots from 0 and drops nothing before all are filled.
      seen: int32 scalar, number of stream examples offered so far.
      payload: a small pytree with a leading slot axis (task, logits, ...), or `()`.
    """

    ids: Int[Array, " capacity"]
    seen: Int[Array, ""]
    payload: PyTree = ()

    @property
    def size(self) -> Int[Array, ""]:
        """Number of filled slots, int32 scalar."""
        return jnp.minimum(self.seen, self.ids.shape[0])


class Memory(NamedTuple):
    """A policy. Slot `capacity` means "not stored" and is dropped by every scatter.

    Attributes:
      capacity: number of slots.
      init: `() -> MemoryState`.
      sample: `(state, key, k) -> slots int32[k]`, uniform without replacement among filled slots;
        entries beyond the number of filled slots are `capacity`. Costs O(k) to O(k^2).
      slots: `(state, key, ids int32[b], mask bool[b], side) -> int32[b]`, the slot each stream
        example goes to; no slot is named twice in one call (the last writer has won).
        `side` is the policy's own side information per example (e.g. task), or `()`; for a policy
        that is not planned it is `(side, nll float32[b, m])`, with the stream batch's losses.
      insert: `(state, ids, mask, slots, side) -> MemoryState`, applies those slots. Integers only,
        so that every device gives the same bits.
      planned: True if `sample` and `slots` depend on (seed, stream) alone, so that a plan can be
        made before training. Else the step itself calls `slots`, and replayed rows can only be
        chosen when the iteration before has ended.
      observe: `(state, slots int32[r], nll float32[r, m]) -> MemoryState`, told the losses of the
        rows replayed from `slots` (the capacity where none); only if not planned.
    """

    capacity: int
    init: Callable[[], MemoryState]
    sample: Callable[[MemoryState, Key[Array, ""], int], Int[Array, " k"]]
    slots: Callable[
        [MemoryState, Key[Array, ""], Int[Array, " b"], Bool[Array, " b"], PyTree],
        Int[Array, " b"],
    ]
    insert: Callable[
        [MemoryState, Int[Array, " b"], Bool[Array, " b"], Int[Array, " b"], PyTree], MemoryState
    ]
    planned: bool = True
    observe: Callable[[MemoryState, Int[Array, " r"], Float[Array, "r m"]], MemoryState] | None = (
        None
    )
