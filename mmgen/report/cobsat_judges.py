"""Judges compared (App. C): the same outputs judged in several runs."""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mmgen.core.workdir import Workdir
from mmgen.prompting.judges.audit import agreement
from mmgen.prompting.run import RECORDS
from mmgen.report.aggregate import Group, Run
from mmgen.report.cobsat_cells import TASK_NAMES, Setting
from mmgen.report.tables import Cell, Column, Table


class Pair(NamedTuple):
    """One experiment judged twice.

    Attributes:
      first, second: the groups, which differ in the judge alone.
    """

    first: Group
    second: Group


def judge_pairs(groups: Sequence[Group]) -> Iterator[Pair]:
    """Groups of one setting but for the judge."""
    for first, second in itertools.combinations(groups, 2):
        one, other = first.method, second.method
        if one.judge != other.judge and one._replace(judge=other.judge) == other:
            yield Pair(first, second)


def agreement_table(groups: Sequence[Group]) -> Table:
    """Item by item: how often two judges say the same, beyond chance; by task: how they go along.

    Only samples whose outputs both have judged enter; accuracies of a task are compared by
    Pearson's correlation over the tasks.
    """
    columns = (
        *(Column(name) for name in ("data set", "model", "output", "prompt", "shots", "judges")),
        Column("prompts"),
        Column("same verdict"),
        Column("kappa"),
        Column("correlation over tasks"),
        Column("with CLIP similarity"),
    )
    rows: list[Sequence[Cell]] = []
    for first, second in judge_pairs(groups):
        setting: Setting = first.method
        one, other = (_verdicts(group.runs[0]) for group in (first, second))
        common = sorted(one.keys() & other.keys())
        if not common:
            continue
        right = [np.array([run[item]["joint"] for item in common]) for run in (one, other)]
        cells = np.unique(
            [tuple(one[item]["cell"]) for item in common], axis=0, return_inverse=True
        )
        found = agreement(right[0], right[1], 2, cells[1].ravel())
        rows.append(
            [
                setting.dataset,
                setting.model,
                setting.output,
                setting.prompt,
                str(setting.shots),
                f"{setting.judge}, {second.method.judge}",
                len(common),
                found.share.shown,
                f"{found.kappa.mean:.3f} [{found.kappa.low:.2f}, {found.kappa.high:.2f}]",
                _correlation(one, other, "joint", "joint"),
                _similarity_correlation(one, other),
            ]
        )
    return Table("Fig. 7 and App. C: agreement of judges", columns, rows)


def task_means(run: Run, field: str) -> dict[str, float]:
    """Mean of a field of the records by task; of CLIP's similarity that to the whole label."""
    return _means(_verdicts(run), field)


def _means(verdicts: dict[str, dict[str, Any]], field: str) -> dict[str, float]:
    by_task: dict[str, list[float]] = {}
    for record in verdicts.values():
        value = record.get(field)
        if field == "similarity":
            value = value[2] if value else None
        if value is not None:
            by_task.setdefault(record["task"], []).append(float(value))
    return {task: float(np.mean(by_task[task])) for task in TASK_NAMES if task in by_task}


def _verdicts(run: Run) -> dict[str, dict[str, Any]]:
    lines = Workdir(run.path).file(RECORDS).read_text().splitlines()
    return {record["id"]: record for record in map(json.loads, lines)}


def _similarity_correlation(
    one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]
) -> float | None:
    """Accuracy of the judge that is not CLIP against CLIP's similarity."""
    for accuracy, similarity in ((one, other), (other, one)):
        if any("similarity" in record for record in similarity.values()):
            return _correlation(accuracy, similarity, "joint", "similarity")
    return None


def _correlation(
    one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]], first: str, second: str
) -> float | None:
    left, right = _means(one, first), _means(other, second)
    tasks = [task for task in left if task in right]
    pairs = np.array([(left[task], right[task]) for task in tasks])
    if len(tasks) < 3 or not np.all(pairs.std(axis=0) > 0):
        return None
    return float(np.corrcoef(pairs.T)[0, 1])
