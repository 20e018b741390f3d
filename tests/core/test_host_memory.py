"""Memory handed back to the system."""

import ctypes
import pathlib

import pytest

from mmgen.core.host_memory import return_freed_memory

BLOCKS, BLOCK = 200_000, 1_000


def resident_bytes() -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim"
)
def test_freed_blocks_leave_the_process():
    blocks = [bytes(BLOCK) for _ in range(BLOCKS)]
    # The blocks at the top keep malloc from giving back those below of itself.
    del blocks[: -BLOCKS // 100]
    before = resident_bytes()
    return_freed_memory()
    assert resident_bytes() < before - BLOCKS * BLOCK / 2
    assert len(blocks) == BLOCKS // 100
