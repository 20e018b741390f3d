"""What the host's processor can do."""

import functools
import pathlib

CPUINFO = pathlib.Path("/proc/cpuinfo")


@functools.cache
def has_bfloat16_tiles() -> bool:
    """Does the CPU have AMX tiles, which multiply bfloat16 faster than float32?"""
    try:
        return "amx_bf16" in CPUINFO.read_text(errors="replace").split()
    except OSError:
        return False
