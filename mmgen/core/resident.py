"""Residency "device": a run whose data lies in device memory, many iterations per dispatch.

Host and device exchange nothing during training but the scalars: which rows an iteration reads is
known before it begins, so the whole schedule lies beside the data, or the iteration itself draws
them from its memory. One dispatch makes a fixed number of iterations, a chunk, under `lax.scan`.
Where an evaluation or a checkpoint is due before a chunk would end, single iterations lead up to
it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from mmgen.algorithms.base import Feed
from mmgen.core.compiled_step import StepFn, Trace, keyed_step, stack_scalars
from mmgen.core.mesh import batch_sharding, batch_shards, is_on, put_replicated, replicated
from mmgen.core.state import TrainState
from mmgen.data.schema import IGNORE_ID, Batch
from mmgen.errors import UserError
from mmgen.memory.live import Draw, Drawn
from mmgen.memory.plan import Plan

PyTree = Any
LONGEST_CHUNK = 100
"""Iterations per dispatch at most: a run that is told to stop finishes its chunk first."""
PROGRAM_COST = 2_000
"""Dispatches that take about as long as compiling the program of single iterations."""


class Schedule(NamedTuple):
    """Which rows each iteration reads and stores; arrays with a leading axis over iterations.

    Attributes:
      stream: int32[steps, b], rows of the stream batch, `IGNORE_ID` as padding.
      replay: one int32[steps, r] per replay batch; `()` without a plan.
      insert_slot, replay_slot: see `algorithms.base.Feed`; `()` without a plan.
      bucket: int32[steps], index of each iteration's padded shape.
    """

    stream: Int[Any, "steps b"]
    replay: tuple[Int[Any, "steps r"], ...]
    insert_slot: Any
    replay_slot: tuple[Int[Any, "steps r"], ...]
    bucket: Int[Any, " steps"]


class Data(NamedTuple):
    """What lies in device memory, whole on every device; numpy before it is put there.

    Attributes:
      tables: what `Resident.gather` reads.
      schedule: of the whole run.
      side_of_rows: what the memory policy must know of each row, as in `memory.plan.make_plan`.
      row_bucket: int8[n], smallest padded shape of each row, where rows are drawn without a plan.
    """

    tables: PyTree
    schedule: Schedule
    side_of_rows: PyTree = ()
    row_bucket: Any = ()


class Resident(NamedTuple):
    """A run's data and how batches are made of it.

    Attributes:
      data: numpy arrays, the same on every process, or what lies on the mesh already.
      gather: `(tables, rows int32[b], bucket) -> Batch`, traceable; `bucket` is one of `buckets`.
      buckets: padded shapes, which `Schedule.bucket` numbers.
    """

    data: Data
    gather: Callable[[PyTree, Int[Array, " b"], Any], Batch]
    buckets: tuple[Any, ...]


class CompiledChunk(NamedTuple):
    """`call(state, data, seed, count) -> (state, scalars float32[count, n])`, using up the state.

    `count` is static: each value is a program. `traces` as in `CompiledStep`.
    """

    call: Callable[
        [TrainState, Data, Int[Array, ""], int], tuple[TrainState, Float[Array, "count n"]]
    ]
    traces: list[Trace]


def make_schedule(
    stream_rows: Int[np.ndarray, "steps b"],
    bucket: Int[np.ndarray, " steps"],
    plan: Plan | None,
    draws: tuple[int, ...],
) -> Schedule:
    """The schedule of a run.

    Args:
      stream_rows: padded with `IGNORE_ID`.
      bucket: index of each iteration's padded shape.
      plan: the replay plan, None without a memory.
      draws: `Algorithm.draws`, into which the plan's rows are split.
    """
    rows, bucket = stream_rows.astype(np.int32), bucket.astype(np.int32)
    if plan is None:
        return Schedule(rows, (), (), (), bucket)
    ends = np.cumsum(draws)[:-1]
    replay = np.split(plan.replay_ids, ends, axis=1) if draws else ()
    slots = np.split(plan.replay_slot, ends, axis=1) if draws else ()
    return Schedule(rows, tuple(replay), plan.insert_slot, tuple(slots), bucket)


def put_data(data: PyTree, mesh: Mesh) -> PyTree:
    """The arrays on every device of the mesh; what lies there already is taken as it is.

    Raises:
      UserError: they are larger than what is left of a device's memory.
    """
    _check_room(data, mesh)
    if jax.process_count() == 1:
        return jax.device_put(data, replicated(mesh))
    return jax.tree.map(
        lambda leaf: leaf if is_on(leaf, mesh) else put_replicated(leaf, mesh), data
    )


def _check_room(data: PyTree, mesh: Mesh) -> None:
    needed = sum(leaf.nbytes for leaf in jax.tree.leaves(data) if not is_on(leaf, mesh))
    for device in mesh.local_devices:
        stats = device.memory_stats() or {}
        room = stats.get("bytes_limit", needed) - stats.get("bytes_in_use", 0)
        if needed > room:
            raise UserError(
                f"the data set needs {needed / 1e9:.1f} GB more of device memory, but a device has "
                f"{room / 1e9:.1f} GB left; set config.residency='host'."
            )


def compile_chunk(
    step: StepFn,
    gather: Callable[[PyTree, Int[Array, " b"], Any], Batch],
    buckets: Sequence[Any],
    shardings: PyTree,
    mesh: Mesh,
    draw: Draw | None = None,
) -> CompiledChunk:
    """Wrap `step` so that one dispatch makes several iterations, `state.step` being the first.

    Args:
      step, shardings, mesh: as for `compile_step`; the same key, and the same scalars per
        iteration.
      gather, buckets: see `Resident`.
      draw: what an iteration replays that the schedule does not say.
    """
    traces: list[Trace] = []
    keyed = keyed_step(step)

    def traced(state: TrainState, data: Data, seed: Int[Array, ""], count: int):
        names: set[tuple[str, ...]] = set()

        def at(bucket: Any) -> Callable[[TrainState, Schedule], tuple[TrainState, Array]]:
            def iterate(state: TrainState, rows: Schedule) -> tuple[TrainState, Array]:
                feed = _read_feed(data, rows, bucket, gather, mesh)
                new_state, scalars = keyed(state, feed, seed)
                names.add(tuple(sorted(scalars)))
                return new_state, stack_scalars(scalars)

            return iterate

        def body(state: TrainState, _: None) -> tuple[TrainState, Array]:
            # Seeds that train side by side are all at the same step.
            step = state.step.reshape(-1)[0]
            rows = jax.tree.map(lambda column: column[step], data.schedule)
            if draw is not None:
                rows = _with_drawn(rows, draw(state.memory, seed, state.step), data.row_bucket)
            if len(buckets) == 1:
                return at(buckets[0])(state, rows)
            return jax.lax.switch(rows.bucket, [at(bucket) for bucket in buckets], state, rows)

        result = jax.lax.scan(body, state, None, length=count)
        traces.append(Trace(*names))
        return result

    call = jax.jit(
        traced,
        static_argnames="count",
        donate_argnums=0,
        out_shardings=(shardings, replicated(mesh)),
    )
    return CompiledChunk(call, traces)


def _with_drawn(rows: Schedule, drawn: Drawn, row_bucket: Int[Array, " n"]) -> Schedule:
    """An iteration's rows with those to replay, and the padded shape that holds all of them."""
    bucket = rows.bucket
    for ids in drawn.ids:
        own = jnp.where(ids == IGNORE_ID, 0, row_bucket[ids])
        bucket = jnp.maximum(bucket, jnp.max(own, initial=0))
    return rows._replace(replay=drawn.ids, replay_slot=drawn.slots, bucket=bucket)


def _read_feed(data: Data, schedule: Schedule, bucket: Any, gather: Callable, mesh: Mesh) -> Feed:
    """What an iteration reads, gathered from the tables; `schedule` is that iteration's alone."""

    def batch(rows: Int[Array, " b"]) -> Batch:
        if len(rows) % batch_shards(mesh) == 0:
            rows = jax.lax.with_sharding_constraint(rows, batch_sharding(mesh))
        return gather(data.tables, rows, bucket)

    known = jnp.maximum(schedule.stream, 0)
    return Feed(
        stream=batch(schedule.stream),
        replay=tuple(batch(rows) for rows in schedule.replay),
        insert_slot=schedule.insert_slot,
        replay_slot=schedule.replay_slot,
        side=jax.tree.map(lambda column: column[known], data.side_of_rows),
    )


def longest_chunk() -> int:
    """Iterations per dispatch at most: few on a CPU, where a dispatch costs next to nothing."""
    return LONGEST_CHUNK if jax.default_backend() != "cpu" else LONGEST_CHUNK // 10


def choose_chunk(edges: Sequence[int], longest: int = LONGEST_CHUNK) -> int:
    """Iterations per dispatch, for the fewest dispatches and, if it can be, one program.

    Args:
      edges: iterations that a dispatch must not run across, ascending, from 0 to the last.
    """
    distances = np.diff(edges)
    candidates = np.arange(1, longest + 1)[:, None]
    rest = distances % candidates
    dispatches = (distances // candidates + rest).sum(axis=1)
    cost = dispatches + PROGRAM_COST * rest.any(axis=1)
    return int(np.argmin(cost)) + 1


def steps_from(step: int, edges: Sequence[int], chunk: int) -> int:
    """Iterations of the dispatch that begins at `step`: `chunk`, or 1 where that many do not fit.

    A function of `step` alone, so that a run which goes on from a checkpoint makes the same
    dispatches as an unbroken one.
    """
    after = int(np.searchsorted(edges, step, side="right"))
    since, until = step - edges[after - 1], edges[after] - step
    return chunk if since % chunk == 0 and until >= chunk else 1
