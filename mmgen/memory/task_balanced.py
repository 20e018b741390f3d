"""Task-balanced memory: as many slots for every task as the stream allows."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from mmgen.errors import UserError
from mmgen.memory.base import Memory, MemoryState
from mmgen.memory.reservoir import (
    check_capacity,
    drop_overwritten,
    empty_ids,
    insert_ids,
    sample_slots,
    stream_numbers,
)

NO_TASK = -1
TRIES = 64


class Written(NamedTuple):
    """The slots that a batch has written so far, and the tasks it wrote there.

    Attributes:
      slot: int32[b], the capacity where nothing was written.
      task: int32[b].
    """

    slot: Int[Array, " b"]
    task: Int[Array, " b"]

    def read(self, slot_task: Int[Array, " capacity"], slots: Int[Array, " n"]) -> Int[Array, " n"]:
        """The task at each of `slots` if the batch were inserted; `NO_TASK` where there is none.

        `slot_task` itself is left alone: a loop that wrote to it would copy it at every example.
        """
        before = slot_task.at[slots].get(mode="fill", fill_value=NO_TASK)
        same = (self.slot[None, :] == slots[:, None]) & (slots[:, None] < slot_task.shape[0])
        last = same.shape[1] - 1 - jnp.argmax(same[:, ::-1], axis=1)
        return jnp.where(jnp.any(same, axis=1), self.task[last], before)


def _random_slot(
    key: Key[Array, ""],
    slot_task: Int[Array, " capacity"],
    written: Written,
    task: Int[Array, ""],
    wanted: Bool[Array, ""],
) -> Int[Array, ""]:
    """A uniform slot among those that hold `task`, by rejection: never reads all slots.

    A task that is asked for holds about capacity / tasks slots or more, so few rounds of draws
    are enough. Gives `capacity` at once if none is wanted.
    """
    capacity = slot_task.shape[0]

    def look(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        turn, _ = carry
        here = jax.random.fold_in(key, turn)
        tried = jax.random.randint(here, (TRIES,), 0, capacity, jnp.int32)
        hit = written.read(slot_task, tried) == task
        return turn + 1, jnp.where(jnp.any(hit), tried[jnp.argmax(hit)], capacity)

    start = (jnp.zeros((), jnp.int32), jnp.full((), capacity, jnp.int32))
    return jax.lax.while_loop(lambda carry: wanted & (carry[1] == capacity), look, start)[1]


def make_task_balanced(capacity: int, tasks: int) -> Memory:
    """Class-balancing reservoir sampling (Chrysakis and Moens 2020, algorithm 1) over tasks.

    While slots are empty everything is stored. Afterwards a task is full if it holds as many
    slots as the largest one, or one fewer. An example of a task that is not full replaces a
    random example of the largest task; one of a full task enters a reservoir of its own task.
    Each task's examples are thus kept uniformly, and a task that was full stays full, which is
    why no flag is stored. It uses the task's number, which the stream does not announce: an
    oracle beside the paper's memories.

    `side` is int32[b], the task of each example. `payload` holds `task` int32[capacity] and, per
    task, the number `stored` and the number `offered`. The draws of example n depend on n and the
    key alone.

    Raises:
      UserError: fewer slots than tasks, or an impossible capacity.
    """
    check_capacity(capacity)
    if capacity < tasks:
        raise UserError(
            f"memory.capacity is {capacity}, fewer slots than the {tasks} tasks that "
            "memory.policy 'task_balanced' balances; raise it or choose another policy."
        )

    def init() -> MemoryState:
        payload = {
            "task": jnp.full((capacity,), NO_TASK, jnp.int32),
            "stored": jnp.zeros((tasks,), jnp.int32),
            "offered": jnp.zeros((tasks,), jnp.int32),
        }
        return MemoryState(empty_ids(capacity), jnp.zeros((), jnp.int32), payload)

    def sample(state: MemoryState, key: Key[Array, ""], k: int) -> Int[Array, " k"]:
        return sample_slots(key, state.size, k, capacity)

    def recount(
        stored: Int[Array, " tasks"], old: Int[Array, " n"], new: Int[Array, " n"]
    ) -> Int[Array, " tasks"]:
        """`stored` after `new` replaced `old`; `NO_TASK` counts for nothing."""
        taken, given = (jnp.where(task == NO_TASK, tasks, task) for task in (old, new))
        return stored.at[taken].add(-1, mode="drop").at[given].add(1, mode="drop")

    def slots(
        state: MemoryState,
        key: Key[Array, ""],
        ids: Int[Array, " b"],
        mask: Bool[Array, " b"],
        side: Int[Array, " b"],
    ) -> Int[Array, " b"]:
        del ids
        slot_task = state.payload["task"]

        def example(carry: tuple[Any, ...], inputs: tuple[Array, ...]) -> Any:
            written, stored, offered = carry
            index, number, real, task = inputs
            offered = offered.at[task].add(real)
            accept_key, slot_key = jax.random.split(jax.random.fold_in(key, number))
            full = stored[task] >= jnp.max(stored) - 1
            drawn = jax.random.randint(accept_key, (), 0, jnp.maximum(offered[task], 1))
            filling = number < capacity
            wanted = real & ~filling & (~full | (drawn < stored[task]))
            leaves = jnp.where(full, task, jnp.argmax(stored))
            freed = _random_slot(slot_key, slot_task, written, leaves, wanted)
            slot = jnp.where(real & filling, number, freed)
            old = written.read(slot_task, slot[None])
            stored = recount(stored, old, jnp.where(slot < capacity, task, NO_TASK)[None])
            written = Written(written.slot.at[index].set(slot), written.task)
            return (written, stored, offered), slot

        index = jnp.arange(mask.shape[0], dtype=jnp.int32)
        nothing = Written(jnp.full_like(index, capacity), side)
        start = (nothing, state.payload["stored"], state.payload["offered"])
        inputs = (index, stream_numbers(state, mask), mask, side)
        return drop_overwritten(jax.lax.scan(example, start, inputs)[1], capacity)

    def insert(
        state: MemoryState,
        ids: Int[Array, " b"],
        mask: Bool[Array, " b"],
        slots: Int[Array, " b"],
        side: Int[Array, " b"],
    ) -> MemoryState:
        slot_task = state.payload["task"]
        old = slot_task.at[slots].get(mode="fill", fill_value=NO_TASK)
        stored = recount(state.payload["stored"], old, jnp.where(slots < capacity, side, NO_TASK))
        # Never true, but it makes the write wait for the read: else XLA copies all slots.
        task = jnp.where(old < NO_TASK, old, side)
        payload = {
            "task": slot_task.at[slots].set(task, mode="drop"),
            "stored": stored,
            "offered": state.payload["offered"].at[side].add(mask),
        }
        return insert_ids(state, ids, mask, slots).replace(payload=payload)

    return Memory(capacity, init, sample, slots, insert, planned=True)
