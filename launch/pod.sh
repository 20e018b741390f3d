#!/usr/bin/env bash
# What a pod of launch/gke_jobset.yaml runs: trains in WORKDIR; status 75 if the run was stopped
# before its end. A pod that ends with status 0 would be taken for one that has done its work.
#
# Only the first process tells: it is the one that writes WORKDIR/DONE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${MMGEN_PYTHON:-python3}

# The shell is process 1 of the pod and has to pass the signal on, and to wait on.
"$python" -m mmgen.main --workdir="${WORKDIR:?}" "$@" &
process=$!
trap 'kill -s TERM "$process"' TERM INT
status=0
wait "$process" || status=$?
# A signal ends the waiting, not the process.
while kill -0 "$process" 2>/dev/null; do
    status=0
    wait "$process" || status=$?
done

# In a bucket or on a disk.
is_done='import sys; from etils.epath import Path; sys.exit(not Path(sys.argv[1], "DONE").exists())'
if ((status == 0)) && [[ ${JOB_COMPLETION_INDEX:-0} == 0 ]]; then
    "$python" -c "$is_done" "$WORKDIR" || status=75
fi
exit "$status"
