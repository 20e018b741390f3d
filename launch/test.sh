#!/usr/bin/env bash
# Sets up .venv for the tests, then checks format, lint and types and runs the tests:
#   bash launch/test.sh               everything but the tests marked slow
#   bash launch/test.sh -m slow       arguments go to pytest
#
# MMGEN_TEST_DATA names the folder of real data; tests that need it skip without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh test
python=.venv/bin/python

$python -m ruff format --check .
$python -m ruff check .
$python -m mypy

# Compiled programs are shared by all workers and kept for the next run, apart for each kind of
# processor: a program for another one might not run.
processor=$({ grep -m1 '^flags' /proc/cpuinfo 2>/dev/null || true; } | cksum | cut -d' ' -f1)
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$PWD/.jax_cache/$(uname -m)-$processor}
# Where an image forbids it, every process of the tests would compile two thousand modules anew.
unset PYTHONDONTWRITEBYTECODE
mkdir -p "$JAX_COMPILATION_CACHE_DIR"
$python -m pytest -n 2 --dist worksteal --durations=25 "$@"
