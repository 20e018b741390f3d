"""The replay plan: every draw and every insert of a run, worked out before training.

For a policy whose draws and slots depend on (seed, stream) alone, what iteration t replays and
where it stores its examples is known in advance. The pipeline reads the plan and is truly random
access; the train step applies the plan's inserts to `state.memory`, which is authoritative.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from mmgen.core.rng import stream_key
from mmgen.data.schema import IGNORE_ID
from mmgen.errors import UserError
from mmgen.memory.base import Memory, MemoryState

PyTree = Any
INSERT_STREAM = "memory/insert"
DRAW_STREAM = "memory/draw"


class Plan(NamedTuple):
    """What each iteration reads and stores, numpy int32.

    Attributes:
      replay_ids: [steps, sum(draws)], row numbers to replay, the draws of one iteration side by
        side; `IGNORE_ID` beyond what the memory held.
      replay_slot: [steps, sum(draws)], the slots they come from; the capacity where none.
      insert_slot: [steps, b], the slot of each stream example; the capacity where it is dropped.
        In a plan of several seeds [steps, seeds, b].
    """

    replay_ids: np.ndarray
    replay_slot: np.ndarray
    insert_slot: np.ndarray


def join_plans(plans: Sequence[Plan]) -> Plan:
    """The plan of several seeds side by side: what the first one replays, then the second, ..."""
    return Plan(
        replay_ids=np.concatenate([plan.replay_ids for plan in plans], axis=1),
        replay_slot=np.concatenate([plan.replay_slot for plan in plans], axis=1),
        insert_slot=np.stack([plan.insert_slot for plan in plans], axis=1),
    )


def insert_key(seed: int | Int[Array, ""]) -> Key[Array, ""]:
    """Base key of all inserts of a run; a policy folds in the example's number in the stream."""
    return stream_key(seed, INSERT_STREAM)


def draw_slots(
    memory: Memory,
    state: MemoryState,
    seed: int | Int[Array, ""],
    step: int | Int[Array, ""],
    draws: tuple[int, ...],
) -> tuple[Int[Array, " r"], ...]:
    """The slots that iteration `step` replays, one int32[r] per entry of `draws`.

    `state` is the memory after the previous iteration. The key is folded with the entry's index.
    """
    key = stream_key(seed, DRAW_STREAM, step)
    return tuple(
        memory.sample(state, jax.random.fold_in(key, index), k) for index, k in enumerate(draws)
    )


def read_ids(state: MemoryState, slots: Int[Array, " r"]) -> Int[Array, " r"]:
    """Row numbers at `slots`, `IGNORE_ID` where a slot is the capacity."""
    return state.ids.at[slots].get(mode="fill", fill_value=IGNORE_ID)


def on_host() -> contextlib.AbstractContextManager[Any]:
    """Computes on the host's CPU: thousands of tiny dependent steps starve an accelerator."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX_PLATFORMS names an accelerator alone.
        return contextlib.nullcontext()


def check_stream(stream_rows: Int[np.ndarray, "steps b"]) -> None:
    """Refuses a stream that a memory of row numbers cannot follow.

    Raises:
      UserError: a row comes twice (more than one epoch), so that a slot would not name an example.
    """
    rows = np.sort(stream_rows[stream_rows != IGNORE_ID], axis=None)
    twice = rows[:-1][rows[1:] == rows[:-1]]
    if twice.size:
        raise UserError(
            f"The stream reads row {twice[0]} more than once, which a replay memory does not "
            "allow; set config.total to at most one epoch or config.memory.policy to 'none'."
        )


def _side_of(side_of_rows: PyTree, rows: Int[Array, " b"]) -> PyTree:
    return jax.tree.map(lambda column: column[jnp.maximum(rows, 0)], side_of_rows)


@partial(jax.jit, static_argnames=("memory", "draws"))
def _plan(
    memory: Memory,
    draws: tuple[int, ...],
    stream_rows: Int[Array, "steps b"],
    seed: Int[Array, ""],
    side_of_rows: PyTree,
) -> tuple[Array, Array, Array]:
    key = insert_key(seed)

    def draw(state: MemoryState, step: Int[Array, ""]) -> tuple[Array, Array]:
        drawn = draw_slots(memory, state, seed, step, draws)
        slots = jnp.concatenate(drawn) if drawn else jnp.zeros((0,), jnp.int32)
        return read_ids(state, slots), slots

    # Each pass inserts the batch of iteration t - 1 and then draws for iteration t: a read that
    # came before the write of the same pass would copy the whole memory.
    def iteration(state: MemoryState, inputs: tuple[Array, Array]) -> tuple[MemoryState, Any]:
        step, rows = inputs
        mask = rows != IGNORE_ID
        side = _side_of(side_of_rows, rows)
        slots = memory.slots(state, key, rows, mask, side)
        state = memory.insert(state, rows, mask, slots, side)
        return state, (*draw(state, step + 1), slots)

    steps = jnp.arange(stream_rows.shape[0], dtype=jnp.int32)
    _, (replay_ids, replay_slot, slots) = jax.lax.scan(
        iteration, memory.init(), (steps, stream_rows)
    )
    first_ids, first_slot = draw(memory.init(), jnp.zeros((), jnp.int32))

    def shift(first: Array, rest: Array) -> Array:
        return jnp.concatenate([first[None], rest[:-1]])

    return shift(first_ids, replay_ids), shift(first_slot, replay_slot), slots


def make_plan(
    memory: Memory,
    stream_rows: Int[np.ndarray, "steps b"],
    draws: tuple[int, ...],
    seed: int,
    side_of_rows: PyTree = (),
) -> Plan:
    """The replay plan of a run.

    Args:
      memory: a planned policy.
      stream_rows: row numbers of each iteration's stream batch, padded with `IGNORE_ID`.
      draws: `Algorithm.draws`; draws at iteration t see the inserts up to t - 1.
      side_of_rows: what the policy must know of each row, arrays with a leading axis over the
        rows of the split (e.g. its task), or `()`.

    Raises:
      UserError: a row comes twice.
      ValueError: the policy is not planned.
    """
    if not memory.planned:
        raise ValueError("this memory policy depends on the model; it has no plan")
    check_stream(stream_rows)
    with on_host():
        parts = _plan(memory, draws, jnp.asarray(stream_rows, jnp.int32), seed, side_of_rows)
        return Plan(*(np.asarray(part) for part in parts))


@partial(jax.jit, static_argnames="memory")
def _replay_inserts(
    memory: Memory,
    stream_rows: Int[Array, "steps b"],
    insert_slot: Int[Array, "steps b"],
    side_of_rows: PyTree,
    step: Int[Array, ""],
) -> MemoryState:
    def iteration(index: Int[Array, ""], state: MemoryState) -> MemoryState:
        rows = stream_rows[index]
        side = _side_of(side_of_rows, rows)
        return memory.insert(state, rows, rows != IGNORE_ID, insert_slot[index], side)

    return jax.lax.fori_loop(0, step, iteration, memory.init())


def memory_at(
    plan: Plan,
    memory: Memory,
    stream_rows: Int[np.ndarray, "steps b"],
    step: int,
    side_of_rows: PyTree = (),
) -> MemoryState:
    """The memory after `step` iterations: what the state of that step must hold, bit for bit."""
    with on_host():
        rows, slots = jnp.asarray(stream_rows, jnp.int32), jnp.asarray(plan.insert_slot)
        return _replay_inserts(memory, rows, slots, side_of_rows, jnp.asarray(step, jnp.int32))
