"""The report of a run and of many runs, from files alone."""

import json

import numpy as np
import pytest
from fake_run import ER, make_context, make_run, read_json

from mmgen import evaluate
from mmgen.errors import UserError
from mmgen.evaluation.context import write_context
from mmgen.report import curves, figures
from mmgen.report.__main__ import main
from mmgen.report.aggregate import group_runs, load
from mmgen.report.run_table import run_report
from mmgen.report.viscoll_cells import method_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        make_run(root, seed=seed)
        make_run(root, seed=seed, loss=2.0, **ER | {"memory.capacity": 12})
    make_run(root, loss=2.5, text_only="zero", **ER)
    make_run(root, loss=1.9, **ER | {"memory.policy": "balanced_sqrt"}, seed=7)
    make_run(root, loss=3.5, **{"stream.order": "ascending"})
    make_run(root, finished=False, seed=9)
    return root


@pytest.fixture(scope="module")
def tables(runs, tmp_path_factory):
    """Tables of the report over `runs`, by name."""
    out = tmp_path_factory.mktemp("out")
    main([str(runs), "--out", str(out), "--no-figures"])
    return {path.stem: read_json(path) for path in (out / "tables").glob("*.json")}


def test_report_of_a_run_shows_every_number_in_proportion(tmp_path):
    text = run_report(make_run(tmp_path))
    for part in (
        "coco_shift_devtrain",
        "small: not the published size",
        "position x span-length unigram",
        "| best ",
        "seen98, by frequency",
        "as released",
        "adjective, novel",
        "I(task; time)/H(task) = 0.71",
        "[ a red dog ] s",
        "3.0",
    ):
        assert part in text
    assert "nan" not in text


def test_report_sets_ours_beside_the_published_values(tables):
    table = tables["table_2_coco_shift_devtrain_vlbert_profile_paper"]
    rows = {(row["method"], row["memory"]): row for row in table["rows"]}
    assert rows["er", "10k"]["log-PPL published"] == 2.43
    assert rows["er", "10k"]["log-PPL"] == pytest.approx(2.06, abs=0.05)
    assert (rows["er", "10k"]["seeds"], rows["er", "10k"]["slots"]) == (3, 12)
    assert rows["agem", "1k"]["log-PPL published"] == 3.478
    assert rows["agem", "1k"]["log-PPL"] is None
    assert rows["position x span-length unigram", None]["log-PPL"] == 4.13
    assert any("No run of: er 1k, agem 1k" in note for note in table["notes"])
    assert any("Published values are for coco_shift" in note for note in table["notes"])


def test_runs_are_listed_with_their_origin_and_the_missing_one_is_named(tables):
    rows = tables["runs"]["rows"]
    assert rows[-1]["state"] == "not finished: it has no summary.json"
    assert rows[0]["code"] == "0123456789"
    assert len(rows) == 10


def test_held_out_pairs_stand_beside_the_published_ones(tables):
    rows = {row["composition"]: row for row in tables["table_4"]["rows"]}
    assert (rows["black_cat"]["published"], rows["black_cat"]["kind"]) == ("held out", "adjective")
    assert rows["black_cat"]["coco_shift_devtrain"] is None
    assert rows["red_cat"]["coco_shift_devtrain"] == "held out"
    assert len(rows) == 24 + 2 and "big_dog" not in rows


def test_differences_are_paired_by_seed(tables):
    rows = tables["paired_differences_coco_shift_devtrain_vlbert_profile_paper"]["rows"]
    row = next(r for r in rows if (r["method"], r["minus"]) == ("er 10k", "vanilla"))
    assert row["difference"] == pytest.approx(-1.0, abs=0.05)
    assert (row["seeds"], row["excludes 0"]) == (3, "yes")


def test_other_orders_have_their_own_table(tables):
    rows = tables["table_5_coco_shift_devtrain_vlbert_profile_paper"]["rows"]
    published = {row["order"]: row["log-PPL published"] for row in rows}
    assert published == {"ascending": 4.31, "random": 5.04}


def test_every_figure_is_written_as_png_and_svg(runs, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    # Drawing is slow, and two panels show as much as four.
    monkeypatch.setattr(figures, "PANELS", 2)
    main([str(runs), "--out", str(tmp_path)])
    names = [path.name for path in (tmp_path / "figures").iterdir()]
    for figure in ("fig4", "fig6", "fig7", "fig8", "fig9"):
        assert sorted(name[-3:] for name in names if figure in name) == ["png", "svg"]
    assert (
        "figures/coco_shift_devtrain_vlbert_paper_fig4_stream_density.png"
        in (tmp_path / "report.md").read_text()
    )


def test_figures_have_the_same_bytes_each_time(runs, tmp_path):
    pytest.importorskip("matplotlib")
    groups = group_runs(load([runs])[0], method_of)[:1]
    for out in ("one", "two"):
        names = figures.save_figure(figures.compositions(groups), tmp_path / out, "figure")
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_der_with_labels_is_a_method_of_its_own(tmp_path):
    make_run(tmp_path, **ER | {"algorithm.name": "der"})
    labelled = {"algorithm.name": "der", "algorithm.label_weight": 0.5, "memory.size": "1k"}
    make_run(tmp_path, **ER | labelled)
    names = [group.label for group in group_runs(load([tmp_path])[0], method_of)]
    assert sorted(names) == ["der 10k", "der++ 1k"]


def curves_of(root, draw):
    """Labels of the curves in a figure's first panel, with their looks."""
    pytest.importorskip("matplotlib")
    axis = draw(group_runs(load([root])[0], method_of)).axes[0]
    return {line.get_label(): (line.get_color(), line.get_linestyle()) for line in axis.lines}


def test_the_mean_curve_weights_tasks_as_the_whole_split_does(tmp_path):
    path = make_run(tmp_path)
    write_context(path, make_context() | {"task_items": [60, 20, 0]})
    (group,) = group_runs(load([tmp_path])[0], method_of)
    by_task = curves.task_curves(group).loss
    expected = (60 * by_task[0] + 20 * by_task[1]) / 80
    np.testing.assert_allclose(curves.mean_curves(group).loss[0], expected)


def test_curves_over_the_stream_leave_out_runs_of_many_epochs(tmp_path):
    make_run(tmp_path)
    make_run(tmp_path, **{"stream.kind": "iid_epochs", "stream.order": "none"})
    looks = curves_of(tmp_path, figures.task_curves)
    assert list(looks) == ["vanilla"]


def test_more_curves_than_colours_still_differ(tmp_path):
    for seed in range(figures.COLORS + 2):
        make_run(tmp_path, seed=seed, **ER | {"memory.size": None, "memory.capacity": 100 + seed})
    looks = curves_of(tmp_path, figures.task_curves)
    assert len(looks) == len(set(looks.values())) == figures.COLORS + 2


def test_memory_policies_are_compared_at_one_size_and_with_images(tmp_path):
    make_run(tmp_path, **ER)
    make_run(tmp_path, seed=1, **ER | {"memory.policy": "balanced_sqrt"})
    make_run(tmp_path, **ER | {"memory.size": "1k"})
    make_run(tmp_path, text_only="zero", **ER)
    looks = curves_of(tmp_path, figures.memory_policies)
    assert sorted(looks) == ["er 10k", "er_balanced_sqrt 10k"]


def test_the_noun_of_fig_8_is_the_one_whose_compositions_have_most_items():
    pairs = [
        {"noun": noun, "novel": novel}
        for noun, novel in [("dog", False), ("cat", False), ("dog", False), ("cat", True)]
    ]
    assert figures._pairs_of_one_noun(pairs, np.array([4, 9, 1, 50])) == [1]
    assert figures._pairs_of_one_noun(pairs, np.array([4, 9, 6, 50])) == [2, 0]
    assert figures._pairs_of_one_noun(pairs, np.array([0, 0, 0, 50])) == []


def test_no_run_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="no finished run"):
        main([str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_evaluate_restores_the_metrics_from_the_records(tmp_path, capsys):
    path = make_run(tmp_path)
    summary = read_json(path / "summary.json")
    right = dict(summary["metrics"])
    summary["metrics"]["test/log_ppl"] = 99.0
    (path / "summary.json").write_text(json.dumps(summary))
    evaluate.main(["--workdir", str(path)])
    assert read_json(path / "summary.json") == summary | {"metrics": right}
    assert read_json(path / "evals/metrics.json") == right
    assert "test/log_ppl" in capsys.readouterr().out
    assert "99.0" not in (path / "report.md").read_text()


def test_evaluate_refuses_a_folder_that_is_no_workdir(tmp_path):
    with pytest.raises(UserError, match="no workdir"):
        evaluate.main(["--workdir", str(tmp_path)])
