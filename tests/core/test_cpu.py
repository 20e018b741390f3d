"""What is read of the host's processor."""

import os

import pytest

from mmgen.core import cpu

X86 = """processor\t: 0
model name\t: some processor
flags\t\t: fpu sse2 fma avx avx2 amx_bf16 amx_tile

processor\t: 1
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve crc32\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """Sets what the system says of its processors; None: nothing."""

    def say(text):
        path = tmp_path / "cpuinfo"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(cpu, "CPUINFO", path)
        cpu._features.cache_clear()

    yield say
    cpu._features.cache_clear()


@pytest.mark.parametrize(
    ("text", "units", "tiles"),
    [
        (X86, "amx_bf16 amx_tile avx avx2 fma", True),
        (ARM, "asimd sve", False),
        ("processor: 0\n", "", False),
        (None, "", False),
    ],
)
def test_vector_units(cpuinfo, text, units, tiles):
    cpuinfo(text)
    assert cpu.vector_units() == units
    assert cpu.has_bfloat16_tiles() is tiles


def test_usable_cores_where_no_process_is_pinned(monkeypatch):
    assert 1 <= cpu.usable_cores() <= os.cpu_count()
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cpu.usable_cores() == os.cpu_count()
