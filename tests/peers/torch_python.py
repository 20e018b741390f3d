"""The interpreter that runs the PyTorch peers in tests."""

import importlib.util
import os
import sys

import pytest

VARIABLE = "MMGEN_PEER_PYTHON"


def peer_python() -> str:
    """One that has torch and numpy: named by the variable, else this one; without either a skip."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    if importlib.util.find_spec("torch") is None:
        pytest.skip(f"torch is not installed, and {VARIABLE} names no interpreter that has it")
    return sys.executable
