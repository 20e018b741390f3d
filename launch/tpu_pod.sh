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
# `setup` needs Python 3.11 or newer on the hosts; PYTHON names it there. The image
# tpu-ubuntu2204-base has 3.10: install another on all hosts first, for instance
#   gcloud compute tpus tpu-vm ssh TPU --zone=ZONE --worker=all \
#       --command='sudo apt-get update && sudo apt-get install -y python3.11-venv'
#
# Stop:   the command `stop`, or Ctrl-C where `train` runs: the run is saved first.
# Resume: `train` with the same arguments goes on from the last checkpoint, on a slice of any size
#         (on another size no longer bit for bit, which the run says). A dropped link ends no run:
#         the same `train` shows it again. A spot TPU that was taken away is created again and set
#         up again first; `train` ends with status 75 as long as WORKDIR/DONE is missing, for a loop
#         around both, and with 2 where trying again would not help.
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
    on_all "set -eu
        mkdir -p mmgen && tar -xf mmgen.tar -C mmgen && cd mmgen
        PYTHON=$(printf '%q' "${PYTHON:-}") bash launch/setup.sh tpu"
    ;;
train)
    workdir=
    for argument in "$@"; do
        if [[ $argument == --workdir=* ]]; then workdir=${argument#--workdir=}; fi
    done
    [[ -n $workdir ]] || fail "give --workdir=gs://BUCKET/DIR, which outlives the TPU"
    told=0
    hand_on() {
        told=$((told + 1))
        bash launch/tpu_pod.sh stop "$tpu" "$zone" || true # it may be gone, or just about to end
    }
    trap hand_on INT TERM
    # In the background, or the trap would wait for it, and Ctrl-C end it.
    on_all "bash mmgen/launch/tpu_host.sh train $(printf '%q ' "$@")" &
    shown=$!
    status=0
    heard=-1
    # A trapped signal ends the waiting, not the run.
    while ((heard != told)); do
        heard=$told
        status=0
        wait "$shown" || status=$?
    done
    # What the run, or gcloud, says of a wrong command; any other failure may be the TPU's.
    if ((status == 2)); then exit 2; fi
    gcloud storage ls "$workdir/DONE" >/dev/null 2>&1 || exit 75
    ;;
stop)
    on_all "bash mmgen/launch/tpu_host.sh stop"
    ;;
esac
