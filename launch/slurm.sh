#!/usr/bin/env bash
# Trains on a Slurm cluster, one process per GPU, in the folder it is submitted from:
#   sbatch --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --time=8:00:00 launch/slurm.sh \
#       --config=configs/visCOLL_er10k.py --workdir=/shared/runs/er10k
#
# Sets MMGEN_COORDINATOR=auto for the processes that srun starts: jax learns from Slurm's variables
# how many there are, and takes of each node's GPUs the one with its local number. Hence as many
# tasks per node as GPUs, and the GPUs unbound. The checkout, .venv and --workdir must lie on a file
# system that all nodes see; MMGEN_PYTHON names an interpreter that has mmgen (and a jax for GPUs:
# pip install "jax[cuda13]"), to do without .venv.
#
# Stop:   scancel --full --signal=TERM JOB   saves and ends; scancel JOB as well, but after the 30 s
#         or so of the cluster's KillWait the iterations since the last checkpoint are lost.
# Resume: by itself. Three minutes before its time is over, and when it is preempted, the job is
#         told to save, and is put back into the queue until WORKDIR/DONE is there. After scancel or
#         a failure the same sbatch command goes on from the last checkpoint.
#SBATCH --job-name=mmgen
#SBATCH --output=slurm-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=TERM@180
#SBATCH --requeue
set -euo pipefail
# sbatch runs a copy of this file, from elsewhere.
cd "${SLURM_SUBMIT_DIR:?submit this file with sbatch}"

workdir=
for argument in "$@"; do
    if [[ $argument == --workdir=* ]]; then workdir=${argument#--workdir=}; fi
done
if [[ -z $workdir ]]; then
    echo "launch/slurm.sh: give --workdir=DIR, which tells whether the run is finished" >&2
    exit 2
fi
if [[ -z ${MMGEN_PYTHON:-} ]]; then bash launch/setup.sh base; fi

# Slurm's own signal reaches the processes; here it must only not end this script before them. A
# cancelled job is not put back.
cancelled=
trap 'cancelled=yes' TERM
if ((${SLURM_NTASKS:-1} > 1)); then export MMGEN_COORDINATOR=auto; fi
unbound=()
if [[ -n ${SLURM_GPUS_ON_NODE:-} ]]; then unbound=(--gpu-bind=none); fi
status=0
srun --kill-on-bad-exit=1 "${unbound[@]}" \
    "${MMGEN_PYTHON:-.venv/bin/python}" -m mmgen.main "$@" || status=$?

if ((status == 0)) && [[ ! -e $workdir/DONE && -z $cancelled ]]; then
    echo "launch/slurm.sh: stopped before its end; back into the queue" >&2
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
