"""Repetitions are found and averaged; other data, missing runs and doubles are named."""

import pytest
from fake_run import ER, make_run

from mmgen import report
from mmgen.errors import UserError
from mmgen.report.aggregate import Run, group_runs, load, mean_hours
from mmgen.report.kinds import tidy
from mmgen.report.viscoll_cells import method_of, unusual_keys


def test_repetitions_differ_in_seed_alone(tmp_path):
    for seed in range(3):
        make_run(tmp_path, seed=seed)
        make_run(tmp_path, seed=seed, loss=2.0, **ER)
    runs, missing = load([tmp_path])
    groups = group_runs(runs, method_of)
    assert missing == []
    assert sorted(len(group.runs) for group in groups) == [3, 3]
    assert all(group.settings == "" for group in groups)
    summary = groups[0].summary_of("test/log_ppl")
    assert summary.n == 3
    assert summary.sd == pytest.approx(summary.se * 3**0.5)


def test_unfinished_and_absent_runs_are_named(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", finished=False)
    runs, missing = load([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert len(runs) == 1
    assert ["not finished" in missing[0].reason, "no workdir" in missing[1].reason] == [True, True]


def test_runs_on_other_data_are_not_averaged(tmp_path):
    make_run(tmp_path, seed=0)
    make_run(tmp_path, seed=1, fingerprint="e" * 64)
    with pytest.raises(UserError, match="different data"):
        group_runs(load([tmp_path])[0], method_of)


def test_the_same_seed_twice_is_refused(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    with pytest.raises(UserError, match="same run"):
        group_runs(load([tmp_path])[0], method_of)


def test_another_learning_rate_is_another_experiment(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", **{"optimizer.learning_rate": 2e-4})
    groups = group_runs(load([tmp_path])[0], method_of)
    assert [group.settings for group in groups] == [
        "optimizer.learning_rate=0.0001",
        "optimizer.learning_rate=0.0002",
    ]


@pytest.mark.parametrize(
    ("config", "method", "memory"),
    [
        ({}, "vanilla", "none"),
        (ER, "er", "10k"),
        (ER | {"text_only": "zero"}, "er_text_only", "10k"),
        (ER | {"algorithm.name": "mir"}, "er_mir", "10k"),
        (ER | {"algorithm.name": "mir", "algorithm.aggregate": "max"}, "er_mir_max", "10k"),
        (ER | {"memory.policy": "balanced_sqrt"}, "er_balanced_sqrt", "10k"),
        (ER | {"memory.size": None, "memory.capacity": 500}, "er", "500"),
        ({"stream.kind": "iid"}, "offline_one_pass", "none"),
        ({"stream.kind": "iid_epochs"}, "offline", "none"),
    ],
)
def test_cell_of_the_papers_tables(tmp_path, config, method, memory):
    run = load([make_run(tmp_path, **config)])[0][0]
    assert (method_of(run).method, method_of(run).memory) == (method, memory)


def test_a_metric_that_no_run_has_is_none(tmp_path):
    make_run(tmp_path)
    assert group_runs(load([tmp_path])[0], method_of)[0].summary_of("test/nothing") is None


def test_tidy_has_one_row_per_run_and_metric(tmp_path):
    make_run(tmp_path)
    runs: list[Run] = load([tmp_path])[0]
    rows = tidy(runs)
    assert len(rows) == len(runs[0].summary["metrics"])
    assert rows[0].keys() >= {"method", "memory", "dataset", "seed", "metric", "value"}
    assert report.load(str(tmp_path)) == rows


def test_loading_nothing_names_what_is_unfinished(tmp_path):
    make_run(tmp_path, finished=False)
    with pytest.raises(UserError, match="not finished"):
        report.load(str(tmp_path))


def test_seeds_side_by_side_share_their_wall_time():
    summaries = [{"wall_seconds": 7200.0}, {"wall_seconds": 10800.0, "side_by_side": 3}]
    alone, shared = (Run("", summary) for summary in summaries)
    assert mean_hours([alone]) == 2
    assert mean_hours([shared]) == 1
    assert mean_hours([alone, shared]) == 1.5


def test_a_run_that_is_not_the_published_one_says_so_even_alone(tmp_path):
    make_run(
        tmp_path,
        **ER,
        **{
            "dataset.shuffle_features": True,
            "dataset.instances": None,
            "stream.share": 0.1,
            "algorithm.update": "joint",
            "evaluation.subset": 5,
        },
    )
    (group,) = group_runs(load([tmp_path])[0], method_of, unusual_keys)
    assert group.settings == (
        "algorithm.update=joint, dataset.shuffle_features=True, stream.share=0.1"
    )
