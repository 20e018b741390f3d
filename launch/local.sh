#!/usr/bin/env bash
# Trains on this machine:  bash launch/local.sh --config=configs/visCOLL_er10k.py
#
# Sets up .venv if need be and runs `python -m mmgen.main` with the same arguments, in the root of
# the repository, from which relative paths count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh base
# Where an image forbids it, every run would compile two thousand modules anew.
unset PYTHONDONTWRITEBYTECODE
exec .venv/bin/python -m mmgen.main "$@"
