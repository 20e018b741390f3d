"""Fig. 3 of the CompAct paper: the predictions of all models on the same items, marked."""

from collections.abc import Mapping, Sequence

from mmgen.compact.context import read_compact_context
from mmgen.compact.judging import Judge
from mmgen.compact.records import read_evaluation
from mmgen.core.rng import numpy_generator
from mmgen.evaluation.predictions import Record, saved_evaluations
from mmgen.report.aggregate import Group
from mmgen.report.compact_cells import Place
from mmgen.report.compact_tables import place_name
from mmgen.report.tables import Cell, Column, Table

SHOWN = 8
"""Items in the table."""

RIGHT, CLOSE, WRONG = "right", "close", "wrong"
"""Verdicts: the text of the target, another text of its classes, neither."""

PUBLISHED = ("P08_06_39", "P02_131_103", "P28_04_65")
"""Targets of the items that the paper shows; they come first where the test split has them."""


def example_table(place: Place, groups: Sequence[Group]) -> Table:
    """Predictions of one run per model on some test items; empty unless all are on the same data.

    Items on which the models disagree are preferred; which of them is drawn is fixed by the items
    alone, never by how well a model does on them.
    """
    found = {group.label: _predictions(group) for group in groups}
    marked = {label: marks for label, marks in found.items() if marks}
    fingerprints = {group.runs[0].summary["fingerprint"] for group in groups}
    if not marked or len(fingerprints) > 1:
        return Table("", (), [])
    shared = set.intersection(*(set(marks) for marks in marked.values()))
    records = {record["id"]: record for record, _ in next(iter(marked.values())).values()}
    rows: list[Sequence[Cell]] = []
    for row in _chosen([records[row] for row in sorted(shared)], marked):
        record = records[row]
        predictions = [
            f"{marks[row][0]['prediction'] or 'nothing'} ({marks[row][1]})"
            for marks in marked.values()
        ]
        rows.append([" . ".join(record["inputs"]), record["target"], *predictions])
    columns = (Column("inputs"), Column("target"), *(Column(label) for label in marked))
    note = (
        f"{RIGHT}: the target's text; {CLOSE}: another text of its verb and noun classes. One seed "
        "per model."
    )
    return Table(f"Fig. 3 (predictions), {place_name(place)}, test", columns, rows, (note,))


Marked = Mapping[int, tuple[Record, str]]


def _predictions(group: Group) -> Marked:
    """Test records of the group's first run by row, each with its verdict."""
    path = group.runs[0].path
    steps = saved_evaluations(path).get("test")
    if not steps:
        return {}
    context = read_compact_context(path)
    records = read_evaluation(path, "test", steps[-1], context)
    judged = Judge(context)(records)
    return {
        record["id"]: (record, RIGHT if em else CLOSE if ca else WRONG)
        for record, em, ca in zip(records, judged.em, judged.ca, strict=True)
    }


def _chosen(records: Sequence[Record], marked: Mapping[str, Marked]) -> list[int]:
    """Rows to show: the paper's own, then some that divide the models, then any."""
    own = [record["id"] for record in records if record["clip"] in PUBLISHED]
    order = numpy_generator(0, "report/examples").permutation(len(records)).tolist()
    drawn = [records[place]["id"] for place in order]
    divided = [row for row in drawn if len({marks[row][1] for marks in marked.values()}) > 1]
    return list(dict.fromkeys([*own, *divided, *drawn]))[:SHOWN]
