"""MACID's and few-shot CompAct's runs in a report, beside what was published."""

import pytest

from mmgen.prompting.run import run
from mmgen.report.__main__ import main
from mmgen.report.aggregate import group_runs, load
from mmgen.report.audit import differences
from mmgen.report.kinds import reporter_of
from mmgen.report.macid import condition_table
from mmgen.report.published import published
from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Workdirs: two seeds of one MACID run, one of pairs."""
    root = tmp_path_factory.mktemp("runs")
    for name, argument in (
        ("a", "model=fake:random,seed=0"),
        ("b", "model=fake:random,seed=1"),
        ("pairs", "model=fake:perfect,format=pairs"),
    ):
        config = prompting_config()
        config.data_dir = str(root / "prepared")
        config.logging.progress = False
        run(apply_arguments(config, f"limit=40,{argument}"), str(root / "macid" / name))
    return root / "macid"


def tables(runs):
    found, _ = load([runs])
    reporter = reporter_of("prompting")
    return {table.title: table for table in reporter.tables(group_runs(found, reporter.cell_of))}


def test_accuracies_stand_beside_the_published_ones(runs):
    table = tables(runs)["MACID, quadruples"]
    ours = [row for row in table.rows if row[1] == "push_world (world)"]
    assert [row[5] for row in ours] == ["generate", "choices", "calibrated"]
    assert {row[-1] for row in ours} == {2}
    assert all(row[6] is not None and row[7] > 0 for row in ours)
    below = {row[0]: row for row in table.rows[-table.unranked :]}
    assert below["chance"][6] == 0.25
    assert below["Llama-3.1-70B-Instruct, published"][6] == 0.58
    assert below["Llama-3.1-70B-Instruct, published"][7] == pytest.approx(0.049, abs=5e-4)
    pairs = tables(runs)["MACID, pairs"]
    assert pairs.rows[0][6] == 1.0
    assert len(pairs.rows) == 3 + 1


def test_the_data_and_the_conditions_are_shown(runs):
    found = tables(runs)
    details = found["MACID, push_world, data"]
    assert [(row[1], row[2]) for row in details.rows[:5]] == [
        (100, 100),
        (307, 307),
        (3, 3),
        (18, 18),
        (62, 62),
    ]
    conditions = {row[0] for row in found["MACID, quadruples, by condition"].rows}
    assert {"pattern 2 1 1", "intruders verb shared", "similarity high"} <= conditions
    assert "same verb" in {row[0] for row in found["MACID, pairs, by condition"].rows}


def test_a_condition_that_only_one_run_has_is_left_empty_for_the_other(runs):
    found, _ = load([runs])
    cell_of = reporter_of("prompting").cell_of
    first, *others = [g for g in group_runs(found, cell_of) if g.method.format == "quadruples"]
    assert not others
    metrics = {
        name: value
        for name, value in first.runs[0].summary["metrics"].items()
        if "/by/similarity_high" not in name
    }
    run_without = first.runs[0]._replace(summary=first.runs[0].summary | {"metrics": metrics})
    table = condition_table([first, first._replace(runs=(run_without,))], "quadruples")
    rows = {row[0]: row[1:] for row in table.rows}
    half = len(rows["similarity high"]) // 2
    assert None not in rows["similarity high"][:half]
    assert rows["similarity high"][half:] == [None] * half
    assert None not in rows["pattern 2 1 1"]


def test_the_command_writes_the_report(runs, tmp_path, capsys):
    main([str(runs), "--out", str(tmp_path), "--no-figures"])
    assert "### MACID, quadruples" in capsys.readouterr().out
    assert (tmp_path / "tables" / "macid_quadruples.tex").exists()
    assert "macid" in (tmp_path / "runs.csv").read_text()


def test_the_audit_finds_which_published_accuracies_differ():
    rows = published("macid")["accuracy"]
    found = {
        frozenset((one.first, one.second)): one
        for one in differences(
            rows, "accuracy", published("macid")["deviations"]["accuracy"]["accuracy"]
        )
    }
    large, small = "Llama-3.1-70B-Instruct", "Llama-3.1-8B-Instruct"
    best = found[frozenset((large, small))]
    assert abs(best.statistic) == pytest.approx(2.1, abs=0.05)
    assert best.p < 0.05
    chance = found[frozenset(("Minerva-7B-instruct-v1.0", small))]
    assert chance.p < 0.05
    assert len(found) == 6
