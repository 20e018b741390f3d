"""Published differences against their own error."""

import pytest

from mmgen.errors import UserError
from mmgen.report.__main__ import main
from mmgen.report.audit import audit, differences
from mmgen.report.published import papers

SD = {"kind": "sd", "runs": 3}
ACCURACY = {"kind": "accuracy", "items": 100, "perfect": 1}


def row(method, memory, **values):
    return {"method": method, "memory": memory, **values}


def test_only_rows_that_differ_in_one_condition_are_compared():
    rows = [row(m, k, em=1.0, em_sd=0.1) for m in ("a", "b") for k in ("1k", "10k")]
    rows.append(row("c", "1k"))
    found = [(d.shared, d.first, d.second) for d in differences(rows, "em", SD)]
    assert found == [
        ("a", "1k", "10k"),
        ("1k", "a", "b"),
        ("10k", "a", "b"),
        ("b", "1k", "10k"),
    ]


def test_means_of_runs_are_compared_by_welch():
    rows = [row("a", "-", em=4.0, em_sd=0.3), row("b", "-", em=2.0, em_sd=0.4)]
    (found,) = differences(rows, "em", SD)
    assert found.value == 2.0
    assert found.error == pytest.approx(0.5 / 3**0.5)
    assert found.statistic == pytest.approx(4 * 3**0.5)
    # Students' t of 6.93 with 3.7 degrees of freedom.
    assert 0.002 < found.p < 0.004


@pytest.mark.parametrize("perfect", [1, 100])
def test_accuracies_are_compared_by_their_number_of_items(perfect):
    rows = [row("a", "-", accuracy=0.58 * perfect), row("b", "-", accuracy=0.43 * perfect)]
    (found,) = differences(rows, "accuracy", ACCURACY | {"perfect": perfect})
    assert found.statistic == pytest.approx(2.12, abs=0.01)
    assert found.p == pytest.approx(0.034, abs=0.001)
    assert found.error == pytest.approx(0.0707 * perfect, rel=1e-2)


def test_the_summary_counts_and_the_details_judge():
    paper = {
        "paper": "Someone, somewhere",
        "runs": "3 runs",
        "remarks": [],
        "deviations": {"t": {"em": SD, "accuracy": ACCURACY}},
        "t": [
            row("a", "-", em=4.0, em_sd=0.1, accuracy=1.0),
            row("b", "-", em=2.0, em_sd=0.1, accuracy=1.0),
            row("c", "-", em=2.1, em_sd=0.1, accuracy=0.5),
        ],
    }
    summary, em, accuracy = audit({"x": paper})
    assert [list(r) for r in summary.rows] == [
        ["x", "t", "em", 3, 2, pytest.approx(0.15)],
        ["x", "t", "accuracy", 3, 2, pytest.approx(0.15)],
    ]
    assert [r[-1] for r in em.rows] == ["yes", "yes", "no"]
    assert [r[-1] for r in accuracy.rows] == ["yes", "yes", "no error given"]


def test_a_paper_without_deviations_is_named(capsys):
    main(["--audit-published"])
    printed = capsys.readouterr().out
    assert "VisCOLL" in printed or "viscoll" in printed
    assert "no deviations are published (mean over 3 runs, no deviation given)" in printed
    assert "Table 5: its row of the random order is not Table 2's" in printed


def test_every_declared_deviation_is_there():
    for paper in papers().values():
        for table, metrics in paper.get("deviations", {}).items():
            for metric, error in metrics.items():
                assert list(differences(paper[table], metric, error))


def test_neither_runs_nor_audit_is_one_sentence():
    with pytest.raises(UserError, match="--audit-published"):
        main(["--out", "somewhere"])


def test_what_has_no_deviation_or_another_question_is_not_compared():
    rows = [row("a", "verb", em=4.0, em_sd=0.3), row("a", "noun", em=9.0, em_sd=0.3)]
    rows += [row("heuristic", "verb", em=2.0), row("b", "verb", em=3.0, em_sd=0.1)]
    assert len(list(differences(rows, "em", SD))) == 2
    (found,) = differences(rows, "em", SD | {"apart": ["memory"]})
    assert (found.shared, found.first, found.second) == ("verb", "a", "b")
