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
from mmgen.core.waiting import WaitClock

WAITED, LEAST_WAITED = 30, 3
"""Iterations over which waiting for data is measured: at most, and where they are slow."""


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

    Utilisations are shares of one peak, the record's `peak` in operations per second: the highest
    that was measured before, between and after the cases. A case that cannot be built, compiled or
    run is recorded with its reason under `failures`.

    Args:
      wait: also measure, for the first case, an iteration whose batch is assembled on the host and
        copied (`fed_ms`), and the share of that time in which no step was running because of it.

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
        return Bench(case, subject, data, put_feed(subject.feed_at(subject.buckets[0]), mesh))

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
        try:
            _clock(record, scale, ground, bench, attempts.programs, wait and bench is benches[0])
        except Exception as error:
            failures[bench.case.name] = f"{type(error).__name__}: {error}"[:500]
            record.add(failures=failures | facts["failures"])
    return [
        Turn(
            bench.case.name,
            bench.case.model,
            functools.partial(bench.subject.random_state, mesh),
            _advance(program, bench, ground, "host"),
        )
        for bench in benches
        if bench.case.name not in failures
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
    flops = subject.flops()[0]
    result: dict[str, Any] = {
        "name": case.name,
        "model": case.model,
        "algorithm": case.algorithm,
        "batch_size": case.batch_size,
        "draws": subject.algorithm.draws,
        "room": subject.buckets[0].room,
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
            state, facts = _fed(program, subject, ground, state, scale.clock_seconds)
            result |= facts
    result["peak_bytes"] = peak_bytes()
    # Once more: where other work comes and goes, one moment's peak is not the machine's.
    peak = max(record.values["peak"], matmul_peak(scale.dtype, scale.matmul_size))
    cases = [*record.values.get("cases", ()), result]
    record.add(peak=peak, cases=[_with_utilisations(case, peak) for case in cases])


def _with_utilisations(result: dict[str, Any], peak: float) -> dict[str, Any]:
    """A case's results with the share of `peak`, operations per second, that it reaches."""
    return result | {
        f"{way}_utilisation": result["flops"] / (result[f"{way}_ms"] / 1e3) / peak
        for way in ("host", "device")
        if f"{way}_ms" in result
    }


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


def _fed(
    program: Program, subject: Subject, ground: Ground, state: Any, seconds: float
) -> tuple[Any, dict[str, float]]:
    """Iterations with batches from the host, as a run makes them: `fed_ms` and `data_wait_share`.

    Args:
      seconds: when to stop, after `LEAST_WAITED` iterations at least.
    """
    # Those of the shape that the program was compiled for.
    steps = np.flatnonzero(subject.feeds.bucket_index == 0)
    count = min(WAITED, len(steps))
    feeder = Feeder(OnlyItems(subject.feeds, steps.tolist()), 0, count)
    clock = WaitClock()
    values: Array | None = None
    made = 0
    for made in range(1, count + 1):
        asked = time.perf_counter()
        feed = put_feed(feeder.next(), ground.mesh)
        if made == 1:  # whose batch nothing could hide
            began = time.perf_counter()
        else:
            clock.placed(feed, asked)
        before = values
        state, values = program.call(state, feed, ground.seed)
        clock.dispatched(values)
        # One step ahead of the device, so that the time below is that of the device.
        jax.block_until_ready(before)
        if made >= LEAST_WAITED and time.perf_counter() - began >= seconds:
            break
    jax.block_until_ready(values)
    elapsed = time.perf_counter() - began
    feeder.close()
    clock.settle()
    clock.close()
    return state, {"fed_ms": 1e3 * elapsed / made, "data_wait_share": clock.seconds / elapsed}


class OnlyItems:
    """Feeds, or those of `steps`, without their own way of reading ahead, which needs Grain."""

    def __init__(self, feeds: Any, steps: Sequence[int] | None = None):
        self._feeds = feeds
        self._steps = range(len(feeds)) if steps is None else steps

    def __getitem__(self, number: int) -> Any:
        return self._feeds[self._steps[number]]
