"""One table, four renderings; what is missing is a dash, never zero."""

import json

import pytest

from mmgen.report.tables import Column, Table, as_csv, as_json, latex, markdown

TABLE = Table(
    "Scores",
    (Column("run"), Column("loss", 2, "low"), Column("BLEU_1", 1, "high"), Column("items")),
    [["A & B", 1.234, 50.0, 1200], ["C", 1.5, None, 7], ["D", 0.5, 49.0, None]],
    ("A note.",),
)


def test_markdown_is_aligned():
    lines = markdown(TABLE).splitlines()
    assert lines[0] == "### Scores"
    body = [line for line in lines if line.startswith("|")]
    assert len({len(line) for line in body}) == 1
    assert body[1].split("|")[2].endswith("-: ")
    assert "| A & B | 1.23 |   50.0 | 1,200 |" in body
    assert lines[-1] == "A note."


def test_missing_is_a_dash_in_markdown_and_empty_elsewhere():
    assert "| C     | 1.50 |      - |     7 |" in markdown(TABLE)
    assert "C,1.5,,7" in as_csv(TABLE)
    assert json.loads(as_json(TABLE))["rows"][1]["BLEU_1"] is None


def test_csv_and_json_hold_full_precision():
    assert "1.234" in as_csv(TABLE)
    assert json.loads(as_json(TABLE))["rows"][0]["loss"] == 1.234


def test_latex_marks_best_and_second_and_escapes():
    text = latex(TABLE)
    assert "\\toprule" in text
    assert "\\textbf{0.50}" in text
    assert "\\underline{1.23}" in text
    assert "\\textbf{50.0}" in text
    assert "A \\& B" in text
    assert "BLEU\\_1" in text


def test_bounds_are_never_the_best():
    text = latex(TABLE._replace(unranked=1))
    assert "\\textbf{1.23}" in text
    assert "& 0.50 &" in text


def test_ragged_rows_are_refused():
    with pytest.raises(ValueError, match="argument"):
        markdown(TABLE._replace(rows=[["A"]]))


def test_not_a_number_is_a_dash():
    assert "nan" not in markdown(TABLE._replace(rows=[["A", float("nan"), None, None]]))
