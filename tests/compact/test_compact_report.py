"""The tables of the CompAct paper from the files of runs, beside what was published."""

import json
import pathlib
from functools import partial

import pytest
from fake_compact import make_run, read_json

from mmgen import report
from mmgen.compact import scores
from mmgen.evaluation.context import write_context
from mmgen.report.__main__ import main
from mmgen.report.aggregate import Run
from mmgen.report.compact_cells import changed_keys, system_of
from mmgen.report.published import find_row, papers, published
from mmgen.report.tables import file_name
from mmgen.settings.command_line import load_config
from mmgen.settings.compact import resolve
from mmgen.settings.identity import identity

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def few_draws():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("bootstrap_sums", "cluster_bootstrap"):
            patch.setattr(scores, name, partial(getattr(scores, name), draws=50))
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("compact")
    for seed in range(3):
        make_run(root, "L", seed, right=seed % 2)
        make_run(root, "VL", seed, right=2 + seed % 2, curves=seed == 0)
        make_run(root, "L", seed, right=2, split="resplit")
        make_run(root, "L", seed, task="verb", right=1)
    known = [f"{who}_{key}" for who in ("optimum", "memoriser") for key in ("joint", "exact")]
    make_run(root, "L", extra=known, world=True)
    make_run(root, "L", own=True)
    return root / "runs"


@pytest.fixture(scope="module")
def tables(runs, tmp_path_factory):
    """Tables of the report over `runs`, by name."""
    out = tmp_path_factory.mktemp("out")
    main([str(runs), "--out", str(out), "--no-figures"])
    found = {path.stem: read_json(path) for path in (out / "tables").glob("*.json")}
    return lambda title: found[file_name(title)]


def rows_of(table, key="model"):
    return {row[key]: row for row in table["rows"]}


def test_ours_stand_beside_the_published_values(tables):
    table = tables("Table 1, compact_mcd, utterance, test")
    rows = rows_of(table)
    assert (rows["L"]["BLEU published"], rows["L"]["EM published"]) == (21.75, 2.89)
    assert rows["L"]["EM"] == pytest.approx(100 / 9)
    assert rows["L"]["EM sd"] == pytest.approx(3**0.5 * rows["L"]["EM SE"])
    assert (rows["VL"]["seeds"], rows["AL"]["seeds"]) == (3, None)
    assert (rows["AL"]["BLEU"], rows["AL"]["BLEU published"]) == (None, 30.82)
    assert rows["LLaMA2"]["CA published"] == 7.41
    assert (rows["L"]["BERTScore published"], rows["L"]["BERTScore"]) == (79.06, None)
    assert any("No run of: AL, AVL" in note for note in table["notes"])
    assert any("not public" in note for note in table["notes"])
    assert any("targets themselves, by the same parser: 100.00 %" in n for n in table["notes"])


def test_predictions_without_training_stand_below(tables):
    rows = rows_of(tables("Table 1, compact_mcd, utterance, test"))
    assert rows["put_down + last noun"]["EM"] == pytest.approx(100 / 3)
    assert rows["copy the last input"]["EM published"] is None
    verbs = rows_of(tables("Table 2, compact_mcd, verb, test"))
    assert verbs["MRH (most recent)"]["CA published"] == 9.61
    assert verbs["L"]["EM published"] == 13.37
    assert "MRH" not in verbs


def test_validation_and_control_have_their_own_tables(tables):
    validation = rows_of(tables("Table 7, compact_mcd, utterance, validation"))
    assert validation["L"]["BLEU published"] == 21.43
    control = tables("Scores, compact_resplit, utterance, test")
    assert "BLEU published" not in control["rows"][0]
    assert any("the same windows divided at random" in note for note in control["notes"])


@pytest.mark.parametrize("changes", [{"target_dc": 0.3}, {"validation": "train"}], ids=str)
def test_a_split_of_another_kind_has_no_published_value(tmp_path, changes):
    """Its compounds are known, or the part that chooses is in-domain."""
    path = make_run(tmp_path, **changes)
    main([str(path), "--out", str(tmp_path / "out"), "--no-figures"])
    for split in ("test", "validation"):
        stem = file_name(f"Scores, compact_mcd, utterance, {split}")
        table = read_json(tmp_path / "out" / "tables" / f"{stem}.json")
        assert [row["model"] for row in table["rows"]][:2] == ["L", "most frequent"]
        assert not [name for name in table["rows"][0] if "published" in name]
        assert any("compact_mcd does not, so no published value" in n for n in table["notes"])
    failures = read_json(tmp_path / "out/tables/table_15_compact_mcd_utterance.json")
    assert not [name for name in failures["rows"][0] if "published" in name]


@pytest.mark.parametrize("world", [True, False])
@pytest.mark.parametrize("task", ["utterance", "verb", "noun"])
@pytest.mark.parametrize("name", ["l", "vl", "al", "avl", "ol", "oal", "merlotr", "imagebind"])
def test_only_what_is_not_the_cells_own_is_named(monkeypatch, name, task, world):
    monkeypatch.chdir(ROOT)
    info = {
        "world": world,
        "data_seed": 3,
        "fingerprint": "0",
        "settings": {"split": "mcd", "target_dc": 0.6, "validation": "heldout"},
    }

    def unusual(**changes):
        config = load_config(f"configs/compact_{name}.py:task={task}")
        config.unlock()
        config.dataset.name = "kitchen_world" if world else "compact_mcd"
        config.update_from_flattened_dict({"model.scan_unroll": 3, "data_seed": 3} | changes)
        return changed_keys(json.loads(json.dumps(identity(resolve(config.lock(), info), info))))

    assert unusual() == []
    for changes in (
        {"model.fusion": "late"},
        {"optimizer.learning_rate": 2e-3},
        {"batch_size": 64},
        {"control.patience": 9},
        {"evaluation.every": 2},
        {"model.fused_layers": 2},
        {"dataset.dropped": ("audio",)},
    ):
        assert unusual(**changes) == list(changes)
    assert set(unusual(**{"model.size": "smoke"})) >= {"model.hidden", "model.mlp"}


def test_a_run_with_another_setting_says_so_although_it_is_alone(tmp_path):
    path = make_run(tmp_path, "VL", keys={"model.fusion": "late"})
    main([str(path), "--out", str(tmp_path / "out"), "--no-figures"])
    rows = read_json(tmp_path / "out/tables/table_1_compact_mcd_utterance_test.json")["rows"]
    assert "VL (model.fusion=late)" in [row["model"] for row in rows]


def test_a_world_has_its_optimum_and_no_published_value(tables):
    table = tables("Table 1, kitchen_world_mcd, utterance, test")
    row = rows_of(table)["L"]
    assert row["CA optimum"] == row["EM optimum"] == 50
    assert "CA published" not in row
    unseen = rows_of(tables("Seen and unseen compounds, kitchen_world_mcd, utterance, test"))["L"]
    assert unseen["CA optimum unseen"] == unseen["CA memoriser unseen"] == 50


def test_a_data_set_of_ones_own_has_no_published_value(tables):
    for title in ("Table 1, {}, test", "Table 7, {}, validation", "Table 6, {}", "Table 15, {}"):
        found = tables(title.format("mine_mcd, utterance"))
        assert not [note for note in found["notes"] if note.startswith("Published")]
        assert not [name for name in found["rows"][0] if "published" in name]
        assert next(iter(rows_of(found))) == "L"
        assert "AVL" not in rows_of(found)
    notes = tables("Table 1, mine_mcd, utterance, test")["notes"]
    assert any("mine_mcd is not EPIC-KITCHENS, so no published value" in note for note in notes)
    assert not any("authors' split" in note for note in notes)


def test_a_run_from_before_it_was_recorded_counts_as_its_data_set_did(runs, tmp_path):
    run = Run(str(tmp_path / "run"), read_json(next(runs.glob("mcd-L-*")) / "summary.json"))
    context = read_json(next(runs.glob("mcd-L-*")) / "evals" / "context.json")
    del context["dataset"]["epic"]
    write_context(run.path, context)
    assert system_of(run).epic
    write_context(run.path, context | {"dataset": context["dataset"] | {"world": True}})
    assert not system_of(run).epic


def test_models_are_compared_by_seed(tables):
    table = tables("Paired differences, compact_mcd, utterance")
    row = next(r for r in table["rows"] if (r["score"], r["model"]) == ("EM", "VL"))
    # Two more right in every seed, of three.
    assert (row["minus"], row["seeds"], row["excludes 0"]) == ("L", 3, "yes")
    assert (row["difference"], row["95 % low"]) == pytest.approx((200 / 3, 200 / 3))


def test_the_compositional_gap_is_that_to_the_resplit(tables):
    row = next(r for r in tables("Compositional gap")["rows"] if r["score"] == "EM")
    assert (row["data set"], row["model"]) == ("compact_mcd", "L")
    assert row["resplit - mcd"] == pytest.approx(200 / 3 - 100 / 9)
    assert 0 < row["p"] < 0.05


def test_seen_and_unseen_are_apart_and_failures_have_both_denominators(tables):
    row = rows_of(tables("Seen and unseen compounds, compact_mcd, utterance, test"))["L"]
    assert (row["seen items"], row["unseen items"]) == (1, 2)
    failures = rows_of(tables("Table 15, compact_mcd, utterance"))["L"]
    assert (failures["train published"], failures["test published"]) == (9.97, 7.63)
    # "put_down knife" for "put_down cup": a compound of train, one item of three.
    assert failures["train, of all"] == pytest.approx(100 / 3)
    assert failures["train, of failures"] == 100


def test_parameters_stand_beside_table_6(tables):
    utterance = tables("Table 6, compact_mcd, utterance")
    (note,) = utterance["notes"]
    assert note.startswith("Published: mean of 3 runs, one GTX 1080 Ti.")
    row = rows_of(utterance)["L"]
    assert (row["parameters published, M"], row["parameters, M"]) == (4.8, 4.5)
    assert (row["minutes published"], row["minutes"]) == (20.75, 10)
    atoms = tables("Table 6, compact_mcd, verb")
    assert any("825 labels of 129 parameters each make 0.11 M" in note for note in atoms["notes"])
    verb = rows_of(atoms)["L"]
    assert (verb["parameters published, M"], verb["minutes published"]) == (2.1, 2)


def test_predictions_are_shown_side_by_side_and_marked(tables):
    rows = tables("Fig. 3 (predictions), compact_mcd, utterance, test")["rows"]
    row = next(r for r in rows if r["target"] == "slice knife")
    assert row["inputs"] == "take knife . wash onion . pick_up spring_onion"
    assert (row["L"], row["VL"]) == ("put_down knife (wrong)", "slice knife (right)")


def test_scores_of_data_sets_side_by_side(tables):
    rows = tables("CA by data set, utterance, test")["rows"]
    assert [row["data set"] for row in rows if row["items"] == "all"] == [
        "compact_mcd", "mine_mcd", "kitchen_world_mcd", "compact_resplit",
    ]  # fmt: skip


def test_curves_over_epochs_are_drawn_where_records_were_kept(runs, tmp_path):
    pytest.importorskip("matplotlib")
    main([str(runs), "--out", str(tmp_path)])
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == [f"compact_mcd_utterance_fig9_curves.{end}" for end in ("png", "svg")]
    assert drawn[0] in (tmp_path / "report.md").read_text()


def test_a_report_mixes_kinds_and_names_what_it_has_no_tables_for(runs, tmp_path):
    other = tmp_path / "asked"
    other.mkdir()
    summary = {
        "name": "own", "kind": "own_kind", "dataset": "own", "fingerprint": "f" * 64,
        "seed": 0, "data_seed": 0, "metrics": {"accuracy": 0.5}, "wall_seconds": 1.0, "config": {},
    }  # fmt: skip
    for name, value in (("config.json", {}), ("summary.json", summary)):
        (other / name).write_text(json.dumps(value))
    main([str(runs), str(other), "--out", str(tmp_path / "out"), "--no-figures"])
    listed = rows_of(read_json(tmp_path / "out/tables/runs.json"), "run")
    assert "a run of kind own_kind" in listed[str(other)]["state"]
    rows = report.load(str(runs), str(other))
    assert {row["kind"] for row in rows} == {"compact", "own_kind"}
    assert next(r for r in rows if r["kind"] == "compact").keys() >= {"task", "model", "split"}


def test_every_published_cell_is_there_once():
    paper = published("compact")
    sizes = {name: len(paper[name]) for name in paper if name.startswith("table")}
    assert sizes == {
        "table1": 10, "table2": 18, "table3": 10, "table4": 8, "table5": 8, "table6": 8,
        "table7": 10, "table8": 18, "table9": 5, "table10": 5, "table11": 8, "table12": 2,
        "table13": 5, "table14": 2, "table15": 8,
    }  # fmt: skip
    numbers = sum(
        isinstance(value, float) for name in sizes for row in paper[name] for value in row.values()
    )
    assert numbers == 637
    for name in sizes:
        cells = [tuple(v for v in row.values() if isinstance(v, str)) for row in paper[name]]
        assert len(set(cells)) == len(cells)


def test_known_cells():
    row = find_row("compact", "table1", model="ImageBind")
    assert (row["bleu"], row["em_sd"], row["ca_sd"]) == (33.52, 0.5, 1.0)
    noun = find_row("compact", "table8", task="noun", model="MRH")
    assert (noun["em"], noun["bertscore"], "em_sd" in noun) == (57.51, 89.89, False)
    assert find_row("compact", "table11", selection="heuristic", shots="1")["bleu"] == 34.8
    assert "compact" in papers()
