"""The tables and figures of the CompAct paper, from the files of runs."""

from collections.abc import Sequence

from mmgen.core.workdir import Workdir
from mmgen.report.aggregate import Group
from mmgen.report.compact_cells import Place, in_paper_order, system_of, unusual_keys
from mmgen.report.compact_comparisons import difference_table, gap_table, overview_tables
from mmgen.report.compact_examples import example_table
from mmgen.report.compact_figures import draw_curves
from mmgen.report.compact_tables import (
    cost_table,
    failure_table,
    quality_table,
    seen_table,
)
from mmgen.report.kinds import Reporter
from mmgen.report.tables import Table

SPLITS = ("test", "validation")


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table for which there is a run."""
    tables: list[Table] = []
    for place, here in _by_place(groups):
        for split in SPLITS:
            if any(group.summary_of(f"{split}/em") for group in here):
                tables += [quality_table(place, here, split), seen_table(place, here, split)]
        tables += [
            difference_table(place, here),
            failure_table(place, here, "test"),
            cost_table(place, here),
            example_table(place, here),
        ]
    ordered = in_paper_order(list(groups))
    tables += [gap_table(ordered), *overview_tables(ordered)]
    return [table for table in tables if table.rows]


def write_figures(groups: Sequence[Group], folder: Workdir) -> list[str]:
    """Fig. 9 of every place whose runs kept the records of their evaluations."""
    parts = []
    for place, here in _by_place(groups):
        written = draw_curves(place, here, folder.file("figures"))
        pictures = [f"![{file}](figures/{file})" for file in written if file.endswith(".png")]
        if pictures:
            parts.append("\n".join([f"### Fig. 9, {place.dataset}, {place.task}", "", *pictures]))
    return parts


def _by_place(groups: Sequence[Group]) -> list[tuple[Place, list[Group]]]:
    places = sorted({group.method.place for group in groups})
    return [
        (place, in_paper_order([group for group in groups if group.method.place == place]))
        for place in places
    ]


REPORTER = Reporter(system_of, all_tables, write_figures, unusual_keys)
