"""Three seeds in one program: each is the run that it would be alone, and is reported as one."""

import json
import os
import pathlib
import signal

import pytest

from mmgen.metrics.stats import summarise
from mmgen.report.aggregate import load

from . import traces
from .test_meshes import SETTINGS, assert_close

SEEDS = ("--config.seed=1", "--config.num_seeds=3")


@pytest.fixture(scope="module")
def together(bench) -> pathlib.Path:
    """The workdir of three seeds."""
    return bench.once("seeds", lambda workdir: bench.finish(workdir, *SETTINGS, *SEEDS))


def test_a_seed_is_its_single_run(bench, together, tmp_path):
    alone = tmp_path / "alone"
    bench.finish(alone, *SETTINGS, "--config.seed=2")
    assert_close(together / "s2", alone)
    ours, theirs = (
        json.loads((run / "config.json").read_text()) for run in (together / "s2", alone)
    )
    assert ours["identity"] == theirs["identity"]
    # Started in its folder, it has nothing to do.
    again = bench.finish(together / "s2", *SETTINGS, "--config.seed=2")
    assert "This run is finished" in again.output


def test_seeds_are_reported_as_runs_and_together(together):
    runs, missing = load([together])
    assert [run.summary["seed"] for run in runs] == [1, 2, 3] and not missing
    found = json.loads((together / "seeds.json").read_text())
    assert found["seeds"] == [1, 2, 3]
    aggregate = found["metrics"]["test/log_ppl"]
    expected = summarise([run.summary["metrics"]["test/log_ppl"] for run in runs])
    assert (aggregate["mean"], aggregate["se"]) == (expected.mean, expected.se)
    assert len(set(aggregate["values"])) == 3
    assert "| test/log_ppl " in (together / "seeds.md").read_text()
    for run in runs:
        folder = pathlib.Path(run.path)
        steps = [line["step"] for line in traces.metric_lines(folder) if "train/loss" in line]
        assert steps == [3, 6, 9, 12, 15, 18, 20]
        assert (folder / "DONE").exists() and (folder / "report.md").exists()


def test_stopped_seeds_go_on_bit_equal(bench, together, tmp_path):
    workdir = tmp_path / "run"
    run = bench.start(workdir, *SETTINGS, *SEEDS)
    assert run.wait_for((workdir / "checkpoints" / "4").exists), run.errors
    os.kill(run.pid, signal.SIGTERM)
    assert run.status() == 0, run.errors
    assert "the same command continues" in run.output
    fewer = bench.start(workdir, *SETTINGS, "--config.seed=1", "--config.num_seeds=2")
    assert fewer.status() == 2 and "[1, 2, 3]" in fewer.errors
    bench.finish(workdir, *SETTINGS, *SEEDS)
    for name in ("s1", "s2", "s3"):
        traces.assert_bit_equal(workdir / name, together / name)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--config.memory.policy=balanced_forget"], "one by one"),
        (["--config.buckets.text=(16, 32)", "--config.buckets.objects=(2, 4)"], "one padded shape"),
        (["--config.num_seeds=0"], "num_seeds"),
    ],
)
def test_what_seeds_cannot_do_together_is_refused(bench, tmp_path, arguments, word):
    run = bench.start(tmp_path / "run", *SEEDS, *arguments)
    assert run.status() == 2
    assert word in run.errors and "Traceback" not in run.errors
    assert not (tmp_path / "run").exists()
