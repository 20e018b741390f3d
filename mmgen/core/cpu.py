"""What the host's processor can do."""

import functools
import os
import pathlib

CPUINFO = pathlib.Path("/proc/cpuinfo")
VECTOR_UNITS = ("avx", "fma", "amx", "asimd", "sve")
"""How the names of instruction sets begin that decide in which order and rounding XLA adds."""


def usable_cores() -> int:
    """Cores that this process may run on; XLA has one thread for each."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS pins no process.


def has_bfloat16_tiles() -> bool:
    """Does the CPU have AMX tiles, which multiply bfloat16 faster than float32?"""
    return "amx_bf16" in _features()


def vector_units() -> str:
    """Instruction sets of the CPU for vectors and matrices, as Linux names them; "" elsewhere."""
    return " ".join(sorted(name for name in _features() if name.startswith(VECTOR_UNITS)))


@functools.cache
def _features() -> frozenset[str]:
    """What the first processor can do: "flags" of x86, "Features" of ARM."""
    try:
        lines = CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    named = (line.partition(":") for line in lines)
    return next(
        (frozenset(rest.split()) for key, _, rest in named if key.strip() in ("flags", "Features")),
        frozenset(),
    )
