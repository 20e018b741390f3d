"""Which published differences exceed their own error?

A paper's entry in published.json says where its numbers come with one:

    "deviations": {TABLE: {METRIC: {"kind": "sd", "runs": 3}}}
        each row of TABLE has METRIC and METRIC_sd, the standard deviation of one of 3 runs;
    "deviations": {TABLE: {METRIC: {"kind": "accuracy", "items": 100, "perfect": 1}}}
        METRIC is a share of 100 items that were right, 1 meaning all of them.

"vary": [CONDITION, ...] beside them leaves out differences in other conditions.

Rows are compared that differ in one condition only: another method with the same memory, say; but
not in a condition that "apart" lists, whose values are different questions.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mmgen.metrics.stats import welch_from_summaries
from mmgen.report.published import Row
from mmgen.report.tables import Cell, Column, Table

LEVEL = 0.05
"""A difference exceeds its error if so large a one is rarer than this by chance."""

SD = "_sd"


class Difference(NamedTuple):
    """Two numbers of a published table.

    Attributes:
      shared: what both have in common.
      first, second: the condition in which they differ.
      value: first minus second.
      error: standard error of the difference.
      statistic: t or z.
      p: two-sided p-value, NaN where the error is zero.
    """

    shared: str
    first: str
    second: str
    value: float
    error: float
    statistic: float
    p: float


def audit(papers: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """A summary of all papers, then every difference of the tables that print their error."""
    columns = (
        *(Column(name) for name in ("paper", "table", "metric", "differences")),
        Column(f"p < {LEVEL}"),
        Column("by chance", 1),
    )
    rows: list[list[Cell]] = []
    notes: list[str] = []
    remarks: list[str] = []
    details = []
    for name, paper in papers.items():
        remarks += [f"{name}, {remark}" for remark in paper.get("remarks", ())]
        if "deviations" not in paper:
            rows.append([name, "all", "all", None, None, None])
            notes.append(
                f"{paper['paper']}: no deviations are published ({paper['runs']}), so none of its "
                "differences can be tested."
            )
            continue
        for table, metrics in paper["deviations"].items():
            for metric, error in metrics.items():
                found = list(differences(paper[table], metric, error))
                beyond = sum(d.p < LEVEL for d in found)
                rows.append([name, table, metric, len(found), beyond, LEVEL * len(found)])
                details.append(_difference_table(f"{name}, {table}, {metric}", found))
    return [Table("Published differences", columns, rows, (*notes, *remarks)), *details]


def differences(rows: list[Row], metric: str, error: Mapping[str, Any]) -> Iterator[Difference]:
    """Differences of `metric` between rows that differ in one condition.

    Args:
      error: how it is known, see above.
    """
    needed = metric if error["kind"] == "accuracy" else metric + SD
    # A row without a deviation, of a heuristic for instance, has no noise to compare by.
    for one, other in itertools.combinations([row for row in rows if needed in row], 2):
        first, second = _conditions(one), _conditions(other)
        differing = [key for key in first if first[key] != second.get(key)]
        if first.keys() != second.keys() or len(differing) != 1:
            continue
        (key,) = differing
        if key in error.get("apart", ()):
            continue
        if key not in error.get("vary", differing):
            continue
        test = _by_accuracy if error["kind"] == "accuracy" else _by_deviation
        value, standard, statistic, p = test(one, other, metric, error)
        shared = ", ".join(str(value) for name, value in first.items() if name != key)
        yield Difference(shared, first[key], second[key], value, standard, statistic, p)


def _conditions(row: Row) -> dict[str, str]:
    return {key: value for key, value in row.items() if isinstance(value, str)}


def _by_deviation(
    one: Row, other: Row, metric: str, error: Mapping[str, Any]
) -> tuple[float, float, float, float]:
    """Welch's test of two means of a few runs."""
    sds, runs = (one[metric + SD], other[metric + SD]), error["runs"]
    value = one[metric] - other[metric]
    test = welch_from_summaries(one[metric], sds[0], runs, other[metric], sds[1], runs)
    return value, math.hypot(*sds) / math.sqrt(runs), test.t, test.p


def _by_accuracy(
    one: Row, other: Row, metric: str, error: Mapping[str, Any]
) -> tuple[float, float, float, float]:
    """The z test of two proportions, with their pooled variance.

    Conservative where both systems answered the same items: the pairing is not published.
    """
    items, perfect = error["items"], error["perfect"]
    shares = one[metric] / perfect, other[metric] / perfect
    pooled = sum(shares) / 2
    standard = math.sqrt(2 * pooled * (1 - pooled) / items)
    value = one[metric] - other[metric]
    if standard == 0:
        return value, 0.0, math.nan, math.nan
    z = (shares[0] - shares[1]) / standard
    return value, perfect * standard, z, math.erfc(abs(z) / math.sqrt(2))


def _difference_table(title: str, found: list[Difference]) -> Table:
    columns = (
        *(Column(name) for name in ("shared", "first", "second", "first - second")),
        *(Column(name) for name in ("SE", "t or z")),
        Column("p", 4),
        Column("exceeds its error"),
    )
    rows: list[list[Cell]] = [
        [*difference[:6], *_verdict(difference.p)]
        for difference in sorted(found, key=lambda d: (math.isnan(d.p), d.p))
    ]
    return Table(title, columns, rows)


def _verdict(p: float) -> list[Cell]:
    if math.isnan(p):
        return [None, "no error given"]
    return [p, "yes" if p < LEVEL else "no"]
