"""Reservoir memory: every example seen so far is stored with the same probability."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from mmgen.data.schema import IGNORE_ID
from mmgen.errors import UserError
from mmgen.memory.base import Memory, MemoryState
from mmgen.settings.suggest import check_choice

RULES = ("vitter", "viscoll_release")


def sample_slots(
    key: Key[Array, ""], filled: Int[Array, ""], k: int, capacity: int
) -> Int[Array, " k"]:
    """An ordered uniform sample of `k` of the slots 0 .. filled - 1, without replacement.

    A Fisher-Yates shuffle that stops after k swaps and never holds the array it shuffles: draw i
    swaps positions i and j[i] >= i, and what stands at a position is found by following the last
    earlier swap that wrote there. O(k^2), whatever the capacity; the order is uniform too, so a
    tie that is broken by position is broken at random.

    Args:
      filled: number of filled slots, int32 scalar; slots fill from 0.

    Returns:
      int32[k]; if fewer than k slots are filled, all of them, then `capacity`.
    """
    draw = jnp.arange(k, dtype=jnp.int32)
    swap = draw + jax.random.randint(key, (k,), 0, jnp.maximum(filled - draw, 1), jnp.int32)
    earlier = draw[:, None] > draw[None, :]

    def last_write(position: Int[Array, " k"]) -> Int[Array, " k"]:
        """The last draw before draw i that wrote to position[i], or -1."""
        wrote = earlier & (swap[None, :] == position[:, None])
        return jnp.max(jnp.where(wrote, draw[None, :], -1), axis=1)

    # What draw i moves away from position i came there by draw `moved[i]`, or was i itself.
    came = last_write(draw)
    moved = jnp.where(came < 0, draw, came)
    for _ in range(max(k - 1, 1).bit_length()):
        moved = moved[moved]
    came = last_write(swap)
    slots = jnp.where(came < 0, swap, moved[came])
    return jnp.where(draw < filled, slots, capacity)


def drop_overwritten(slots: Int[Array, " b"], capacity: int) -> Int[Array, " b"]:
    """`slots` with every entry that a later one overwrites set to `capacity` (not stored)."""
    index = jnp.arange(slots.shape[0])
    later = (slots[None, :] == slots[:, None]) & (index[None, :] > index[:, None])
    return jnp.where(jnp.any(later, axis=1), capacity, slots)


def stream_numbers(state: MemoryState, mask: Bool[Array, " b"]) -> Int[Array, " b"]:
    """0-based number in the stream of each example of a batch; meaningless on padded rows."""
    return state.seen + jnp.cumsum(mask, dtype=jnp.int32) - mask.astype(jnp.int32)


def insert_ids(
    state: MemoryState, ids: Int[Array, " b"], mask: Bool[Array, " b"], slots: Int[Array, " b"]
) -> MemoryState:
    """`state` with `ids` at `slots` and the batch counted; the payload is left alone."""
    return state.replace(
        ids=state.ids.at[slots].set(ids.astype(jnp.int32), mode="drop"),
        seen=state.seen + jnp.sum(mask, dtype=jnp.int32),
    )


def empty_ids(capacity: int) -> Int[Array, " capacity"]:
    """The ids of a memory that holds nothing."""
    return jnp.full((capacity,), IGNORE_ID, jnp.int32)


def check_capacity(capacity: int) -> None:
    """Refuses a capacity that no memory can have.

    Raises:
      UserError: not between 1 and 2^31 - 1.
    """
    if not 1 <= capacity < 2**31:
        raise UserError(
            f"memory.capacity is {capacity}; a replay memory needs between 1 and 2147483647 slots."
        )


def make_reservoir(capacity: int, rule: str = "vitter") -> Memory:
    """Reservoir sampling (Vitter 1985, algorithm R), the paper's memory.

    Example number n (from 0) fills slot n while n < capacity. Afterwards "vitter" draws j
    uniformly from 0 .. n and overwrites slot j if there is one; "viscoll_release" draws from
    0 .. n - 1, so that the first example after filling is always stored (equal in distribution to
    VisCOLL ocl/er.py:131-153, not draw by draw). The draw of example n depends on n and the key
    alone, hence the memory does not depend on the batch size. Up to 2^31 - 1 examples.

    Raises:
      UserError: unknown rule or impossible capacity.
    """
    check_capacity(capacity)
    check_choice("memory.reservoir", rule, RULES)
    inclusive = 1 if rule == "vitter" else 0

    def init() -> MemoryState:
        return MemoryState(ids=empty_ids(capacity), seen=jnp.zeros((), jnp.int32))

    def sample(state: MemoryState, key: Key[Array, ""], k: int) -> Int[Array, " k"]:
        return sample_slots(key, jnp.minimum(state.seen, capacity), k, capacity)

    def slots(
        state: MemoryState,
        key: Key[Array, ""],
        ids: Int[Array, " b"],
        mask: Bool[Array, " b"],
        side: Any,
    ) -> Int[Array, " b"]:
        del ids, side
        number = stream_numbers(state, mask)

        def draw(n: Int[Array, ""]) -> Int[Array, ""]:
            # uint32: n + 1 overflows int32 at the last example.
            bound = jnp.maximum(n.astype(jnp.uint32) + inclusive, 1)
            return jax.random.randint(jax.random.fold_in(key, n), (), 0, bound, jnp.uint32)

        drawn = jnp.minimum(jax.vmap(draw)(number), capacity).astype(jnp.int32)
        chosen = jnp.where(number < capacity, number, drawn)
        return drop_overwritten(jnp.where(mask, chosen, capacity), capacity)

    def insert(
        state: MemoryState,
        ids: Int[Array, " b"],
        mask: Bool[Array, " b"],
        slots: Int[Array, " b"],
        side: Any,
    ) -> MemoryState:
        del side
        return insert_ids(state, ids, mask, slots)

    return Memory(capacity, init, sample, slots, insert, planned=True)
