"""The table of a search: points of a grid by their mean score, with how far they are apart."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mmgen.metrics.stats import paired_t_interval, summarise
from mmgen.report.aggregate import finite
from mmgen.report.tables import Cell, Column, Table

Point = tuple[tuple[str, str], ...]
"""A point of the grid: (key, value as text) for each key."""

HIGHER_IS_BETTER = ("bleu", "accuracy", "bwt", "fwt", "bertscore")
"""Parts of the names of metrics that are to be large; all others are losses, but for `SHARES`."""

SHARES = ("em", "ca", "verb_ca", "noun_ca")
"""Last parts of the names of others, shares of items that are right."""


class Result(NamedTuple):
    """The score of one trial; None if it diverged."""

    point: Point
    seed: int
    value: float | None


class Ranked(NamedTuple):
    """A point of the grid with its scores by seed, none if any of its trials diverged."""

    point: Point
    values: tuple[float, ...]


def is_higher_better(metric: str) -> bool:
    """Is a larger value of the metric better?"""
    is_share = metric.rsplit("/", 1)[-1] in SHARES
    return is_share or any(part in metric for part in HIGHER_IS_BETTER)


def ranked(results: Iterable[Result], metric: str) -> list[Ranked]:
    """Points from best to worst by their mean, those that diverged last."""
    sign = -1.0 if is_higher_better(metric) else 1.0
    points = []
    for point, group in itertools.groupby(results, key=lambda result: result.point):
        values = [result.value for result in group]
        known = tuple(value for value in values if value is not None)
        points.append(Ranked(point, known if len(known) == len(values) else ()))
    return sorted(points, key=lambda p: sign * summarise(p.values).mean if p.values else math.inf)


def leaderboard(title: str, results: Sequence[Result], metric: str, facts: str) -> Table:
    """Mean, spread, and the distance from the best point, paired by seed.

    Args:
      results: trials of a point one after the other, by seed.
      metric: what the values are.
      facts: a sentence on data and length of the trials.
    """
    points = ranked(results, metric)
    keys = [key for key, _ in points[0].point]
    better = "high" if is_higher_better(metric) else "low"
    columns = (
        *(Column(key) for key in keys),
        Column(metric, 4, better),
        *(Column(name, 4) for name in ("sd", "SE", "minus the best", "95 % low", "95 % high")),
        Column("state"),
    )
    rows = [[*(value for _, value in p.point), *_scores(p, points[0])] for p in points]
    notes = [f"{facts} Mean over seeds; differences are paired by seed, t interval."]
    notes += [
        f"The best {key} is at the edge of the grid: a wider one may hold a better one."
        for key in keys
        if points[0].values and _at_edge(key, points)
    ]
    return Table(f"Search, {title}", columns, rows, tuple(notes))


def _scores(point: Ranked, best: Ranked) -> list[Cell]:
    if not point.values:
        return [*[None] * 6, "diverged"]
    found = summarise(point.values)
    spread = [found.mean, finite(found.sd), finite(found.se)]
    if point is best:
        return [*spread, *[None] * 3, "best"]
    interval = paired_t_interval(point.values, best.values)
    clear = interval.excludes(0)
    return [*spread, *map(finite, interval), "worse" if clear else "not told apart"]


def _at_edge(key: str, points: Sequence[Ranked]) -> bool:
    """Is the best value of a numeric key its smallest or largest?"""
    try:
        values = [float(dict(point.point)[key]) for point in points]
    except ValueError:
        return False
    return len(set(values)) > 1 and values[0] in (min(values), max(values))
