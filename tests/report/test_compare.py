"""Two runs compared item by item, with whole images resampled."""

import json
from pathlib import Path

import numpy as np
import pytest
from fake_run import ER, make_records, make_run, write_file

from mmgen.compare import compare, load_pair, main
from mmgen.errors import UserError
from mmgen.report.tables import records


@pytest.fixture
def pair(tmp_path):
    return str(make_run(tmp_path)), str(make_run(tmp_path, loss=2.0, **ER))


def test_difference_is_paired_and_has_an_interval(pair):
    scores = {row[""]: row for row in records(compare(*pair)[0])}
    row = scores["log-PPL"]
    assert row["A - B"] == pytest.approx(1.0, abs=0.05)
    assert row["A"] - row["B"] == pytest.approx(row["A - B"])
    assert row["95 % low"] <= row["A - B"] <= row["95 % high"]
    assert row["excludes 0"] == "yes"
    # Both give the same answers: no difference, no width.
    assert scores["BLEU-1"]["A - B"] == 0
    assert scores["BLEU-1"]["excludes 0"] == "no"


def test_a_run_against_itself_differs_in_nothing(pair):
    tables = compare(pair[0], pair[0])
    assert all(row["A - B"] == 0 for row in records(tables[0]))
    assert records(tables[2]) == []


def test_flipped_items_are_shown_as_words(pair, tmp_path):
    rows = make_records(False, 2.0, np.random.default_rng(0))
    rows[0]["prediction"], rows[1]["prediction"] = [1, 2, 7], rows[1]["target"]
    write_file(Path(pair[1]), "test", 30, rows)
    table = compare(*pair)[2]
    assert "Only A is right on 1 items, only B on 1." in table.notes
    assert records(table)[0] == {
        "": "A right",
        "item": 0,
        "truth": "a red dog",
        "A": "a red dog",
        "B": "a red bird",
    }


def test_only_shared_items_are_compared(pair):
    rows = make_records(False, 2.0, np.random.default_rng(0))
    write_file(Path(pair[1]), "test", 30, rows[10:40])
    assert load_pair(*pair, "test").first.ids.tolist() == list(range(10, 40))


def test_other_data_cannot_be_compared(pair, tmp_path):
    file = Path(pair[1]) / "evals/context.json"
    context = json.loads(file.read_text())
    context["dataset"]["fingerprint"] = "e" * 64
    file.write_text(json.dumps(context))
    with pytest.raises(UserError, match="different data"):
        compare(*pair)


def test_what_is_missing_is_named(pair, tmp_path):
    with pytest.raises(UserError, match="no evaluation of split train"):
        main([*pair, "--split", "train"])
    with pytest.raises(UserError, match="no workdir"):
        main([pair[0], str(tmp_path / "none")])


def test_runs_of_different_kinds_cannot_be_compared(pair):
    file = Path(pair[1]) / "evals/context.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"kind": "prompting"}))
    with pytest.raises(UserError, match=r"different kinds \(masked_span and prompting\)"):
        main([*pair])
    with pytest.raises(UserError, match=r"different kinds \(prompting and masked_span\)"):
        main([pair[1], pair[0]])
