"""Fixtures and the process-wide settings every test relies on."""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Most of the time would go into optimising programs that run once. Runs that play a stranger are
# compiled as a stranger's, see tests/e2e/running.py.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import jax
import pytest

_CACHE = os.environ.get("JAX_COMPILATION_CACHE_DIR")
if _CACHE:
    jax.config.update("jax_compilation_cache_dir", _CACHE)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@pytest.fixture(scope="session")
def real_data() -> pathlib.Path:
    """Folder of real test data, named by MMGEN_TEST_DATA; tests that need it skip without it."""
    folder = os.environ.get("MMGEN_TEST_DATA", "")
    if not folder or not pathlib.Path(folder).is_dir():
        pytest.skip("MMGEN_TEST_DATA names no folder of real data")
    return pathlib.Path(folder)
