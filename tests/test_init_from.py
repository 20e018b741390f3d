"""A run begins with the weights of another, once, and says whose they are."""

# ruff: noqa: F401, F811 (fixtures of another folder are imported)

import json
import shutil

import pytest
from e2e.conftest import bench, unbroken
from e2e.running import ROOT

from mmgen.errors import UserError
from mmgen.evaluation.predictions import read_records
from mmgen.run import run
from mmgen.settings.command_line import parse_config


def child_config(bench, parent, *overrides):
    return parse_config(
        [
            f"--config={ROOT}/configs/visCOLL_vanilla.py:smoke",
            f"--config.data_dir={bench.prepared}",
            f"--config.init_from={parent}",
            # Nothing is learnt, so that what comes out is what went in.
            "--config.optimizer.learning_rate=1e-30",
            "--config.total.steps=2",
            "--config.evaluation.count=0",
            "--config.evaluation.splits=('test',)",
            *overrides,
        ]
    )


def losses(workdir, step):
    records = read_records(workdir / "evals" / "test" / f"{step:08d}.jsonl")
    return [value for record in records for value in record["nll"]]


def test_weights_come_from_the_parent_and_are_not_asked_for_again(bench, unbroken, tmp_path):
    parent, child = tmp_path / "parent", tmp_path / "child"
    shutil.copytree(unbroken, parent)
    config = child_config(bench, parent)
    assert run(config, str(child)) == 0
    # The parent was trained by replay, its child has neither memory nor the same buckets.
    assert losses(child, 2) == pytest.approx(losses(parent, 20), abs=2e-5)
    summary = json.loads((child / "summary.json").read_text())
    theirs = json.loads((parent / "summary.json").read_text())
    origin = summary["parent"]
    assert (origin["workdir"], origin["step"]) == (str(parent), 20)
    assert origin["fingerprint"] == theirs["fingerprint"]
    assert origin["name"] == "visCOLL_er10k"
    shutil.rmtree(parent)
    for name in ("DONE", "summary.json"):
        (child / name).unlink()
    assert run(config, str(child)) == 0
    assert json.loads((child / "summary.json").read_text())["parent"] == origin


@pytest.mark.parametrize(
    ("parent", "overrides", "words"),
    [
        ("none", (), "no workdir of a run"),
        ("unbroken", ("--config.model.hidden=16",), "another model"),
        ("unbroken", ("--config.model.factory=lxmert",), "another model"),
    ],
)
def test_a_parent_that_does_not_fit_leaves_nothing_behind(
    bench,
    unbroken,
    tmp_path,
    parent,
    overrides,
    words,
):
    child = tmp_path / "child"
    config = child_config(bench, unbroken if parent == "unbroken" else tmp_path, *overrides)
    with pytest.raises(UserError, match=words):
        run(config, str(child))
    assert not (child / "config.json").exists()
