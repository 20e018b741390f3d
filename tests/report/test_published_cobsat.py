"""CoBSAT's published values: complete, once each, and which of their differences mean something."""

from mmgen.prompting.cobsat.tables import published_accuracy
from mmgen.prompting.cobsat.tasks import TASKS
from mmgen.report.audit import differences
from mmgen.report.published import published


def test_every_cell_of_tables_2_to_6_is_there_once():
    rows = published("cobsat")["results"]
    cells = {(r["model"], r["shots"], r["prompt"], r["task"]) for r in rows}
    assert len(cells) == len(rows) == (11 + 8) * 10
    assert {row["task"] for row in rows} == {task.name for task in TASKS}
    assert len(published("cobsat")["finetuning"]) == 40


def test_known_cells():
    assert published_accuracy("SEED-LLaMA", "image", 2, "default", "Color-I") == 0.680
    assert published_accuracy("Qwen-VL", "text", 4, "caption", "Texture-II") == 0.827
    assert published_accuracy("Qwen-VL", "text", 2, "default", "Style-I", "finetuned") == 0.212
    assert published_accuracy("SEED-LLaMA", "image", 6, "default", "Color-I") is None


def test_differences_between_tasks_are_not_tested():
    paper = published("cobsat")
    found = list(
        differences(paper["finetuning"], "accuracy", paper["deviations"]["finetuning"]["accuracy"])
    )
    # Tuned against untuned, and two against four shots: ten tasks, twice each.
    assert len(found) == 40
    assert not any("Color" in one.first for one in found)
    style = next(o for o in found if "Style-II" in o.shared and {o.first, o.second} == {"2", "4"})
    assert abs(style.statistic) > 1.96
