"""A run that is killed, stopped or damaged, and started again, ends in the same bits."""

import os
import pathlib
import random
import shutil
import signal
import time

import pytest

from . import running, traces


def test_sigterm_saves_and_the_same_command_goes_on(bench, unbroken, tmp_path):
    workdir = tmp_path / "run"
    run = bench.start(workdir)
    assert run.wait_for((workdir / "checkpoints" / "4").exists), run.errors
    os.kill(run.pid, signal.SIGTERM)
    assert run.status() == 0, run.errors
    assert "the same command continues" in run.output
    assert not (workdir / "DONE").exists()
    bench.finish(workdir)
    traces.assert_bit_equal(workdir, unbroken)


def test_a_corrupt_newest_checkpoint_is_passed_over(bench, unbroken, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(unbroken, workdir)
    for name in ("DONE", "summary.json", "report.md"):
        (workdir / name).unlink()
    spoil(workdir / "checkpoints" / "20" / "state")
    run = bench.finish(workdir)
    assert "checkpoint of step 20" in run.errors
    assert "step 16" in run.errors
    traces.assert_bit_equal(workdir, unbroken)
    summary = traces.summary(workdir)
    timing = summary["timing"]
    assert 0 < timing["earlier_seconds"] < traces.summary(unbroken)["wall_seconds"]
    assert summary["wall_seconds"] > timing["earlier_seconds"] + timing["total_seconds"]


def spoil(folder: pathlib.Path) -> None:
    """Flips a bit in the middle of the largest file, as a bad disk does."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0x10
    largest.write_bytes(data)


@pytest.mark.timeout(1500)
def test_killed_at_10_random_moments(bench, unbroken, tmp_path):
    kill_at_random(bench, unbroken, tmp_path, kills=10)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)  # 40 minutes on a busy machine.
def test_killed_at_100_random_moments(bench, unbroken, tmp_path):
    kill_at_random(bench, unbroken, tmp_path, kills=100)


def kill_at_random(bench, unbroken: pathlib.Path, folder: pathlib.Path, kills: int) -> None:
    """Kills runs until `kills` have hit; every run that reaches its end is compared."""
    moment = random.Random(0)
    number = 0
    workdir = folder / "0"
    while kills:
        run = bench.start(workdir)
        wait_for_a_moment(run, workdir, moment)
        run.kill()
        status = run.status()
        if status == -signal.SIGKILL:
            kills -= 1
            continue
        assert status == 0, run.errors
        traces.assert_bit_equal(workdir, unbroken)
        number += 1
        workdir = folder / str(number)
    bench.finish(workdir)
    traces.assert_bit_equal(workdir, unbroken)


def wait_for_a_moment(run: running.Run, workdir: pathlib.Path, moment: random.Random) -> None:
    """Lets a run write a few files (saves, evaluations, log lines), and a little longer."""

    def files() -> int:
        # os.walk passes over what is renamed while it looks.
        return sum(len(names) + len(folders) for _, folders, names in os.walk(workdir))

    wanted = files() + moment.choice([1, 5, 10, 20, 40, 60])
    run.wait_for(lambda: files() >= wanted)
    time.sleep(moment.uniform(0.0, 0.2))
