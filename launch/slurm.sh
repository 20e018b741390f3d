#!/usr/bin/env bash
# Trains on a Slurm cluster, one process per GPU, in the folder it is submitted from:
#   sbatch --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --time=8:00:00 launch/slurm.sh \
#       --config=configs/visCOLL_er10k.py --workdir=/shared/runs/er10k
#
# Sets MMGEN_COORDINATOR=auto for the processes that srun starts: jax learns from Slurm's variables
# how many there are, and takes of each node's GPUs the one with its local number. Hence as many
# tasks per node as GPUs, and the GPUs unbound. The checkout, .venv and --workdir must lie on a file
# system that all nodes see. .venv gets a jax for GPUs where the job has some; MMGEN_PYTHON names an
# interpreter that has mmgen (and such a jax: pip install -e '.[cuda]'), to do without .venv. A job
# with GPUs that jax does not see is refused, unless JAX_PLATFORMS says what to compute on.
#
# Stop:   scancel --batch --signal=TERM JOB   saves and ends. Neither plain scancel nor --full do:
#         they signal srun as well, which kills its processes at once, and the iterations since the
#         last checkpoint are lost.
# Resume: by itself. Three minutes before its time is over, and when it is preempted with a grace
#         time, Slurm tells the processes, and not this script, to save; the job is then put back
#         into the queue until WORKDIR/DONE is there. After a stop or a failure the same sbatch
#         command goes on from the last checkpoint.
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

# How often this script itself was told to end. It hands that on to the processes of the step:
# without --batch or --full, scancel leaves this script and srun alone.
told=0
hand_on() {
    told=$((told + 1))
    scancel --signal=TERM "$SLURM_JOB_ID" || true # there may be no step yet, or no more
}
trap hand_on TERM

unbound=()
needed=base
if [[ -n ${SLURM_GPUS_ON_NODE:-} ]]; then
    unbound=(--gpu-bind=none)
    needed=cuda
fi
if [[ -z ${MMGEN_PYTHON:-} ]]; then bash launch/setup.sh "$needed"; fi
python=${MMGEN_PYTHON:-.venv/bin/python}
if [[ $needed == cuda && -z ${JAX_PLATFORMS:-} ]]; then
    # jax would fall back to the CPU with no more than a warning.
    "$python" -c 'import jax; jax.devices("gpu")' >/dev/null 2>&1 || {
        echo "launch/slurm.sh: the job has GPUs, but the jax of $python sees none; install" \
            "one that does (pip install -e '.[cuda]'), or set JAX_PLATFORMS=cpu" >&2
        exit 2
    }
fi

if ((${SLURM_NTASKS:-1} > 1)); then export MMGEN_COORDINATOR=auto; fi
status=0
if ((!told)); then
    # In the background, or the trap would wait for it.
    srun --kill-on-bad-exit=1 "${unbound[@]}" "$python" -m mmgen.main "$@" &
    step=$!
    heard=-1
    # A trapped signal ends the waiting, not srun, and its status is not srun's.
    while ((heard != told)); do
        heard=$told
        status=0
        wait "$step" || status=$?
    done
fi

# What was stopped on purpose is not put back.
if ((status == 0 && !told)) && [[ ! -e $workdir/DONE ]]; then
    echo "launch/slurm.sh: stopped before its end; back into the queue" >&2
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
