"""Published values are complete and say what they are."""

from mmgen.report.published import find_row, published


def test_every_cell_of_table_2_is_there_once():
    rows = published("viscoll")["table2"]
    cells = {(r["dataset"], r["model"], r["method"], r["memory"]) for r in rows}
    assert len(cells) == len(rows) == 2 * 2 * 12
    offline = [r for r in rows if r["method"].startswith("offline")]
    assert all(("forgetting" in r) != (r in offline) for r in rows)


def test_known_cells():
    keys = {"dataset": "coco_shift", "model": "vlbert", "method": "er", "memory": "10k"}
    assert find_row("viscoll", "table2", **keys)["log_ppl"] == 2.430
    assert find_row("viscoll", "table3", **keys)["minutes"] == 100
    assert find_row("viscoll", "table2", **keys | {"memory": "5k"}) is None


def test_tables_have_their_sizes():
    paper = published("viscoll")
    assert [len(paper[t]) for t in ("table1", "table3", "table5")] == [2, 2 * 2 * 10, 9]
    assert len({row["pair"] for row in paper["table4"]}) == 24
    assert sum(row["kind"] == "verb" for row in paper["table4"]) == 8
