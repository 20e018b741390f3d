"""ER with 10k slots over a whole stream of the published size, with the data on the device."""

import dataclasses
import functools
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from mmgen.benchmark.measure import matmul_peak, peak_bytes
from mmgen.benchmark.profile import kernel_times
from mmgen.benchmark.programs import Program, compilation_facts, compile_ahead, compile_all
from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.subjects import Subject
from mmgen.benchmark.workload import device_tables
from mmgen.core.mesh import make_mesh, put_replicated
from mmgen.core.resident import CompiledChunk, choose_chunk, put_data
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState
from mmgen.data.buckets import Bucket
from mmgen.memory.plan import memory_at

IN_FLIGHT = 4
"""Dispatches that may be unfinished before the oldest is waited for."""

TRIED = 300
"""Iterations of a trial."""

ENDS = 500
"""Iterations at either end of a long stream whose mean loss is recorded."""

Way = Callable[[TrainState, int], tuple[TrainState, Float[Array, "count n"]]]
"""`(state, step) -> (state, scalars)`: the dispatch that begins at `step`."""


class Driven(NamedTuple):
    """What became of a part of the stream: the state, scalars on the device, iterations made."""

    state: TrainState
    scalars: list[Float[Array, "count n"]]
    steps: int
    seconds: float


def full_pass(record: Record, scale: Scale) -> None:
    """Prepares, compiles, tries the ways to dispatch, and runs the stream by the faster one."""
    began = time.perf_counter()
    subject = scale.subject(scale.stream())
    steps = len(subject.feeds)
    chunk = choose_chunk((0, steps), scale.chunk)
    _describe(record, scale, subject, chunk)
    record.add(prepare_seconds=time.perf_counter() - began)
    born, ways, names = _load(record, scale, subject, chunk)
    start = functools.partial(born, stream_key(0, "init"))
    for name, way in ways.items():
        warm = drive(way, start(), 0, chunk)
        tried = drive(way, warm.state, chunk, min(chunk + TRIED, steps))
        trials = record.values.get("trials", {})
        record.add(trials={**trials, name: tried.seconds / max(tried.steps, 1)})
    best = min(ways, key=lambda name: record.values["trials"][name])
    record.add(way=best)
    driven = drive(ways[best], start(), 0, steps, limit=scale.pass_seconds)
    _report_pass(record, subject, driven, names)
    way, state = ways[best], driven.state
    begin = 0 if best == "chunk" else steps - chunk  # a chunk reads its place off the state
    record.add(profile=kernel_times(lambda: drive(way, state, begin, begin + chunk)))


def drive(way: Way, state: TrainState, start: int, stop: int, limit: float = np.inf) -> Driven:
    """Iterations from `start` to `stop`, or until `limit` seconds are over; waits for the last."""
    scalars: list[Array] = []
    pending: deque[Array] = deque()
    step, began = start, time.perf_counter()
    while step < stop and time.perf_counter() - began < limit:
        state, values = way(state, step)
        step += len(values)
        scalars.append(values)
        pending.append(values)
        if len(pending) > IN_FLIGHT:
            pending.popleft().block_until_ready()
    jax.block_until_ready(state)
    return Driven(state, scalars, step - start, time.perf_counter() - began)


def _describe(record: Record, scale: Scale, subject: Subject, chunk: int) -> None:
    index = subject.feeds.bucket_index
    shares = np.bincount(index, minlength=len(subject.buckets)) / len(index)
    record.add(
        instances=len(subject.workload.split),
        images=len(subject.workload.counts),
        regions=int(subject.workload.counts.sum()),
        steps=len(index),
        chunk=chunk,
        buckets=subject.buckets,
        bucket_shares=shares.tolist(),
        flops=subject.flops(),
        scale=dataclasses.asdict(scale),
    )


def _load(
    record: Record, scale: Scale, subject: Subject, chunk: int
) -> tuple[Callable[..., TrainState], dict[str, Way], tuple[str, ...]]:
    """Initialisation, ways to dispatch, and names of the scalars, all compiled."""
    began = time.perf_counter()
    mesh = make_mesh()
    data = put_data(subject.data(device_tables(subject.workload, scale.dtype)), mesh)
    jax.block_until_ready(data)
    record.add(
        load_seconds=time.perf_counter() - began,
        peak=matmul_peak(scale.dtype, scale.matmul_size),
    )
    seed = put_replicated(np.uint32(0), mesh)
    state = subject.placed_shapes(mesh)
    chunks: list[CompiledChunk] = []

    def job(buckets: tuple[Bucket, ...], count: int) -> Callable[[], Program]:
        chunks.append(subject._replace(buckets=buckets).chunk(mesh))
        return functools.partial(compile_ahead, chunks[-1].call, state, data, seed, count)

    jobs = {"chunk": job(subject.buckets, chunk)}
    for number, bucket in enumerate(subject.buckets):
        jobs[f"single{number}"] = job((bucket,), 1)
    jobs["born"] = lambda: compile_ahead(subject.born(mesh), stream_key(0, "init"))
    attempts = compile_all(jobs, threads=scale.threads, seconds=scale.compile_seconds)
    record.add(**compilation_facts(attempts))
    found = attempts.programs
    ways: dict[str, Way] = {}
    if "chunk" in found:
        ways["chunk"] = lambda state, step: found["chunk"].call(state, data, seed)
    if all(f"single{number}" in found for number in range(len(subject.buckets))):
        index = subject.feeds.bucket_index
        ways["single"] = lambda state, step: found[f"single{index[step]}"].call(state, data, seed)
    if not ways:
        raise RuntimeError(f"no program was compiled: {attempts.failures}")
    born = found["born"].call if "born" in found else subject.born(mesh)
    names = next(chunk.traces[-1].names for chunk in chunks if chunk.traces)
    return born, ways, names


def _report_pass(record: Record, subject: Subject, driven: Driven, names: tuple[str, ...]) -> None:
    """Seconds of the whole stream, share of the peak, and whether the numbers make sense."""
    steps, index = len(subject.feeds), subject.feeds.bucket_index
    flops = np.asarray(subject.flops())[index].astype(np.float64)
    rate = flops[: driven.steps].sum() / driven.seconds
    scalars = np.concatenate(jax.device_get(driven.scalars))
    loss = scalars[:, names.index("loss")]
    ends = min(ENDS, driven.steps // 4)
    memory = jax.device_get(driven.state.memory)
    rows = subject.feeds.stream_rows
    assert subject.plan is not None and subject.memory is not None
    expected = memory_at(subject.plan, subject.memory, rows, driven.steps)
    record.add(
        steps_made=driven.steps,
        seconds_made=driven.seconds,
        extrapolated=driven.steps < steps,
        whole_stream_seconds=driven.seconds * flops.sum() / flops[: driven.steps].sum(),
        step_ms=1e3 * driven.seconds / driven.steps,
        examples_per_second=rows.shape[1] * driven.steps / driven.seconds,
        model_flops_per_second=rate,
        utilisation=rate / record.values["peak"],
        loss_is_finite=bool(np.isfinite(loss).all()),
        loss_first=float(loss[:ends].mean()),
        loss_last=float(loss[-ends:].mean()),
        memory_is_the_plan=bool(np.array_equal(memory.ids, expected.ids)),
        peak_bytes=peak_bytes(),
    )
