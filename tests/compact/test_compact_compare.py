"""Two CompAct runs window by window, whole videos resampled."""

import pytest
from fake_compact import make_run

from mmgen.compare import compare
from mmgen.errors import UserError
from mmgen.report.tables import records


@pytest.fixture
def pair(tmp_path):
    """The first is right on the first item alone, the second on all three."""
    return str(make_run(tmp_path, "L", right=1)), str(make_run(tmp_path, "VL", right=3))


def test_differences_are_paired_and_have_intervals(pair):
    scores = {row[""]: row for row in records(compare(*pair)[0])}
    assert scores["EM"]["A - B"] == pytest.approx(-200 / 3)
    # Two videos: one with both kinds of items, one with an item that only B has right.
    assert (scores["EM"]["95 % low"], scores["EM"]["95 % high"]) == (-100, -50)
    assert scores["EM"]["excludes 0"] == "yes"
    # The others are "put_down knife": half of "put_down cup", nothing of "wash onion".
    assert (scores["BLEU joined"]["A"], scores["BLEU joined"]["B"]) == (50, 100)
    assert scores["BLEU joined"]["A - B"] == -50
    assert scores["BLEU plain"]["A"] == pytest.approx(100 * 4 / 8)


def test_a_run_against_itself_differs_in_nothing(pair):
    scores, flips = compare(pair[0], pair[0])
    assert all(row["A - B"] == 0 and row["excludes 0"] == "no" for row in records(scores))
    assert records(flips) == []


def test_flipped_items_are_shown(pair):
    flips = compare(*pair)[1]
    assert "only A is right on 0 items, only B on 2" in flips.notes[0]
    assert records(flips)[0] == {
        "": "B right",
        "inputs": "wash cup . wash lid . pick_up cup",
        "target": "put_down cup",
        "A": "put_down knife",
        "B": "put_down cup",
    }


def test_what_cannot_be_compared_is_one_sentence(pair, tmp_path):
    verbs = str(make_run(tmp_path, "L", task="verb"))
    with pytest.raises(UserError, match="compare like runs"):
        compare(pair[0], verbs)
    with pytest.raises(UserError, match="no evaluation of split novel"):
        compare(*pair, "novel")
