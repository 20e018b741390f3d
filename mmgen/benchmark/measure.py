"""Clocks: a matrix product's rate, seconds per iteration, memory of a program."""

import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import optax
from jaxtyping import Array

from mmgen.core.cpu import usable_cores
from mmgen.core.rng import stream_key
from mmgen.models.layers import multiplied_as

WARM_UP = 2


def is_accelerator() -> bool:
    """Is the default device anything but a CPU?"""
    return jax.default_backend() != "cpu"


def device_facts() -> dict[str, Any]:
    """The machine and what runs on it, as JSON values."""
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "devices": jax.device_count(),
        "device_memory_bytes": stats.get("bytes_limit"),
        "cpu_cores": usable_cores(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "flax": flax.__version__,
        "optax": optax.__version__,
        "numpy": np.__version__,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def matmul_peak(dtype: str, size: int = 0, precision: str = "default", repeats: int = 7) -> float:
    """Operations per second of size^3 products of random matrices, 2 per multiply-add.

    The best of `repeats` chains of products, with results in `dtype` and in float32: on some CPUs
    only the one, on some GPUs only the other uses the matrix units. The best, not the median: what
    else the machine does must not lower the peak.

    Args:
      dtype: of the operands, where the machine multiplies it: see `multiplied_as`.
      size: 0 is 8,192 on an accelerator and 2,048 on a CPU.
      precision: of `jnp.matmul`; "default" lets a GPU round float32 operands.
    """
    dtype = multiplied_as(dtype).name
    size = size or (8192 if is_accelerator() else 2048)
    rounds = 10 if is_accelerator() else 1
    left, right = jax.random.split(stream_key(0, "benchmark/matmul"))
    # Scaled so that a chain of products neither grows nor vanishes.
    matrix = (jax.random.normal(left, (size, size)) * size**-0.5).astype(dtype)
    start = jax.random.normal(right, (size, size)).astype(dtype)

    def rate(result: str) -> float:
        @jax.jit
        def chain(x: Array, y: Array) -> Array:
            def product(_: Any, x: Array) -> Array:
                z = jnp.matmul(x, y, precision=precision, preferred_element_type=result)
                return z.astype(dtype)

            return jax.lax.fori_loop(0, rounds, product, x)

        def once() -> float:
            began = time.perf_counter()
            chain(start, matrix).block_until_ready()
            return time.perf_counter() - began

        once()
        return 2 * size**3 * rounds / min(once() for _ in range(repeats))

    return max(rate(result) for result in {dtype, "float32"})


class Timing(NamedTuple):
    """Seconds per iteration: median, quartiles and least over `groups` groups of iterations."""

    median: float
    low: float
    high: float
    least: float
    groups: int
    iterations: int


def time_iterations(
    advance: Callable[[Any], tuple[Any, Array]],
    state: Any,
    *,
    iterations: int = 1,
    group: int = 1,
    seconds: float = 5.0,
    most: int = 200,
) -> tuple[Any, Timing]:
    """Calls `state, values = advance(state)` again and again; the last state, and how long.

    Args:
      iterations: how many one call makes.
      group: calls between two readings of the clock. The device is waited for only there, so on
        an accelerator a group holds enough of them to hide that.
      seconds: when to stop, after three groups at least.
      most: groups at most.
    """
    for _ in range(WARM_UP):
        state, values = advance(state)
        values.block_until_ready()
    found: list[float] = []
    began = time.perf_counter()
    while len(found) < 3 or (time.perf_counter() - began < seconds and len(found) < most):
        start = time.perf_counter()
        for _ in range(group):
            state, values = advance(state)
        values.block_until_ready()
        found.append((time.perf_counter() - start) / (group * iterations))
    least, low, median, high = np.quantile(found, [0, 0.25, 0.5, 0.75]).tolist()
    return state, Timing(median, low, high, least, len(found), len(found) * group * iterations)


def program_bytes(compiled: Any) -> dict[str, int]:
    """Device memory of a compiled program by XLA's own account: `in`, `temporary`, and `peak`.

    Donated arguments are counted once.
    """
    stats = compiled.memory_analysis()
    arguments, temporary = stats.argument_size_in_bytes, stats.temp_size_in_bytes
    fresh = stats.output_size_in_bytes - stats.alias_size_in_bytes
    return {"in": arguments, "temporary": temporary, "peak": arguments + temporary + fresh}


def peak_bytes() -> int:
    """Most memory so far: of the device's allocator, or of this process where there is none."""
    stats = jax.devices()[0].memory_stats()
    if stats:
        return stats["peak_bytes_in_use"]
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
