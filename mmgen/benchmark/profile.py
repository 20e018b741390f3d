"""What the device was busy with: kernels by total time, from JAX's own profiler."""

import collections
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

LONGEST_LIST = 30


def kernel_times(run: Callable[[], Any]) -> dict[str, Any]:
    """Traces `run()`, which must wait for its result.

    Returns:
      `wall_seconds`; `kernels` and `busy_seconds`, their number and summed time; `top`, the most
      expensive as [name, number, seconds]. On several streams `busy_seconds` may exceed the wall.
      Where the profiler has written nothing, `missing` alone, which says so.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            began = time.perf_counter()
            run()
            wall = time.perf_counter() - began
        path = next(pathlib.Path(folder).rglob("*.xplane.pb"), None)
        if path is None:
            return {"missing": "no profile: the profiler wrote no trace"}
        events = list(_kernel_events(jax.profiler.ProfileData.from_file(str(path))))
    seconds: dict[str, float] = collections.defaultdict(float)
    number: dict[str, int] = collections.Counter()
    for name, duration in events:
        seconds[name] += duration
        number[name] += 1
    top = sorted(seconds, key=lambda name: -seconds[name])[:LONGEST_LIST]
    return {
        "wall_seconds": wall,
        "kernels": len(events),
        "busy_seconds": sum(seconds.values()),
        "top": [[name[:120], number[name], seconds[name]] for name in top],
    }


def _kernel_events(data: Any) -> Iterator[tuple[str, float]]:
    """Name and seconds of everything that ran on a device's streams, or on a CPU's threads."""
    devices = [plane for plane in data.planes if plane.name.startswith("/device:")]
    prefix = "Stream" if devices else "tf_XLA"
    for plane in devices or data.planes:
        for line in plane.lines:
            if line.name.startswith(prefix):
                for event in line.events:
                    yield event.name, event.duration_ns * 1e-9
