"""Which tables and figures the runs of each kind have; a report may mix the kinds."""

import importlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mmgen.core.workdir import Workdir
from mmgen.report.aggregate import Group, Keys, Missing, Place, Run, no_keys
from mmgen.report.tables import Table
from mmgen.settings.kinds import DEFAULT


class Reporter(NamedTuple):
    """What becomes of the runs of one kind.

    Attributes:
      cell_of: the cell of the papers' tables that a run belongs to.
      tables: `(groups) -> tables`, those without a row left out.
      figures: `(groups, folder of the report) -> Markdown` that shows what it has drawn.
      unusual: keys of a run that make it another experiment than the cell's own.
    """

    cell_of: Callable[[Run], Place]
    tables: Callable[[Sequence[Group]], list[Table]]
    figures: Callable[[Sequence[Group], Workdir], list[str]]
    unusual: Keys = no_keys


REPORTERS = {
    "masked_span": "mmgen.report.viscoll:REPORTER",
    "compact": "mmgen.report.compact:REPORTER",
    "prompting": "mmgen.report.prompting:REPORTER",
}
"""Kind of run -> import path `package.module:name` of its `Reporter`."""


def kind_of(run: Run) -> str:
    """The kind of a run; VisCOLL's need not say theirs."""
    return run.summary.get("kind") or run.summary["config"].get("kind") or DEFAULT


def by_kind(
    runs: Iterable[Run],
) -> tuple[dict[str, list[Run]], list[Missing]]:
    """Runs by kind, in the order of `REPORTERS`, and those of a kind that has no tables here."""
    found: dict[str, list[Run]] = defaultdict(list)
    missing = []
    for run in runs:
        kind = kind_of(run)
        if kind in REPORTERS:
            found[kind].append(run)
        else:
            reason = f"a run of kind {kind}, whose tables are in its own report.md"
            missing.append(Missing(run.path, reason))
    return {kind: found[kind] for kind in REPORTERS if kind in found}, missing


def reporter_of(kind: str) -> Reporter:
    """The reporter of a kind."""
    module, name = REPORTERS[kind].split(":")
    return getattr(importlib.import_module(module), name)


def tidy(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """One row per run and metric, ready for a data frame; runs of kinds without tables too."""
    rows = []
    for run in runs:
        kind = kind_of(run)
        cell = reporter_of(kind).cell_of(run)._asdict() if kind in REPORTERS else {}
        facts = {"kind": kind, "dataset": run.summary["dataset"]} | cell
        facts |= {
            "run": run.path,
            "seed": run.summary["seed"],
            "data_seed": run.summary["data_seed"],
            "fingerprint": run.summary["fingerprint"],
        }
        metrics = run.summary["metrics"].items()
        rows += [facts | {"metric": name, "value": value} for name, value in metrics]
    return rows
