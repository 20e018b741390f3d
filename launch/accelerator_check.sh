#!/usr/bin/env bash
# Checks and measures mmgen on a machine with an accelerator, in less than ten minutes and without
# installing anything; jax, flax, optax, jaxtyping and numpy must be there (and orbax for the stage
# that trains, which is left out without it):
#   bash launch/accelerator_check.sh [DIR] [--seconds=560] [--stages=sanity,numerics,...]
#
# Stages that find no time left are named at the end; --stages=bench,... runs them in a second call.
# DIR (default $OUT, else accelerator_check) holds report.txt, report.json and logs.txt at any time.
# PYTHON names the interpreter. SCALE=tiny tries all of it on a CPU.
set -euo pipefail
out=${OUT:-accelerator_check}
if [[ $# -gt 0 && $1 != --* ]]; then
    out=$1
    shift
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD
exec "${PYTHON:-python3}" -m mmgen.benchmark.accelerator_check --out="$out" "$@"
