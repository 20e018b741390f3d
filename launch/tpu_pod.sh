#!/usr/bin/env bash
# Trains on a Cloud TPU slice of any number of hosts, from a machine that has gcloud:
#   bash launch/tpu_pod.sh setup TPU ZONE    # copies the commit that is checked out, makes .venv
#   bash launch/tpu_pod.sh train TPU ZONE \
#       --config=configs/visCOLL_er10k.py --workdir=gs://BUCKET/run
#   bash launch/tpu_pod.sh stop TPU ZONE
#
# Sets MMGEN_COORDINATOR=auto on every host: jax asks the TPU's metadata for the others. --workdir
# must be in a bucket, for a host's disk goes with the TPU; --config.data_dir is a folder of each
# host, in which built-in worlds are built on first use and other data sets have to be put.
#
# Stop:   the command `stop`, or Ctrl-C where `train` runs: the run is saved first.
# Resume: `train` with the same arguments goes on from the last checkpoint, on a slice of any size
#         (on another size no longer bit for bit, which the run says). A spot TPU that was taken
#         away is created again and set up again first; `train` ends with status 75 as long as
#         WORKDIR/DONE is missing, for a loop around both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "launch/tpu_pod.sh: $1" >&2
    exit 2
}

if (($# < 3)) || [[ ! $1 =~ ^(setup|train|stop)$ ]]; then
    fail "say setup, train or stop, the TPU's name and its zone"
fi
what=$1 tpu=$2 zone=$3
shift 3

on_all() {
    gcloud compute tpus tpu-vm ssh "$tpu" --zone="$zone" --worker=all --command="$1"
}

case $what in
setup)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    git archive --format=tar --output="$folder/mmgen.tar" HEAD
    gcloud compute tpus tpu-vm scp "$folder/mmgen.tar" "$tpu:mmgen.tar" --zone="$zone" --worker=all
    # jax for TPUs, of the very version that is pinned.
    on_all 'set -eu
        mkdir -p mmgen && tar -xf mmgen.tar -C mmgen && cd mmgen && bash launch/setup.sh base
        version=$(.venv/bin/python -c "import jax; print(jax.__version__)")
        .venv/bin/python -m pip install -q "jax[tpu]==$version"'
    ;;
train)
    workdir=
    for argument in "$@"; do
        if [[ $argument == --workdir=* ]]; then workdir=${argument#--workdir=}; fi
    done
    [[ -n $workdir ]] || fail "give --workdir=gs://BUCKET/DIR, which outlives the TPU"
    trap 'bash launch/tpu_pod.sh stop "$tpu" "$zone"' INT TERM
    # Each host leaves the number of its process for `stop`.
    on_all "cd mmgen && echo \$\$ >main.pid &&
        MMGEN_COORDINATOR=auto exec .venv/bin/python -m mmgen.main $(printf '%q ' "$@")"
    gcloud storage ls "$workdir/DONE" >/dev/null 2>&1 || exit 75
    ;;
stop)
    on_all 'kill -s TERM "$(cat mmgen/main.pid)"'
    ;;
esac
