"""A run from the command line to its table, and what happens when it is asked for again."""

import json
import re

import pytest

from . import running, traces


def test_a_stranger_gets_a_table(bench, tmp_path):
    """In a fresh interpreter, compiled as everywhere, with the default cadence."""
    workdir = tmp_path / "run"
    result = running.run_main(
        running.CONFIG,
        f"--config.data_dir={bench.prepared}",
        f"--workdir={workdir}",
        XLA_FLAGS=running.OPTIMISED,
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"\| *this run *\|.*\d\.\d", result.stdout)
    assert re.search(r"\| *optimum *\|.*\d\.\d", result.stdout)
    assert "scene_world" in result.stdout
    assert "Traceback" not in result.stderr
    for name in ("config.json", "summary.json", "report.md", "DONE", "metrics.jsonl"):
        assert (workdir / name).is_file(), name
    assert list(workdir.glob("tb/**/*tfevents*"))
    assert (workdir / "report.md").read_text() in result.stdout
    summary = traces.summary(workdir)
    assert summary["dataset"] == "scene_world"
    assert summary["steps"] == 20
    evaluated = {path.parent.name for path in workdir.glob("evals/*/*.jsonl")}
    assert {"test", "novel"} <= evaluated


def test_the_same_command_again_only_prints(bench, unbroken):
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()}
    again = bench.finish(unbroken)
    assert "finished" in again.output
    assert (unbroken / "report.md").read_text().strip() in again.output
    after = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()}
    written = {path.name for path in after if after[path] != before.get(path)}
    assert written <= {".lock", "config.json"}


def test_metrics_are_logged_at_the_cadence(unbroken):
    steps = [line["step"] for line in traces.metric_lines(unbroken) if "train/loss" in line]
    assert steps == [3, 6, 9, 12, 15, 18, 20]
    losses = [line for line in traces.metric_lines(unbroken) if "train/loss" in line]
    assert all(line["train/loss"] > 0 for line in losses)


def test_another_run_is_refused_its_workdir(bench, unbroken):
    run = bench.start(unbroken, "--config.optimizer.learning_rate=0.5", "--config.seed=3")
    assert run.status() == 2
    assert "optimizer.learning_rate" in run.errors
    assert "seed" in run.errors
    assert "Traceback" not in run.errors


def test_one_workdir_serves_one_process(bench, tmp_path):
    workdir = tmp_path / "run"
    first = bench.start(workdir)
    assert first.wait_for((workdir / "config.json").exists), first.errors
    second = bench.start(workdir)
    assert second.status() == 2
    assert "another process" in second.errors
    assert "Traceback" not in second.errors
    assert first.is_running
    first.kill()


@pytest.mark.parametrize("profile", ["paper", "release"])
def test_a_profile_means_the_same_in_both_places(bench, tmp_path, profile):
    config = running.CONFIG.removesuffix(":smoke")
    runs = [
        bench.start(tmp_path / "a", "--describe", config=f"{config}:smoke,profile={profile}"),
        bench.start(tmp_path / "b", "--describe", f"--config.profile={profile}"),
    ]
    assert [run.status() for run in runs] == [0, 0], runs[0].errors + runs[1].errors
    assert runs[0].output == runs[1].output
    assert re.search(r"^parameters: \d", runs[0].output, re.MULTILINE)
    assert not (tmp_path / "a").exists()


def test_summary_is_plain_json(unbroken):
    text = (unbroken / "summary.json").read_text()
    assert not re.search(r"\b(NaN|Infinity)\b", text)
    assert json.loads(text)["metrics"]["test/log_ppl"] > 0
