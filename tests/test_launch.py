"""The launch scripts, with a stand-in for Python that records what it is asked to do."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAKE = """#!/usr/bin/env bash
case "$1 $2" in
"-c "*) if [[ $2 == *socket* ]]; then echo 4321; fi; exit "${OLD:-0}" ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip")
    if [[ $3 == install ]]; then
        echo "${*: -2}" >>"$FAKE_LOG"
        sleep "${SLOW:-0}"
        if [[ $* == *${FAIL:-nothing}* ]]; then exit 1; fi
    fi ;;
"-m mmgen.main")
    echo "${MMGEN_PROCESS_ID:-}/${MMGEN_NUM_PROCESSES:-} ${MMGEN_COORDINATOR:-} ${*:3}"
    trap 'exit 0' TERM
    if [[ $3 == fail && $MMGEN_PROCESS_ID == 1 ]]; then exit 7; fi
    if [[ $3 == ok ]]; then exit 0; fi
    touch "$FAKE_LOG.started.$MMGEN_PROCESS_ID"
    for ((i = 0; i < 300; i++)); do sleep 0.1; done
    exit 9 ;;
esac
"""
BASE = ["-r requirements.txt", "-e ."]
TEST = ["-r requirements-test.txt", "-r requirements-weights.txt", "-e ."]


class Checkout:
    """A copy of the files that the scripts read, and a way to run them."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.log = root / "asked.log"
        shutil.copytree(ROOT / "launch", root / "launch")
        for name in ("pyproject.toml", *(path.name for path in ROOT.glob("requirements*.txt"))):
            shutil.copy(ROOT / name, root / name)
        self.fake = root / "fake-python"
        self.fake.write_text(FAKE)
        self.fake.chmod(0o755)

    def tool(self, name: str, script: str) -> None:
        """Put a stand-in into `bin`."""
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def start(self, *command: str, **variables: str) -> subprocess.Popen:
        environment = os.environ | {"PYTHON": str(self.fake), "FAKE_LOG": str(self.log)} | variables
        return subprocess.Popen(
            ["bash", *command],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, **variables: str) -> tuple[int, str, str]:
        process = self.start(*command, **variables)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def installs(self) -> list[str]:
        """What was installed since the last call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_local_sets_up_once_and_passes_its_arguments_on(checkout):
    status, output, _ = checkout.run("launch/local.sh", "ok", "--config=a b.py")
    assert (status, output.split(maxsplit=1)[1]) == (0, "ok --config=a b.py\n")
    assert checkout.installs() == BASE
    assert checkout.run("launch/local.sh", "ok")[0] == 0
    assert checkout.installs() == []


def test_the_set_up_of_the_tests_serves_training_too(checkout):
    assert checkout.run("launch/setup.sh", "test")[0] == 0
    assert checkout.installs() == TEST
    assert checkout.run("launch/setup.sh", "base")[0] == 0
    assert checkout.installs() == []


def test_changed_requirements_are_installed(checkout):
    assert checkout.run("launch/setup.sh")[0] == 0
    with open(checkout.root / "requirements.txt", "a") as file:
        file.write("\n")
    checkout.installs()
    assert checkout.run("launch/setup.sh")[0] == 0
    assert checkout.installs() == BASE


def test_two_runs_at_once_install_once(checkout):
    runs = [checkout.start("launch/setup.sh", SLOW="0.3") for _ in range(2)]
    for run in runs:
        run.communicate(timeout=60)
    assert [run.returncode for run in runs] == [0, 0]
    assert checkout.installs() == BASE


def test_an_interrupted_set_up_starts_afresh(checkout):
    status, _, errors = checkout.run("launch/setup.sh", FAIL="requirements.txt")
    assert status == 2
    assert "could not install requirements.txt" in errors
    leftover = checkout.root / ".venv" / "half-written"
    leftover.touch()
    checkout.installs()
    assert checkout.run("launch/setup.sh")[0] == 0
    assert checkout.installs() == BASE
    assert not leftover.exists()


def test_an_old_python_is_refused_in_one_line(checkout):
    status, _, errors = checkout.run("launch/setup.sh", OLD="1")
    assert status == 2
    assert errors.count("\n") == 1
    assert "3.11" in errors
    assert not (checkout.root / ".venv").exists()


@pytest.mark.parametrize("what", ["cuda", "tpu"])
def test_a_set_up_for_accelerators_keeps_the_pinned_versions(checkout, what):
    assert checkout.run("launch/setup.sh", what)[0] == 0
    assert checkout.installs() == [*BASE, f"-e .[{what}]"]
    pins = (checkout.root / ".venv" / "mmgen-pins.txt").read_text()
    jax = next(line for line in pins.splitlines() if line.startswith("jax=="))
    assert f"{jax} \\\n" in (checkout.root / "requirements.txt").read_text()
    assert "--hash" not in pins and "\\" not in pins
    for ready in ("base", what):
        assert checkout.run("launch/setup.sh", ready)[0] == 0
    assert checkout.installs() == []


def test_the_first_python_that_is_new_enough_is_taken(checkout):
    names = ["python3", "python3.13", "python3.12", "python3.11"]
    path = f"{checkout.root / 'bin'}:{os.environ['PATH']}"
    for name in names:
        checkout.tool(name, "exit 1")
    checkout.tool("uv", "exit 1")
    status, _, errors = checkout.run("launch/setup.sh", PYTHON="", PATH=path)
    assert status == 2 and errors.count("\n") == 1
    assert "3.11" in errors and "python3.11-venv" in errors and "PYTHON" in errors
    checkout.tool("uv", f'if [[ $2 == find ]]; then echo "{checkout.fake}"; fi')
    assert checkout.run("launch/setup.sh", PYTHON="", PATH=path)[0] == 0
    shutil.rmtree(checkout.root / ".venv")
    checkout.tool("uv", "exit 1")
    shutil.copy(checkout.fake, checkout.root / "bin" / "python3.11")
    assert checkout.run("launch/setup.sh", PYTHON="", PATH=path)[0] == 0


def test_processes_know_their_places(checkout):
    status, output, _ = checkout.run(
        "launch/processes.sh", "3", "ok", MMGEN_PYTHON=str(checkout.fake)
    )
    assert status == 0
    assert sorted(output.splitlines()) == [f"{i}/3 127.0.0.1:4321 ok" for i in range(3)]


def test_a_failing_process_ends_the_others(checkout):
    status, _, errors = checkout.run(
        "launch/processes.sh", "2", "fail", MMGEN_PYTHON=str(checkout.fake)
    )
    assert status == 7
    assert "process 1 of 2 failed with status 7" in errors


def test_term_reaches_all_processes(checkout):
    process = checkout.start("launch/processes.sh", "2", "long", MMGEN_PYTHON=str(checkout.fake))
    started = [checkout.log.with_name(f"{checkout.log.name}.started.{i}") for i in range(2)]
    limit = time.monotonic() + 30
    while not all(path.exists() for path in started) and time.monotonic() < limit:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("arguments", [(), ("0",), ("--config=x",)])
def test_the_number_of_processes_is_asked_for(checkout, arguments):
    status, _, errors = checkout.run("launch/processes.sh", *arguments)
    assert status == 2
    assert "number of processes" in errors
