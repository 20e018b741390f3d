#!/usr/bin/env bash
# Trains in N processes on this machine:
#   bash launch/processes.sh 2 --config=configs/visCOLL_er10k.py --workdir=/tmp/run
#
# Each process learns its place from MMGEN_COORDINATOR (address of process 0), MMGEN_NUM_PROCESSES
# and MMGEN_PROCESS_ID, and sees the devices it would see alone. INT and TERM reach all of them, as
# TERM. When one fails the others are ended, and its status is returned. MMGEN_PYTHON names an
# interpreter that has mmgen, to do without .venv. Needs bash 5.1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ! ${1:-} =~ ^[1-9][0-9]*$ ]]; then
    echo "launch/processes.sh: the first argument is the number of processes" >&2
    exit 2
fi
count=$1
shift
if [[ -z ${MMGEN_PYTHON:-} ]]; then bash launch/setup.sh base; fi
python=${MMGEN_PYTHON:-.venv/bin/python}

free_port='import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
export MMGEN_COORDINATOR=127.0.0.1:$("$python" -c "$free_port")
export MMGEN_NUM_PROCESSES=$count

declare -A running=()
send() { if ((${#running[@]})); then kill -s "$1" "${!running[@]}" 2>/dev/null || true; fi; }
# What is started in the background ignores INT.
trap 'send TERM' INT TERM

for ((i = 0; i < count; i++)); do
    MMGEN_PROCESS_ID=$i "$python" -m mmgen.main "$@" &
    running[$!]=$i
done

# A process whose peer is gone may wait for it for minutes: it has this long to end by itself.
grace=10
status=0
deadline=
while ((${#running[@]})); do
    pid=
    code=0
    wait -n -p pid "${!running[@]}" ${deadline:+"$deadline"} || code=$?
    if [[ -z ${pid:-} ]]; then continue; fi # a signal was passed on
    if [[ $pid == "$deadline" ]]; then
        send KILL
        deadline=
        continue
    fi
    place=${running[$pid]}
    unset "running[$pid]"
    if ((code && !status)); then
        status=$code
        echo "launch/processes.sh: process $place of $count failed with status $code" >&2
        send TERM
        sleep "$grace" &
        deadline=$!
    fi
done
if [[ -n $deadline ]]; then kill "$deadline" 2>/dev/null || true; fi
exit "$status"
