"""CompAct runs from the command line: killed and resumed, on other meshes, refused, repeated."""

import json
import pathlib

import numpy as np
import pytest

from . import traces

CONFIG = "--config=configs/compact_al.py:smoke"

# The rate is so low that validation never improves: it is reduced with the third evaluation and the
# fifth, of eight, which is the end.
STALLED = (
    "--config.total.epochs=8",
    "--config.optimizer.learning_rate=1e-7",
    "--config.control.patience=1",
    "--config.control.stop_after=4",
    "--config.batch_size=60",
)


@pytest.fixture(scope="module")
def stalled(bench) -> pathlib.Path:
    """The workdir of a run with a plateau and an early stop that nothing disturbed."""

    def make(workdir: pathlib.Path) -> None:
        run = bench.start(workdir, *STALLED, config=CONFIG)
        assert run.status() == 0, run.errors

    return bench.once("compact-stalled", make)


def test_a_run_ends_early_with_its_best_checkpoint_and_a_table(stalled):
    summary = traces.summary(stalled)
    assert summary["stopped_early"]
    assert (summary["steps"], summary["best_step"]) == (20, 4)
    assert summary["small"]
    assert summary["timing"]["programs"] == 1
    assert "sacrebleu" in summary["versions"]
    assert summary["vocabulary"].keys() == {"rows", "fingerprint"}
    assert summary["labels"] is None
    validation = {
        line["step"]: line["validation/bleu1_joined"]
        for line in traces.metric_lines(stalled)
        if "validation/bleu1_joined" in line
    }
    assert list(validation) == [4, 8, 12, 16, 20]
    assert not any(
        name.startswith("test/") for line in traces.metric_lines(stalled) for name in line
    )
    assert validation[4] == pytest.approx(summary["metrics"]["validation/bleu1_joined"], abs=1e-9)
    assert {path.parent.name for path in stalled.glob("evals/*/*.jsonl")} == {"validation", "test"}
    report = (stalled / "report.md").read_text()
    assert "kitchen_world" in report
    assert "not comparable" in report


def test_killed_after_the_plateau_it_ends_in_the_same_bits(bench, stalled, tmp_path):
    workdir = tmp_path / "run"
    run = bench.start(workdir, *STALLED, config=CONFIG)
    assert run.wait_for((workdir / "checkpoints" / "16").exists), run.errors
    run.kill()
    run.status()
    assert not (workdir / "DONE").exists()
    run = bench.start(workdir, *STALLED, config=CONFIG)
    assert run.status() == 0, run.errors
    traces.assert_bit_equal(workdir, stalled)
    assert traces.summary(workdir)["best_step"] == 4
    state = traces.final_state(workdir)
    (scale,) = (value for name, value in state.items() if name.endswith("scale") and "opt" in name
                and value.ndim == 0)  # fmt: skip
    assert scale == pytest.approx(0.01), "two reductions, one before and one after the kill"


def test_the_same_command_again_only_prints_and_another_is_refused(bench, stalled):
    again = bench.start(stalled, *STALLED, config=CONFIG)
    assert again.status() == 0, again.errors
    assert "finished" in again.output
    other = bench.start(stalled, *STALLED, "--config.model.fusion=late", config=CONFIG)
    assert other.status() == 2
    assert "model.fusion" in other.errors


NOUN = CONFIG + ",task=noun"
SETTINGS = ("--config.total.epochs=2", "--config.optimizer.eps=1e-4", "--config.batch_size=80")


@pytest.fixture(scope="module")
def seeds(bench) -> pathlib.Path:
    """The workdir of two seeds by one command, on one device."""

    def make(workdir: pathlib.Path) -> None:
        run = bench.start(workdir, *SETTINGS, "--config.num_seeds=2", config=NOUN)
        assert run.status() == 0, run.errors

    return bench.once("compact-seeds", make)


def test_several_seeds_by_one_command(seeds):
    assert [traces.summary(seeds / name)["seed"] for name in ("s0", "s1")] == [0, 1]
    found = json.loads((seeds / "seeds.json").read_text())
    assert found["metrics"]["test/em"]["n"] == 2


def test_eight_virtual_devices(bench, seeds, tmp_path):
    one, eight = seeds / "s0", tmp_path / "eight"
    flags = "--xla_force_host_platform_device_count=8"
    run = bench.start(eight, *SETTINGS, config=NOUN, XLA_FLAGS=flags)
    assert run.status() == 0, run.errors
    assert traces.summary(eight)["device"]["devices"] == 8
    states = traces.final_state(one), traces.final_state(eight)
    for path, value in states[0].items():
        if path.startswith("params/"):
            atol = 1e-5 * max(np.abs(value).max(), 1e-3)
            np.testing.assert_allclose(states[1][path], value, 1e-4, atol, err_msg=path)
    metrics = [traces.summary(folder)["metrics"]["test/nll"] for folder in (one, eight)]
    np.testing.assert_allclose(*metrics, rtol=1e-4)


def test_features_that_are_not_there_are_named(bench, tmp_path):
    run = bench.start(tmp_path / "run", config="--config=configs/compact_imagebind.py:smoke")
    assert run.status() == 2
    assert "imagebind_text" in run.errors
    assert len(run.errors.strip().splitlines()) == 1
