"""Launching on clusters, with stand-ins for what only a cluster has: srun, gcloud, pods."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAUNCH = ROOT / "launch"

# Says what it was started with; finishes the run, or waits to be told to stop.
PYTHON = """#!/usr/bin/env bash
if [[ $1 == -c && $2 == *gpu* ]]; then exit "${NO_GPU:-0}"; fi
if [[ $1 == -c ]]; then exec REAL "$@"; fi
trap 'echo saved >>"$LOG"; exit "${ON_TERM:-0}"' TERM
# Now it may be told: whoever tells it waits for this line.
echo "$* | ${MMGEN_COORDINATOR:-alone} ${MMGEN_PROCESS_ID:-} ${SLURM_PROCID:-}" | tee -a "$LOG"
for argument in "$@"; do
    case $argument in
    --workdir=*) workdir=${argument#--workdir=} ;;
    fail) exit 7 ;;
    wrong) exit 2 ;;
    finish) finish=yes ;;
    wait) for ((i = 0; i < 300; i++)); do sleep 0.1; done ;;
    esac
done
if [[ ${finish:-} ]]; then mkdir -p "$workdir" && touch "$workdir/DONE"; fi
"""
# The real one, too, answers TERM by killing its tasks.
SRUN = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do echo "srun $1" >>"$LOG"; shift; done
status=0 running=()
trap 'echo "srun: forcing job termination" >&2; kill -s KILL "${running[@]}"' TERM
for ((i = 0; i < SLURM_NTASKS; i++)); do
    SLURM_PROCID=$i SLURM_LOCALID=$i SLURM_STEP_NODELIST=localhost "$@" &
    running+=($!)
    echo "$!" >>"$LOG.tasks"
done
for pid in "${running[@]}"; do
    # A signal ends the waiting, not the task.
    while kill -0 "$pid" 2>/dev/null; do status=0; wait "$pid" || status=$?; done
done
exit $status
"""
SCONTROL = """#!/usr/bin/env bash
echo "scontrol $*" >>"$LOG"
"""
# Signals the tasks of all steps, as the real one does without --batch or --full.
SCANCEL = """#!/usr/bin/env bash
echo "scancel $*" >>"$LOG"
[[ $* == "--signal=TERM $SLURM_JOB_ID" && -e $LOG.tasks ]] && kill -s TERM $(<"$LOG.tasks")
"""
# `ssh` runs the command in two homes; `scp` copies into both; `storage ls` looks at the disk.
GCLOUD = """#!/usr/bin/env bash
echo "gcloud ${*:1:4}" >>"$LOG"
if [[ $1 == storage ]]; then exec ls "$3"; fi
if [[ $4 == ssh && ${NO_TPU:-} ]]; then exit "$NO_TPU"; fi
status=0 workers=()
for worker in 0 1; do
    home=$HOME/worker$worker
    mkdir -p "$home"
    case $4 in
    scp) cp "$5" "$home/${6#*:}" ;;
    ssh) for argument in "$@"; do
            [[ $argument == --command=* ]] && (cd "$home" && bash -c "${argument#--command=}") &
        done
        workers+=($!) ;;
    esac
done
for pid in "${workers[@]}"; do wait "$pid" || status=$?; done
exit $status
"""
# The real set-up would install packages.
BASH = """#!/bin/bash
if [[ $1 != launch/setup.sh ]]; then exec /bin/bash "$@"; fi
echo "setup $2 ${PYTHON:-}" >>"$LOG"
${IN_SETUP:-true}
mkdir -p .venv/bin
cp "$STAND_IN" .venv/bin/python
"""


HEAR_INTERRUPTS = """\
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""In the background a shell ignores Ctrl-C, and no script can trap what it began by ignoring."""


class Cluster:
    """A folder with stand-ins on the PATH, and what they were asked to do."""

    def __init__(self, root: pathlib.Path):
        self.root, self._log = root, root / "log"
        self.workdir = root / "run"
        tools = {"srun": SRUN, "scontrol": SCONTROL, "scancel": SCANCEL, "gcloud": GCLOUD}
        tools["python"] = PYTHON.replace("REAL", sys.executable)
        for name, text in tools.items():
            self.make(name, text)

    def tool(self, name: str) -> pathlib.Path:
        (self.root / "bin").mkdir(exist_ok=True)
        return self.root / "bin" / name

    def make(self, name: str, text: str) -> None:
        self.tool(name).write_text(text)
        self.tool(name).chmod(0o755)

    def start(self, script: str, *arguments: str, **variables: str) -> subprocess.Popen:
        environment = {
            **os.environ,
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "LOG": str(self._log),
            "HOME": str(self.root),
            "MMGEN_PYTHON": str(self.tool("python")),
            "STAND_IN": str(self.tool("python")),
            "JAX_PLATFORMS": "",
            "SLURM_SUBMIT_DIR": str(ROOT),
            "SLURM_JOB_ID": "4711",
            **variables,
        }
        return subprocess.Popen(
            [sys.executable, "-c", HEAR_INTERRUPTS, "bash", str(LAUNCH / script), *arguments],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *arguments: str, **variables: str) -> tuple[int, str]:
        process = self.start(script, *arguments, **variables)
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors

    def log(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def tasks(self) -> list[int]:
        """Numbers of the processes that srun has started."""
        return [int(line) for line in (self.root / "log.tasks").read_text().split()]

    def wait_for(self, count: int, word: str = "mmgen.main") -> None:
        limit = time.monotonic() + 30
        while sum(word in line for line in self.log()) < count:
            assert time.monotonic() < limit, self.log()
            time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


@pytest.mark.parametrize("path", sorted(LAUNCH.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_parse_and_stop_at_the_first_error(path):
    subprocess.run(["bash", "-n", str(path)], check=True)
    text = path.read_text()
    assert text.startswith("#!/usr/bin/env bash\n# ") and "\nset -euo pipefail\n" in text
    assert os.access(path, os.X_OK)
    assert not [line for line in text.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("name", ["slurm.sh", "tpu_pod.sh", "gke_jobset.yaml"])
def test_launches_say_what_they_set_how_to_stop_and_how_they_resume(name):
    comment = [line for line in (LAUNCH / name).read_text().splitlines() if line.startswith("#")]
    for word in ("# Sets ", "# Stop: ", "# Resume: "):
        assert any(line.startswith(word) for line in comment), word


def test_slurm_starts_a_process_per_task(cluster):
    status, _ = cluster.run(
        "slurm.sh",
        "finish",
        f"--workdir={cluster.workdir}",
        SLURM_NTASKS="2",
        SLURM_GPUS_ON_NODE="2",
    )
    assert status == 0
    *options, first, second = cluster.log()
    assert options == ["srun --kill-on-bad-exit=1", "srun --gpu-bind=none"]
    assert {first.split()[-1], second.split()[-1]} == {"0", "1"}
    assert f"-m mmgen.main finish --workdir={cluster.workdir} | auto" in first


def test_slurm_with_one_task_joins_nobody(cluster):
    cluster.run("slurm.sh", "finish", f"--workdir={cluster.workdir}", SLURM_NTASKS="1")
    assert "| alone" in cluster.log()[-1]


def test_slurm_puts_an_unfinished_run_back(cluster):
    status, errors = cluster.run("slurm.sh", f"--workdir={cluster.workdir}", SLURM_NTASKS="2")
    assert (status, cluster.log()[-1]) == (0, "scontrol requeue 4711")
    assert "back into the queue" in errors


def test_slurm_does_not_repeat_a_failure(cluster):
    status, _ = cluster.run("slurm.sh", "fail", f"--workdir={cluster.workdir}", SLURM_NTASKS="2")
    assert status == 7
    assert "requeue" not in cluster.log()[-1]


@pytest.mark.parametrize("status", ["0", "5"])
def test_slurm_lets_a_stopped_run_save_and_ends_with_its_status(cluster, status):
    process = cluster.start(
        "slurm.sh", "wait", f"--workdir={cluster.workdir}", SLURM_NTASKS="2", ON_TERM=status
    )
    cluster.wait_for(2)
    # As `scancel --batch` does it: the script alone.
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == int(status)
    assert cluster.log()[-3:] == ["scancel --signal=TERM 4711", "saved", "saved"]


def test_slurm_puts_a_run_back_whose_processes_were_told_alone(cluster):
    process = cluster.start("slurm.sh", "wait", f"--workdir={cluster.workdir}", SLURM_NTASKS="2")
    cluster.wait_for(2)
    # As at the end of the job's time (--signal without B:), and as with a preemption's grace time.
    for pid in cluster.tasks():
        os.kill(pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0
    assert cluster.log()[-3:] == ["saved", "saved", "scontrol requeue 4711"]


def test_slurm_says_how_not_to_stop_a_run(cluster):
    process = cluster.start("slurm.sh", "wait", f"--workdir={cluster.workdir}", SLURM_NTASKS="2")
    cluster.wait_for(2)
    # As `scancel --full` does it: the script and what it has started.
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (*map(int, children), process.pid):
        os.kill(pid, signal.SIGTERM)
    process.communicate(timeout=20)
    # Which failure it is depends on what bash was waiting for.
    assert process.returncode > 0
    assert not {"saved", "scontrol requeue 4711"} & set(cluster.log())
    assert "# Stop:   scancel --batch --signal=TERM JOB" in (LAUNCH / "slurm.sh").read_text()


def test_slurm_stopped_while_it_sets_up_starts_nothing(cluster):
    cluster.make("bash", BASH)
    workdir = f"--workdir={cluster.workdir}"
    variables = {"MMGEN_PYTHON": "", "SLURM_SUBMIT_DIR": str(cluster.root), "IN_SETUP": "sleep 1"}
    process = cluster.start("slurm.sh", workdir, SLURM_NTASKS="1", **variables)
    cluster.wait_for(1, "setup")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0
    assert cluster.log() == ["setup base ", "scancel --signal=TERM 4711"]


def test_slurm_sets_up_a_jax_for_gpus_where_there_are_some(cluster):
    cluster.make("bash", BASH)
    variables = {"MMGEN_PYTHON": "", "SLURM_SUBMIT_DIR": str(cluster.root), "SLURM_NTASKS": "1"}
    arguments = ("slurm.sh", "finish", f"--workdir={cluster.workdir}")
    assert cluster.run(*arguments, SLURM_GPUS_ON_NODE="2", **variables)[0] == 0
    assert cluster.run(*arguments, **variables)[0] == 0
    assert [line for line in cluster.log() if "setup" in line] == ["setup cuda ", "setup base "]


def test_slurm_refuses_gpus_that_jax_does_not_see(cluster):
    variables = {"SLURM_NTASKS": "1", "SLURM_GPUS_ON_NODE": "1", "NO_GPU": "1"}
    arguments = ("slurm.sh", "finish", f"--workdir={cluster.workdir}")
    status, errors = cluster.run(*arguments, **variables)
    assert (status, cluster.log()) == (2, [])
    assert errors.count("\n") == 1 and "sees none" in errors and "'.[cuda]'" in errors
    assert cluster.run(*arguments, **variables, JAX_PLATFORMS="cpu")[0] == 0


@pytest.mark.parametrize(
    ("script", "first"), [("slurm.sh", ()), ("tpu_pod.sh", ("train", "t", "z"))]
)
def test_a_run_that_is_to_be_resumed_needs_a_workdir(cluster, script, first):
    status, errors = cluster.run(script, *first, "--config=x.py", SLURM_NTASKS="1")
    assert status == 2 and "--workdir" in errors


JOIN = """
from mmgen.core import distributed
distributed.initialize()
import jax
from jax.experimental.multihost_utils import process_allgather
print(jax.process_count(), jax.process_index(), process_allgather(jax.process_index() + 1).tolist())
"""


def is_free(port: int) -> bool:
    """jax takes its port from the job's number."""
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) != 0


def test_processes_of_a_slurm_step_find_each_other(tmp_path):
    job = next(job for job in range(os.getpid(), os.getpid() + 99) if is_free(job % 4096 + 61440))
    shared = os.environ | {
        "MMGEN_COORDINATOR": "auto",
        "JAX_PLATFORMS": "cpu",
        "SLURM_JOB_ID": str(job),
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NODELIST": "localhost",
        "PYTHONPATH": str(ROOT),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", JOIN],
            env=shared | {"SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    # Gloo has its say first.
    said = [process.communicate(timeout=200)[0].splitlines()[-1] for process in processes]
    assert said == ["2 0 [1, 2]", "2 1 [1, 2]"]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MMGEN_COORDINATOR": "auto"}, ["recognises no cluster", "srun"]),
        ({"MMGEN_COORDINATOR": "here:1"}, ["MMGEN_NUM_PROCESSES", "processes.sh"]),
        (
            {
                "MMGEN_COORDINATOR": "here:1",
                "MMGEN_NUM_PROCESSES": "2",
                "MMGEN_PROCESS_ID": "2",
            },
            ["MMGEN_PROCESS_ID is 2", "0 to 1"],
        ),
    ],
)
def test_an_environment_that_makes_no_sense_is_explained(variables, words):
    # In a process of its own: jax refuses to join others once it has computed anything.
    code = "from mmgen.core import distributed; distributed.initialize()"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MMGEN_", "SLURM_"))}
    tried = subprocess.run(
        [sys.executable, "-c", code], env=environment | variables, capture_output=True, text=True
    )
    assert tried.returncode != 0
    assert "mmgen.errors.UserError" in tried.stderr
    for word in words:
        assert word in tried.stderr


def test_tpu_setup_copies_the_commit_to_every_host(cluster):
    cluster.make("bash", BASH)
    status, errors = cluster.run("tpu_pod.sh", "setup", "pod", "zone", PYTHON="the python")
    assert status == 0, errors
    for worker in ("worker0", "worker1"):
        home = cluster.root / worker
        assert (home / "mmgen" / "mmgen" / "main.py").exists() and (home / "mmgen.tar").exists()
    # With jax for TPUs and what opens buckets, by the interpreter that was named.
    assert [line for line in cluster.log() if "setup" in line] == ["setup tpu the python"] * 2


@pytest.fixture
def tpu(cluster):
    """A cluster whose two TPU hosts are set up."""
    for worker in ("worker0", "worker1"):
        checkout = cluster.root / worker / "mmgen"
        (checkout / ".venv" / "bin").mkdir(parents=True)
        (checkout / ".venv" / "bin" / "python").symlink_to(cluster.tool("python"))
        (checkout / "launch").mkdir()
        shutil.copy(LAUNCH / "tpu_host.sh", checkout / "launch")
    return cluster


def test_tpu_trains_and_says_whether_it_is_finished(tpu):
    workdir = f"--workdir={tpu.workdir}"
    status, errors = tpu.run("tpu_pod.sh", "train", "pod", "zone", "a b", workdir)
    assert status == 75, errors
    started = [line for line in tpu.log() if "mmgen.main" in line]
    assert len(started) == 2 and all(f"a b {workdir} | auto" in line for line in started)
    assert tpu.run("tpu_pod.sh", "train", "pod", "zone", "finish", workdir)[0] == 0


@pytest.mark.parametrize("failure", ["255", "1"])
def test_a_tpu_that_is_taken_away_is_a_run_to_be_resumed(tpu, failure):
    arguments = ("tpu_pod.sh", "train", "pod", "zone", f"--workdir={tpu.workdir}")
    assert tpu.run(*arguments, NO_TPU=failure)[0] == 75
    tpu.workdir.mkdir()
    (tpu.workdir / "DONE").touch()
    assert tpu.run(*arguments, NO_TPU=failure)[0] == 0


@pytest.mark.parametrize(("word", "status"), [("fail", 75), ("wrong", 2)])
def test_a_tpu_run_is_not_repeated_after_a_users_error(tpu, word, status):
    arguments = ("tpu_pod.sh", "train", "pod", "zone", word, f"--workdir={tpu.workdir}")
    assert tpu.run(*arguments)[0] == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_tpu_run_is_saved_when_training_is_interrupted(tpu, number):
    arguments = ("tpu_pod.sh", "train", "pod", "zone", "wait", f"--workdir={tpu.workdir}")
    process = tpu.start(*arguments)
    tpu.wait_for(2)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 75
    assert tpu.log().count("saved") == 2


def test_a_tpu_run_outlives_the_link_and_is_shown_again(tpu):
    host = tpu.root / "worker0" / "mmgen" / "launch" / "tpu_host.sh"
    environment = os.environ | {"LOG": str(tpu.root / "log")}

    def ask(*words: str) -> subprocess.Popen:
        return subprocess.Popen(
            ["bash", str(host), *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    first = ask("train", "wait", "a b")
    assert "mmgen.main wait a b | auto" in first.stdout.readline()
    # What sshd does to its session when the link is gone.
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    other = ask("train", "wait", "c")
    _, errors = other.communicate(timeout=20)
    assert other.returncode == 2 and "another run goes on (wait a\\ b )" in errors
    again = ask("train", "wait", "a b")
    assert "mmgen.main wait a b | auto" in again.stdout.readline()
    assert sum("mmgen.main" in line for line in tpu.log()) == 1
    stop = ask("stop")
    stop.communicate(timeout=20)
    again.communicate(timeout=20)
    assert (stop.returncode, again.returncode, tpu.log()[-1]) == (0, 0, "saved")
    stop = ask("stop")
    _, errors = stop.communicate(timeout=20)
    assert stop.returncode == 2 and "no run goes on" in errors


def pod_of(jobset):
    (job,) = jobset["spec"]["replicatedJobs"]
    return job, job["template"]["spec"], job["template"]["spec"]["template"]["spec"]


def test_the_jobset_numbers_its_pods_and_names_the_first():
    jobset = yaml.safe_load((LAUNCH / "gke_jobset.yaml").read_text())
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    job, spec, pod = pod_of(jobset)
    (container,) = pod["containers"]
    env = {entry["name"]: entry for entry in container["env"]}
    assert spec["parallelism"] == spec["completions"] == int(env["MMGEN_NUM_PROCESSES"]["value"])
    assert spec["completionMode"] == "Indexed" and spec["backoffLimit"] == 0
    name = jobset["metadata"]["name"]
    host, port = env["MMGEN_COORDINATOR"]["value"].split(":")
    assert host == f"{name}-{job['name']}-0-0.{name}"
    assert int(port) == container["ports"][0]["containerPort"]
    index = env["MMGEN_PROCESS_ID"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert index == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert pod["restartPolicy"] == "Never" and pod["terminationGracePeriodSeconds"] >= 120
    policy = jobset["spec"]["failurePolicy"]
    assert policy["maxRestarts"] > 10
    # Status 2 is a UserError: the pod's failure fails its job, and the job's reason the whole set.
    (pod_rule,) = spec["podFailurePolicy"]["rules"]
    assert pod_rule["action"] == "FailJob"
    assert pod_rule["onExitCodes"] == {
        "containerName": container["name"],
        "operator": "In",
        "values": [2],
    }
    (set_rule,) = policy["rules"]
    assert (set_rule["action"], set_rule["onJobFailureReasons"]) == (
        "FailJobSet",
        ["PodFailurePolicy"],
    )
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", set_rule["name"])
    interpreter, script = container["command"]
    assert interpreter == "bash" and (ROOT / script).exists()
    assert (ROOT / container["args"][0].removeprefix("--config=")).exists()


@pytest.mark.parametrize(
    ("index", "word", "status"),
    [
        ("0", "finish", 0),
        ("0", "stop", 75),
        ("1", "stop", 0),
        ("0", "fail", 7),
        ("1", "fail", 7),
        ("0", "wrong", 2),
    ],
)
def test_a_pod_succeeds_only_with_a_finished_run(cluster, index, word, status):
    ended, _ = cluster.run("pod.sh", word, WORKDIR=str(cluster.workdir), JOB_COMPLETION_INDEX=index)
    assert ended == status
    assert f"mmgen.main --workdir={cluster.workdir} {word}" in cluster.log()[0]


def test_a_pod_that_is_taken_away_saves_and_fails(cluster):
    process = cluster.start("pod.sh", "wait", WORKDIR=str(cluster.workdir))
    cluster.wait_for(1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 75
