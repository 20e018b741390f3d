"""Tables and figures of prompted runs, by benchmark."""

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from mmgen.core.workdir import Workdir
from mmgen.report.aggregate import Group, Place, Run
from mmgen.report.kinds import Reporter
from mmgen.report.tables import Table
from mmgen.settings.prompting import short_name


class Parts(NamedTuple):
    """Import paths of what a benchmark's report is made of, see `Reporter`; "" for no figures."""

    cell_of: str
    tables: str
    figures: str


BENCHMARKS = {
    "macid": Parts("mmgen.report.macid:asked_of", "mmgen.report.macid:all_tables", ""),
    "compact": Parts("mmgen.report.fewshot:prompted_of", "mmgen.report.fewshot:all_tables", ""),
    "cobsat": Parts(
        "mmgen.report.cobsat_cells:setting_of",
        "mmgen.report.cobsat:all_tables",
        "mmgen.report.cobsat_figures:write_figures",
    ),
}
"""Benchmarks with tables of their own; what the others found is in the reports of their runs."""


class Prompted(NamedTuple):
    """The cell of a run whose benchmark has no tables of its own.

    Attributes:
      dataset: name of the data set that was really used.
      benchmark: the name of a plug-in.
      model: short name.
    """

    dataset: str
    benchmark: str
    model: str

    @property
    def label(self) -> str:
        """Short name for figures."""
        return self.model


def cell_of(run: Run) -> Place:
    """The cell of a run by its benchmark."""
    benchmark = run.summary["benchmark"]
    if benchmark in BENCHMARKS:
        return _load(BENCHMARKS[benchmark].cell_of)(run)
    return Prompted(
        run.summary["dataset"], benchmark, short_name(run.summary["config"]["model.spec"])
    )


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """The tables of every benchmark that has some."""
    return [
        table
        for benchmark, here in _by_benchmark(groups).items()
        if benchmark in BENCHMARKS
        for table in _load(BENCHMARKS[benchmark].tables)(here)
    ]


def write_figures(groups: Sequence[Group], folder: Workdir) -> list[str]:
    """The figures of every benchmark that has some."""
    return [
        part
        for benchmark, here in _by_benchmark(groups).items()
        if benchmark in BENCHMARKS and BENCHMARKS[benchmark].figures
        for part in _load(BENCHMARKS[benchmark].figures)(here, folder)
    ]


def _by_benchmark(groups: Sequence[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.runs[0].summary["benchmark"], []).append(group)
    return found


def _load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


REPORTER = Reporter(cell_of, all_tables, write_figures)
