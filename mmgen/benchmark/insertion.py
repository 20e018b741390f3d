"""Milliseconds that a memory policy takes to store a stream batch, its memory being full.

    python -m mmgen.benchmark.insertion [--capacity=10000] [--batch_size=32]

Choosing the slots and writing them, and for balanced-forget what it makes of the losses of as many
replayed rows: all that a step does besides training, on random words of the published vocabulary
and span lengths.
"""

import argparse
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mmgen.benchmark.measure import Timing, device_facts, time_iterations
from mmgen.benchmark.record import table
from mmgen.benchmark.workload import COCO_MAX_SPAN, COCO_TASKS, WORD_ROWS, Workload, make_workload
from mmgen.core.rng import stream_key
from mmgen.memory.balanced import make_balanced_forget, make_balanced_sqrt, masked_words
from mmgen.memory.base import Memory, MemoryState
from mmgen.memory.divergence import DIVERGENCES
from mmgen.memory.plan import draw_slots, insert_key
from mmgen.memory.reservoir import make_reservoir
from mmgen.memory.task_balanced import make_task_balanced
from mmgen.settings.suggest import check_choice

POLICIES = ("reservoir", "task_balanced", "balanced_sqrt", "balanced_forget")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        prog="python -m mmgen.benchmark.insertion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--capacity", type=int, default=10_000, help="slots of the memory")
    parser.add_argument("--batch_size", type=int, default=32, help="examples of a stream batch")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--policies", default=",".join(POLICIES), help="names, by commas")
    arguments = parser.parse_args()
    chosen = arguments.policies.split(",")
    found = insertion_times(arguments.capacity, arguments.batch_size, arguments.seconds, chosen)
    rows = [
        [name, *(1e3 * seconds for seconds in timing[:4]), timing.iterations]
        for name, timing in found.items()
    ]
    facts = device_facts()
    print(f"{facts['device']}, {facts['cpu_cores']} cores, jax {facts['jax']}: {arguments}")
    print(table(["policy", "median ms", "quartile", "quartile", "least", "batches"], rows))


def insertion_times(
    capacity: int,
    batch_size: int,
    seconds: float,
    policies: Collection[str] = POLICIES,
    word_rows: int = WORD_ROWS,
) -> dict[str, Timing]:
    """By policy, and for balanced ones by divergence, seconds to take in one batch.

    Args:
      seconds: of each measurement.
      word_rows: rows of the word table.

    Raises:
      UserError: an unknown policy.
    """
    for name in policies:
        check_choice("--policies", name, POLICIES)
    workload = make_workload(1, 2 * capacity, pieces=word_rows // 2, word_rows=word_rows)
    return {
        name: _time(memory, side, capacity, batch_size, seconds)
        for name, (memory, side) in _memories(workload, capacity).items()
        if name.split(",")[0] in policies
    }


def _memories(workload: Workload, capacity: int) -> Mapping[str, tuple[Memory, Any]]:
    """Name -> the policy and what it must know of each row."""
    columns, rows = workload.split.columns, workload.vocabulary.rows
    parts = (columns["tokens"], columns["token_start"], columns["span"])
    words = masked_words(*parts, COCO_MAX_SPAN)
    balanced = {
        f"{make.__name__.removeprefix('make_')}, {divergence}": (
            make(capacity, rows, COCO_MAX_SPAN, divergence),
            words,
        )
        for make in (make_balanced_sqrt, make_balanced_forget)
        for divergence in DIVERGENCES
    }
    return {
        "reservoir": (make_reservoir(capacity), ()),
        "task_balanced": (make_task_balanced(capacity, COCO_TASKS), columns["task"]),
        **balanced,
    }


def _time(
    memory: Memory, side_of_rows: Any, capacity: int, batch_size: int, seconds: float
) -> Timing:
    # Memory full, then over and over the second half of the stream.
    store = jax.jit(functools.partial(_store, memory, batch_size), donate_argnums=0)
    side_of_rows = jax.device_put(side_of_rows)
    state, batches = memory.init(), -(-capacity // batch_size)
    for number in range(batches):
        state = store(state, np.int32(number * batch_size), side_of_rows)
    turns = iter(range(10**9))

    def advance(state: MemoryState) -> tuple[MemoryState, Array]:
        first = capacity + next(turns) * batch_size % max(capacity - batch_size, 1)
        state = store(state, np.int32(first), side_of_rows)
        return state, state.seen

    return time_iterations(advance, state, seconds=seconds, most=2000)[1]


def _store(
    memory: Memory, batch_size: int, state: MemoryState, first: Int[Array, ""], side_of_rows: Any
) -> MemoryState:
    """The memory after the rows from `first` on."""
    ids = first + jnp.arange(batch_size, dtype=jnp.int32)
    mask = jnp.ones((batch_size,), bool)
    side = jax.tree.map(lambda column: column[ids], side_of_rows)
    if not memory.planned:
        state, side = _with_losses(memory, batch_size, state, first, side)
    slots = memory.slots(state, insert_key(0), ids, mask, side)
    return memory.insert(state, ids, mask, slots, side)


def _with_losses(
    memory: Memory, batch_size: int, state: MemoryState, first: Int[Array, ""], words: Any
) -> tuple[MemoryState, Any]:
    """The memory told of a replay batch, and the side information with the stream's losses."""
    observe: Callable[..., MemoryState] | None = memory.observe
    assert observe is not None
    (replayed,) = draw_slots(memory, state, 0, first, (batch_size,))
    nll = jax.random.exponential(stream_key(0, "benchmark/losses", first), (2, *words.shape))
    return observe(state, replayed, nll[0]), (words, nll[1])


if __name__ == "__main__":
    main()
