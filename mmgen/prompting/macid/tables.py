"""MACID's tables for the report of a run."""

import math
from collections.abc import Mapping

from mmgen.prompting.estimates import Estimate
from mmgen.prompting.macid.scores import Measured
from mmgen.report.published import published
from mmgen.report.tables import Cell, Column, Table

PUBLISHED_GROUPS = 100


def accuracy_table(
    name: str,
    measured: Mapping[str, Measured],
    differences: Mapping[str, Estimate],
    *,
    chance: float,
    with_published: bool,
) -> Table:
    """Accuracy of each reading beside chance and, for groups of four, the published values.

    Args:
      name: of the model.
      measured: reading -> its scores.
      differences: what is compared -> accuracy of the first minus that of the second.
      chance: accuracy of guessing.
      with_published: show the published values, which are of groups of four.
    """
    rows: list[list[Cell]] = [
        [
            name,
            reading,
            *_cells(one.accuracy),
            _known(one.unusable.mean, one.unusable.n),
            one.accuracy.n,
        ]
        for reading, one in measured.items()
    ]
    rows += [
        ["difference", reading, *_cells(one), None, one.n] for reading, one in differences.items()
    ]
    rows.append(["chance", "", chance, None, None, None, None])
    bounds = 1
    if with_published:
        for row in published("macid")["accuracy"]:
            share = row["accuracy"]
            se = math.sqrt(share * (1 - share) / PUBLISHED_GROUPS)
            rows.append([f"{row['model']}, published", "MACID", share, se, None, None, None])
            bounds += 1
    columns = (
        Column("model"),
        Column("reading"),
        Column("accuracy", better="high"),
        Column("SE"),
        Column("95 %"),
        Column("unusable"),
        Column("items"),
    )
    notes = ("An answer that cannot be read is wrong and counted as unusable.",)
    return Table("MACID", columns, rows, notes, unranked=bounds)


def breakdown_table(measured: Mapping[str, Measured]) -> Table:
    """Accuracy under every condition, a column for each reading."""
    conditions = list(dict.fromkeys(key for one in measured.values() for key in one.breakdown))
    rows: list[list[Cell]] = []
    for condition in conditions:
        found = [one.breakdown.get(condition) for one in measured.values()]
        items = next(one.n for one in found if one is not None)
        rows.append([condition, items, *("-" if one is None else one.shown for one in found)])
    columns = (Column("condition"), Column("items"), *(Column(name) for name in measured))
    return Table("accuracy by condition", columns, rows)


def order_table(measured: Mapping[str, Measured]) -> Table:
    """How much the order of the sentences matters."""
    rows: list[list[Cell]] = [
        [reading, name, one.shown]
        for reading, scores in measured.items()
        for name, one in scores.orders.items()
    ]
    columns = (Column("reading"), Column("over the orders"), Column("accuracy"))
    note = '"all right": share of groups that are right in every order.'
    return Table("orders", columns, rows, (note,))


def prediction_table(measured: Mapping[str, Measured]) -> Table:
    """How often each answer is chosen, whatever is right."""
    answers = list(dict.fromkeys(key for one in measured.values() for key in one.predicted))
    rows: list[list[Cell]] = [
        [reading, *(one.predicted[answer].mean for answer in answers)]
        for reading, one in measured.items()
    ]
    columns = (Column("reading"), *(Column(f"says {answer}", 2) for answer in answers))
    return Table("answers given", columns, rows)


def _cells(one: Estimate) -> list[Cell]:
    if not one.n:
        return [None, None, None]
    return [one.mean, one.se, f"{one.low:.2f} .. {one.high:.2f}" if one.clusters > 1 else None]


def _known(value: float, items: int) -> Cell:
    return value if items else None
