"""Draws from the memory as it is, for policies whose slots depend on the model.

No plan can foretell what such a memory holds: what iteration t replays is known when iteration
t - 1 has ended. On the device the step's program draws it; a host that assembles the batches has to
wait for it, once per iteration.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Int

from mmgen.memory.base import Memory, MemoryState
from mmgen.memory.plan import draw_slots, read_ids


class Drawn(NamedTuple):
    """What one iteration replays, one int32[r] per entry of `Algorithm.draws`.

    Attributes:
      ids: row numbers, `IGNORE_ID` beyond what the memory holds.
      slots: where they come from, the capacity where none.
    """

    ids: tuple[Int[Any, " r"], ...]
    slots: tuple[Int[Any, " r"], ...]


Draw = Callable[[MemoryState, Int[Array, ""], Int[Array, ""]], Drawn]
"""`(memory after the previous iteration, seed, step) -> what the step replays`, traceable."""


def draw_rows(
    memory: Memory,
    draws: tuple[int, ...],
    state: MemoryState,
    seed: Int[Array, ""],
    step: Int[Array, ""],
) -> Drawn:
    """What iteration `step` replays; the keys are those of a plan."""
    slots = draw_slots(memory, state, seed, step, draws)
    return Drawn(tuple(read_ids(state, drawn) for drawn in slots), slots)
