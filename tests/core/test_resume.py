"""Whatever kills a run and wherever: started again it ends in the same bits as an unbroken one."""

import os
import shutil
import signal
import threading

import numpy as np
import pytest

from mmgen.core.checkpoint import Checkpointer
from mmgen.core.preemption import Interrupted
from mmgen.errors import UserError

from . import children, toy


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """State and traces of a run that nothing disturbs."""
    path = tmp_path_factory.mktemp("unbroken")
    result = toy.toy_train(path)
    return toy.host_state(result), toy.traces(path), result


def assert_same(path, state, unbroken):
    """Parameters, moments, memory, metrics and records are equal to the last bit."""
    expected_state, expected_traces, _ = unbroken
    assert state.keys() == expected_state.keys()
    for name, value in state.items():
        np.testing.assert_array_equal(value, expected_state[name], err_msg=name)
    assert toy.traces(path) == expected_traces


def test_sigkill_anywhere(tmp_path, unbroken):
    """While reading, evaluating, writing a checkpoint; by the clock; in the last evaluation."""
    for place, number in [("feed", 4), ("evaluate", 7), ("feed", 12), ("evaluate", 20)]:
        assert children.run(children.train, str(tmp_path), place, number) == -signal.SIGKILL
    process = children.start(children.train, str(tmp_path))
    process.join(2)
    process.kill()
    assert children.status(process) in (0, -signal.SIGKILL)
    assert children.run(children.train, str(tmp_path)) == 0
    assert_same(tmp_path, children.saved_state(tmp_path), unbroken)


def stop_at(place, number):
    """Send this process SIGTERM there; from reading ahead, wherever the loop is just then."""

    def hook(at, n):
        if (at, n) == (place, number):
            os.kill(os.getpid(), signal.SIGTERM)

    return hook


@pytest.mark.parametrize(("place", "number"), [("feed", 9), ("evaluate", 7), ("evaluate", 20)])
def test_sigterm_saves_and_the_run_goes_on(tmp_path, unbroken, capsys, place, number):
    result = toy.toy_train(tmp_path, stop_at(place, number))
    assert result.stopped
    assert "stopped by a signal at step" in capsys.readouterr().err
    saved = Checkpointer(tmp_path / "checkpoints")
    assert saved.steps[-1] == int(result.state.step) > 0
    saved.close()
    result = toy.toy_train(tmp_path)
    assert not result.stopped
    assert_same(tmp_path, toy.host_state(result), unbroken)


def test_an_evaluation_that_must_be_repeated_leaves_one_line(tmp_path, unbroken):
    """Saved before it was evaluated, then evaluated, then killed before the next checkpoint."""

    def broken_off(place, number):
        if (place, number) == ("feed", 8):
            raise RuntimeError("broken off")

    assert toy.toy_train(tmp_path, stop_at("evaluate", 7)).stopped
    with pytest.raises(RuntimeError, match="broken off"):
        toy.toy_train(tmp_path, broken_off)
    assert_same(tmp_path, toy.host_state(toy.toy_train(tmp_path)), unbroken)


def test_sigterm_breaks_an_evaluation_and_restores_the_handler(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def hook(place, number):
        if place == "evaluate":
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                threading.Event().wait(30)
            except Interrupted:
                seen.append(number)
                raise

    assert toy.toy_train(tmp_path, hook).stopped
    assert seen == [7]
    assert signal.getsignal(signal.SIGTERM) is before


def corrupt(path, step, how):
    """Damage the checkpoint of a step."""
    folder = path / "checkpoints" / str(step)
    largest = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    if how == "truncated":
        largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
    elif how == "missing":
        next(iter((folder / "state").rglob("manifest.ocdbt"))).unlink()
    elif how == "about":
        (folder / "about" / "metadata").write_text("{")
    elif how == "zeros":
        for file in folder.rglob("*"):
            if file.is_file():
                file.write_bytes(bytes(file.stat().st_size))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run."""
    path = tmp_path_factory.mktemp("finished")
    toy.toy_train(path)
    return path


@pytest.mark.parametrize("how", ["truncated", "missing", "about", "zeros"])
def test_a_corrupt_newest_checkpoint_is_named_and_the_one_before_used(
    tmp_path, finished, unbroken, capsys, how
):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    corrupt(tmp_path, 20, how)
    result = toy.toy_train(tmp_path)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "the checkpoint of step 20" in said
    assert "going on from the one before, of step 15" in said
    assert_same(tmp_path, toy.host_state(result), unbroken)
    assert result.timing["steps"] == 5


def test_seconds_of_all_processes_add_up(tmp_path, finished):
    """Those of a process count up to the checkpoint that the next one begins from."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    timings = []
    for _ in range(2):
        timings.append(toy.toy_train(tmp_path).timing)
        corrupt(tmp_path, 20, "truncated")
    timings.append(toy.toy_train(tmp_path).timing)
    to_20, to_15, again = (timing["earlier_seconds"] for timing in timings)
    assert 0 < to_15 == again < to_20
    shutil.rmtree(tmp_path / "checkpoints" / "15")
    last = toy.toy_train(tmp_path).timing
    assert again < last["earlier_seconds"] < again + timings[-1]["total_seconds"]


def test_all_checkpoints_corrupt_is_the_users_to_mend(tmp_path, finished):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    for step in (15, 20):
        corrupt(tmp_path, step, "truncated")
    with pytest.raises(UserError, match=r"none of the checkpoints .* delete that folder"):
        toy.toy_train(tmp_path)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["15", "20"]
