"""A search trains on the start of the stream, never sees the test split, and repeats nothing."""

# ruff: noqa: F401, F811 (fixtures of another folder are imported)

import json
import os
import pathlib
import subprocess

import pytest
from e2e.conftest import bench

from mmgen import run, search
from mmgen.core.workdir import Workdir
from mmgen.errors import Diverged, UserError
from mmgen.report.leaderboard import Result, leaderboard, ranked
from mmgen.settings.command_line import load_config, parse_config

ROOT = pathlib.Path(__file__).parent.parent
CONFIG = f"--config={ROOT}/configs/visCOLL_vanilla.py:smoke"
RATES = ("--grid", "optimizer.learning_rate=1e-3,1e30", "--seeds", "1")


@pytest.fixture(scope="module")
def searched(bench, tmp_path_factory):
    """(folder, arguments) of a search in which the larger learning rate diverges."""
    out = tmp_path_factory.mktemp("search") / "out"
    arguments = [CONFIG, f"--config.data_dir={bench.prepared}", *RATES, "--out", str(out)]
    search.main(arguments)
    return out, arguments


def test_the_best_is_a_config_that_main_accepts(searched):
    out, _ = searched
    board = json.loads((out / "leaderboard.json").read_text())
    assert board["winner"] == {"optimizer.learning_rate": "1e-3"}
    best, worst = board["leaderboard"]
    assert (best["state"], worst["state"]) == ("best", "diverged")
    assert best["validation/log_ppl"] > 0 and worst["validation/log_ppl"] is None
    assert "first 10% of the stream, 2 iterations" in (out / "leaderboard.md").read_text()
    config = load_config(f"{out}/winner.py:seed=4")
    expected = parse_config([CONFIG, "--config.optimizer.learning_rate=1e-3", "--config.seed=4"])
    with expected.unlocked():
        expected.name = "visCOLL_vanilla_tuned"
    assert config.to_json() == expected.to_json()


def test_trials_see_the_validation_split_only(searched):
    out, _ = searched
    evaluated = {path.parent.name for path in out.glob("*/evals/*/*.jsonl")}
    assert evaluated == {"validation", "validation_subset"}
    summary = json.loads((out / "learning_rate=1e-3-s0" / "summary.json").read_text())
    assert not any(key.startswith("test") for key in summary["metrics"])
    assert summary["examples"] == 64
    assert "forgetting/tasks" in summary["metrics"]
    assert "validation (64 items)" in (out / "learning_rate=1e-3-s0" / "report.md").read_text()


def test_a_finished_trial_is_not_repeated(searched, monkeypatch):
    out, arguments = searched
    before = (out / "leaderboard.md").read_text()
    trained = []

    def train(experiment, folder, command):
        trained.append(folder.root.name)
        raise Diverged("as before")

    monkeypatch.setattr(run, "_train", train)
    search.main(arguments)
    assert trained == ["learning_rate=1e30-s0"]
    assert (out / "leaderboard.md").read_text() == before


def test_another_search_is_refused_the_folder(searched):
    _, arguments = searched
    with pytest.raises(UserError, match=r"stream\.share"):
        search.main([*arguments, "--share", "0.2"])


def test_a_trial_is_one_seed_whatever_the_config_file_says(tmp_path):
    file = tmp_path / "three.py"
    file.write_text(
        "from mmgen.settings.args import apply_arguments\n"
        "from mmgen.settings.defaults import default_config\n"
        "def get_config(argument=''):\n"
        "    config = default_config()\n"
        "    config.num_seeds = 3\n"
        "    return apply_arguments(config, argument)\n"
    )
    given = [f"--config={file}:smoke", "--out", str(tmp_path)]
    trials = search.make_trials(search.make_search(*search._parser().parse_known_args(given)))
    assert {parse_config(trial.arguments).num_seeds for trial in trials} == {1}


def test_a_stopped_search_says_so_and_has_no_winner(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "run", lambda *a: 0)
    search.main([CONFIG, "--out", str(tmp_path)])
    assert "the same command continues" in capsys.readouterr().out
    assert not (tmp_path / "winner.py").exists()


def test_the_default_is_the_search_of_the_paper(tmp_path):
    options, rest = search._parser().parse_known_args([CONFIG, "--out", str(tmp_path)])
    trials = search.make_trials(search.make_search(options, rest))
    chosen = [(float(dict(t.point)["optimizer.learning_rate"]), t.seed) for t in trials]
    assert chosen == [(rate, seed) for rate in (2e-4, 1e-4, 5e-5) for seed in range(3)]
    config = parse_config(trials[0].arguments)
    assert (config.stream.share, config.evaluation.splits) == (0.1, ("validation",))
    assert len({trial.name for trial in trials}) == 9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--config=FILE"),
        ([CONFIG, "--split=test"], "--split=validation"),
        ([CONFIG, "--split=novel"], "--split=validation"),
        ([CONFIG, "--share=0"], "--share=0.0"),
        ([CONFIG, "--grid", "seed=1,2"], "--seeds"),
        ([CONFIG, "--config.stream.share=0.5"], "--share"),
        ([CONFIG, "--config.evaluation.splits=('test',)"], "--split"),
        ([CONFIG, "--config.num_seeds=3"], "--seeds"),
        ([CONFIG, "--metric=test/log_ppl"], "no choice may depend on"),
        ([CONFIG, "--metric=novel/bleu1"], "no choice may depend on"),
        ([CONFIG, "--grid", "batch_size"], "no values"),
        ([CONFIG, "--grid", "batch_sise=8"], "did you mean 'batch_size'"),
        ([CONFIG, "--grid", "batch_size=eight"], "batch_size"),
        ([CONFIG, "--metrik=x"], "metrik"),
    ],
)
def test_a_wrong_search_is_refused_before_the_first_trial(tmp_path, arguments, words):
    with pytest.raises(UserError, match=words):
        search.main([*arguments, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_slurm_runs_each_trial_as_an_array_task(tmp_path):
    out = tmp_path / "out"
    search.main([CONFIG, *RATES, "--out", str(out), "--slurm"])
    script = out / "search.sbatch"
    assert "#SBATCH --array=0-1\n" in script.read_text()
    task = {"SLURM_SUBMIT_DIR": str(ROOT), "SLURM_ARRAY_TASK_ID": "1", "MMGEN_PYTHON": "echo"}
    command = ["bash", str(script)]
    printed = subprocess.run(
        command, env=os.environ | task, capture_output=True, text=True, check=True
    ).stdout
    program, module, *arguments = printed.split()
    assert (program, module) == ("-m", "mmgen.main")
    assert arguments[-1] == f"--workdir={out}/learning_rate=1e30-s0"
    assert parse_config(arguments[:-1]).optimizer.learning_rate == 1e30
    assert sorted(path.name for path in out.iterdir()) == ["search.sbatch"]


def grid(**values):
    return [
        Result((("lr", lr),), seed, value)
        for lr, found in values.items()
        for seed, value in enumerate(found)
    ]


def test_the_leaderboard_ranks_by_the_mean_and_pairs_by_seed():
    results = grid(a=[3.0, 3.2, 3.1], b=[2.0, 2.2, 2.1], c=[1.0, None, 1.0], d=[2.0, 2.6, 1.8])
    assert [dict(p.point)["lr"] for p in ranked(results, "validation/log_ppl")] == list("bdac")
    assert [dict(p.point)["lr"] for p in ranked(results, "validation/bleu1")] == list("adbc")
    table = leaderboard("x", results, "validation/log_ppl", "Facts.")
    assert [row[-1] for row in table.rows] == ["best", "not told apart", "worse", "diverged"]
    assert table.rows[2][4] == pytest.approx(1.0)


def test_a_best_value_at_the_edge_is_said():
    inside = grid(**{"1": [2.0], "2": [1.0], "3": [2.0]})
    outside = grid(**{"1": [2.0], "2": [1.5], "3": [1.0]})
    notes = [leaderboard("x", r, "m", "Facts.").notes for r in (inside, outside)]
    assert [len(n) for n in notes] == [1, 2]
    assert "edge" in notes[1][1]


def test_an_unknown_metric_names_the_known_ones(searched, tmp_path):
    out, _ = searched
    trial = search.Trial((), 0, ())
    Workdir(tmp_path / trial.name).write_text(
        "summary.json", (out / "learning_rate=1e-3-s0" / "summary.json").read_text()
    )
    with pytest.raises(UserError, match="validation/bleu1"):
        search._result(trial, "validation/blue", False, Workdir(tmp_path))


@pytest.mark.parametrize("name", ["compact_l", "cobsat", "cobsat_lora"])
def test_configs_of_other_kinds_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="a search trains configs of kind masked_span only"):
        search.main([f"--config={ROOT}/configs/{name}.py", "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
