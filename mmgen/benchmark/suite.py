"""Single iterations under the clock: algorithms and models, from the host and from the device."""

import concurrent.futures
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from mmgen.benchmark.measure import WARM_UP, Timing, matmul_peak, peak_bytes, time_iterations
from mmgen.benchmark.programs import Program, compilation_facts, compile_ahead, compile_all
from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.subjects import Subject
from mmgen.benchmark.turns import Turn
from mmgen.benchmark.workload import device_tables, host_store
from mmgen.core.feeding import Feeder
from mmgen.core.mesh import make_mesh, put_feed, put_replicated
from mmgen.core.resident import Data, put_data

WAITED = 30
"""Iterations over which waiting for data is measured."""


class Case(NamedTuple):
    """What is measured: a model, an algorithm and the size of the stream batch.

    Attributes:
      chunk: iterations per dispatch from the device; 0 leaves that way out.
      settings: further settings of the subject.
    """

    model: str
    algorithm: str
    batch_size: int
    chunk: int
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Unique in a suite."""
        return f"{self.algorithm} {self.model} x{self.batch_size}"


class Ground(NamedTuple):
    """What the cases of a suite share."""

    mesh: Mesh
    seed: Array


class Bench(NamedTuple):
    """A case made ready: its subject, its data on the device, its feed of the timed shape."""

    case: Case
    subject: Subject
    data: Data | None
    feed: Any


def clock_cases(
    record: Record, scale: Scale, cases: Sequence[Case], wait: bool = True
) -> list[Turn]:
    """Compiles and times every case; results go to the list `cases` of the record.

    A case that cannot be built, compiled or run is recorded with its reason under `failures`.

    Args:
      wait: also measure, for the first case, the share of time spent waiting for data when
        batches are assembled on the host.

    Returns:
      The iterations that were timed, batches given by the host, to be timed again in turns.
    """
    workload = scale.clocked()
    mesh = make_mesh()
    ground = Ground(mesh, put_replicated(np.uint32(0), mesh))
    record.add(
        peak=matmul_peak(scale.dtype, scale.matmul_size),
        bucket=scale.bucket,
        dtype=scale.dtype,
        size=scale.size,
    )
    tables = device_tables(workload, scale.dtype) if any(c.chunk for c in cases) else None
    store = host_store(workload) if wait else None
    failures: dict[str, str] = {}
    benches: list[Bench] = []

    def make(case: Case) -> Bench:
        subject = scale.subject(
            workload,
            model=case.model,
            algorithm=case.algorithm,
            batch_size=case.batch_size,
            buckets=(scale.bucket,),
            store=store,
            **dict(case.settings),
        )
        data = put_data(subject.data(tables), mesh) if case.chunk and tables else None
        return Bench(case, subject, data, put_feed(subject.feed_at(scale.bucket), mesh))

    # Side by side: most of it is compiling the replay plans.
    with concurrent.futures.ThreadPoolExecutor(scale.threads) as pool:
        futures = [pool.submit(make, case) for case in cases]
        for case, future in zip(cases, futures, strict=True):
            try:
                benches.append(future.result())
            except Exception as error:
                failures[case.name] = f"{type(error).__name__}: {error}"[:500]
    record.add(failures=failures)
    jobs = {name: job for bench in benches for name, job in _jobs(bench, ground).items()}
    attempts = compile_all(jobs, threads=scale.threads, seconds=scale.compile_seconds)
    facts = compilation_facts(attempts)
    record.add(programs=facts["programs"], failures=failures | facts["failures"])
    for bench in benches:
        _clock(record, scale, ground, bench, attempts.programs, wait and bench is benches[0])
    return [
        Turn(
            bench.case.name,
            bench.case.model,
            functools.partial(bench.subject.random_state, mesh),
            _advance(program, bench, ground, "host"),
        )
        for bench in benches
        if (program := attempts.programs.get(f"{bench.case.name}, host"))
    ]


def _jobs(bench: Bench, ground: Ground) -> dict[str, Callable[[], Program]]:
    subject, mesh = bench.subject, ground.mesh
    state = subject.placed_shapes(mesh)
    jobs: dict[str, Callable[[], Program]] = {
        f"{bench.case.name}, host": functools.partial(
            compile_ahead, subject.step(mesh).call, state, bench.feed, ground.seed
        )
    }
    if bench.data is not None:
        jobs[f"{bench.case.name}, device"] = functools.partial(
            compile_ahead,
            subject.chunk(mesh).call,
            state,
            bench.data,
            ground.seed,
            bench.case.chunk,
        )
    return jobs


def _clock(
    record: Record,
    scale: Scale,
    ground: Ground,
    bench: Bench,
    programs: dict[str, Program],
    wait: bool,
) -> None:
    case, subject = bench.case, bench.subject
    (flops,) = subject.flops()
    result: dict[str, Any] = {
        "name": case.name,
        "model": case.model,
        "algorithm": case.algorithm,
        "batch_size": case.batch_size,
        "draws": subject.algorithm.draws,
        "flops": flops,
    }
    state = subject.random_state(ground.mesh)
    for way in ("host", "device"):
        program = programs.get(f"{case.name}, {way}")
        if program is None:
            continue
        began = time.perf_counter()
        advance = _advance(program, bench, ground, way)
        state, values = advance(state)
        values.block_until_ready()
        ready = time.perf_counter() - began
        state, timing = _time(advance, state, scale, bench, way)
        result |= _facts(way, timing, case)
        result[f"{way}_first_step_seconds"] = (
            program.lower_seconds + program.compile_seconds + ready
        )
        result[f"{way}_program_bytes"] = program.bytes["peak"]
        if way == "host" and wait:
            state, share = _wait_share(program, subject, ground, state)
            result["data_wait_share"] = share
    # Once more: where other work comes and goes, one moment's peak is not the machine's.
    peak = max(record.values["peak"], matmul_peak(scale.dtype, scale.matmul_size))
    record.add(peak=peak)
    result["peak_bytes"] = peak_bytes()
    for way in ("host", "device"):
        if f"{way}_ms" in result:
            result[f"{way}_utilisation"] = flops / (result[f"{way}_ms"] / 1e3) / peak
    record.append("cases", result)


def _advance(program: Program, bench: Bench, ground: Ground, way: str) -> Callable[[Any], Any]:
    given = bench.feed if way == "host" else bench.data
    return lambda state: program.call(state, given, ground.seed)


def _time(
    advance: Callable[[Any], Any], state: Any, scale: Scale, bench: Bench, way: str
) -> tuple[Any, Timing]:
    if way == "host":
        return time_iterations(advance, state, group=scale.group, seconds=scale.clock_seconds)
    # From the start, and not to the end of the stream: what lies behind it is not data.
    chunk, steps = bench.case.chunk, len(bench.subject.feeds)
    return time_iterations(
        advance,
        state.replace(step=0 * state.step),
        iterations=chunk,
        seconds=scale.clock_seconds,
        most=steps // chunk - WARM_UP,
    )


def _facts(way: str, timing: Timing, case: Case) -> dict[str, Any]:
    return {
        f"{way}_ms": 1e3 * timing.median,
        f"{way}_ms_quartiles": [1e3 * timing.low, 1e3 * timing.high],
        f"{way}_iterations": timing.iterations,
        f"{way}_examples_per_second": case.batch_size / timing.median,
    }


def _wait_share(
    program: Program, subject: Subject, ground: Ground, state: Any
) -> tuple[Any, float]:
    """Share of the time in which the device had nothing to do, batches coming from the host."""
    count = min(WAITED, len(subject.feeds))
    feeder = Feeder(_OnlyItems(subject.feeds), 0, count)
    values: Array | None = None
    for iteration in range(count):
        feed = feeder.next(functools.partial(_is_ready, values))
        if iteration == 0:
            feeder.seconds, began = 0.0, time.perf_counter()
        state, values = program.call(state, put_feed(feed, ground.mesh), ground.seed)
    jax.block_until_ready(values)
    share = feeder.seconds / (time.perf_counter() - began)
    feeder.close()
    return state, share


def _is_ready(values: Any) -> bool:
    return values is None or values.is_ready()


class _OnlyItems:
    """Feeds without their own way of reading ahead, which needs Grain."""

    def __init__(self, feeds: Any):
        self._feeds = feeds

    def __getitem__(self, step: int) -> Any:
        return self._feeds[step]
