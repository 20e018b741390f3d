"""Compares two prompted runs item by item, from their records; see `mmgen.compare`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmgen.core.workdir import Workdir
from mmgen.data.builders.rawfiles import read_jsonl
from mmgen.errors import UserError
from mmgen.prompting.estimates import paired_difference
from mmgen.prompting.run import RECORDS
from mmgen.report.tables import Cell, Column, Table

SHOWN = 8
"""Items listed on each side."""

Record = Mapping[str, Any]
Both = Sequence[tuple[Record, Record]]


def compare_records(first: str, second: str, context: Mapping[str, Any]) -> list[Table]:
    """Every measure of both runs with the paired difference, and the items that flipped.

    Args:
      first, second: workdirs.
      context: of the runs, which are on the same data; names measures, parts and clusters.

    Raises:
      UserError: a run has no records, or the two share no item.
    """
    left, right = (_records(path) for path in (first, second))
    both = [(left[name], right[name]) for name in left if name in right]
    if not both:
        raise UserError(f"{first} and {second} have no item in common: they asked differently")
    parts: dict[str, Both] = {}
    for pair in both:
        name = str(pair[0][context["part"]]) if context["part"] else "all"
        parts[name] = [*parts.get(name, []), pair]
    return [_scores(parts, context), _flips(parts, context)]


def _scores(parts: Mapping[str, Both], context: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for part, both in parts.items():
        clusters = np.array([str(one[context["cluster"]]) for one, _ in both])
        for measure in context["measures"]:
            known = [one[measure] is not None and other[measure] is not None for one, other in both]
            values = np.array(
                [(p[0][measure], p[1][measure]) for p, k in zip(both, known, strict=True) if k],
                float,
            ).reshape(-1, 2)
            found = paired_difference(values[:, 0], values[:, 1], clusters[known])
            means = [float(mean) for mean in values.mean(axis=0)] if found.n else [None, None]
            away = "yes" if found.low > 0 or found.high < 0 else "no"
            rows.append(
                [part, measure, found.n, *means, found.mean, found.se, found.low, found.high, away]
            )
    heads = ("A", "B", "A - B", "SE", "95 % low", "95 % high", "excludes 0")
    columns = tuple(Column(name) for name in ("part", "measure", "items", *heads))
    return Table("paired differences", columns, rows)


def _flips(parts: Mapping[str, Both], context: Mapping[str, Any]) -> Table:
    """Items that one run has right and the other wrong, by the first measure."""
    measure = context["measures"][0]
    rows: list[list[Cell]] = []
    notes = []
    for part, both in parts.items():
        won = [pair for pair in both if (pair[0][measure] or 0) > (pair[1][measure] or 0)]
        lost = [pair for pair in both if (pair[0][measure] or 0) < (pair[1][measure] or 0)]
        notes.append(f"{part}: A alone is right on {len(won):,} items, B alone on {len(lost):,}.")
        for side, pairs in (("A right", won), ("B right", lost)):
            rows += [
                [side, str(one["id"]), *map(_said, (one.get("target"), *_answers(one, other)))]
                for one, other in pairs[:SHOWN]
            ]
    columns = tuple(Column(name) for name in ("", "item", "truth", "A", "B"))
    return Table("flipped items", columns, rows, tuple(notes))


def _answers(one: Record, other: Record) -> list[Any]:
    return [record.get("prediction", record.get("seen")) for record in (one, other)]


def _said(value: Any) -> str:
    return "-" if value is None else str(value).replace("|", "\\|")


def _records(path: str) -> dict[str, Record]:
    file = Workdir(path).file(RECORDS)
    if not file.exists():
        raise UserError(f"{path} holds no records: finish the run first")
    return {str(record["id"]): record for _, record in read_jsonl(file)}
