"""Compiling ahead of time, several programs at once: what a GPU's compiler takes is minutes."""

import concurrent.futures
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mmgen.benchmark.measure import program_bytes


class Program(NamedTuple):
    """A compiled program.

    Attributes:
      call: takes the arguments it was compiled for, static ones left out.
      lower_seconds, compile_seconds: what it took, with whatever else was running beside it.
      bytes: see `measure.program_bytes`.
    """

    call: Callable[..., Any]
    lower_seconds: float
    compile_seconds: float
    bytes: dict[str, int]


def compile_ahead(function: Any, *args: Any) -> Program:
    """Compiles a jitted function for arrays or shapes like `args`, running nothing."""
    began = time.perf_counter()
    lowered = function.lower(*args)
    lowering = time.perf_counter() - began
    compiled = lowered.compile()
    seconds = time.perf_counter() - began - lowering
    return Program(compiled, lowering, seconds, program_bytes(compiled))


class Attempts(NamedTuple):
    """What became of several compilations: programs, and reasons where there is none."""

    programs: dict[str, Program]
    failures: dict[str, str]


def compile_all(
    jobs: Mapping[str, Callable[[], Program]], *, threads: int, seconds: float
) -> Attempts:
    """Runs the jobs side by side, in their order; those not done in time are given up.

    A compilation cannot be broken off: one that was given up goes on in its thread.
    """
    attempts = Attempts({}, {})
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    futures = {pool.submit(job): name for name, job in jobs.items()}
    try:
        for future in concurrent.futures.as_completed(futures, timeout=seconds):
            name = futures[future]
            try:
                attempts.programs[name] = future.result()
            except Exception as error:
                attempts.failures[name] = f"{type(error).__name__}: {error}"[:500]
    except concurrent.futures.TimeoutError:
        pass
    pool.shutdown(wait=False, cancel_futures=True)
    for name in futures.values():
        if name not in attempts.programs and name not in attempts.failures:
            attempts.failures[name] = f"not compiled within {seconds:.0f} s"
    return attempts


def compilation_facts(attempts: Attempts) -> dict[str, Any]:
    """Seconds and bytes of the programs, and the failures, as JSON values."""
    programs = {
        name: {
            "lower_seconds": program.lower_seconds,
            "compile_seconds": program.compile_seconds,
            "bytes": program.bytes,
        }
        for name, program in attempts.programs.items()
    }
    return {"programs": programs, "failures": attempts.failures}
