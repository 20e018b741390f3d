"""CompAct's runs against each other: models on the same data, splits with the same model."""

import math
from collections.abc import Sequence

from mmgen.metrics.stats import Summary, paired_t_interval, welch_from_summaries
from mmgen.report.aggregate import Group, paired_values
from mmgen.report.compact_cells import Place
from mmgen.report.compact_tables import mean, percent, place_name, scores_of
from mmgen.report.tables import Cell, Column, Table

TEXT_ONLY = "L"

PARTS = {"AVL": ("VL", "AL"), "OAL": ("OL", "AL")}
"""Models with two modalities -> those with one of them."""


def difference_table(place: Place, groups: Sequence[Group]) -> Table:
    """Each model minus the text-only one, and with two modalities minus one, paired by seed."""
    heads = ("score", "model", "minus", "difference", "95 % low", "95 % high")
    columns = (*(Column(head, 2) for head in heads), Column("seeds"), Column("excludes 0"))
    rows: list[Sequence[Cell]] = []
    for score in scores_of(place.task):
        for group in groups:
            for other in groups:
                if other.method.model not in (TEXT_ONLY, *PARTS.get(group.method.model, ())):
                    continue
                pairs = paired_values(group, other, f"test/{score.metric}")
                if other is group or len(pairs) < 2 or group.method.model == TEXT_ONLY:
                    continue
                found = paired_t_interval([100 * a for a, _ in pairs], [100 * b for _, b in pairs])
                verdict = "yes" if found.excludes(0) else "no"
                rows.append([score.head, group.label, other.label, *found, len(pairs), verdict])
    note = "Test scores of runs of the same seed, per cent, t interval."
    return Table(f"Paired differences, {place_name(place)}", columns, rows, (note,))


def gap_table(groups: Sequence[Group]) -> Table:
    """What composition costs: the compositional split against the same windows at random."""
    heads = ("data set", "task", "model", "score")
    columns = (
        *(Column(head) for head in heads),
        *(Column(head, 2) for head in ("mcd", "resplit", "resplit - mcd", "SE")),
        Column("p", 4),
        Column("seeds"),
    )
    rows: list[Sequence[Cell]] = []
    for group in groups:
        for other in groups:
            if not _is_control(group, other):
                continue
            for score in scores_of(group.method.task):
                pair = [g.summary_of(f"test/{score.metric}") for g in (group, other)]
                if pair[0] is not None and pair[1] is not None:
                    names = (group.method.dataset, group.method.task, group.label, score.head)
                    rows.append([*names, *_gap(pair[0], pair[1])])
    note = (
        "Test scores in per cent. Both test sets come from one pool of windows; the random split "
        "of all windows (Tables 3-5) differs in that pool, too. p is Welch's, over seeds."
    )
    return Table("Compositional gap", columns, rows, (note,))


def _is_control(group: Group, other: Group) -> bool:
    mine, theirs = group.method, other.method
    return (
        (mine.split, theirs.split) == ("mcd", "resplit")
        and theirs.dataset == mine.dataset.replace("mcd", "resplit")
        and (mine.task, mine.model, group.settings) == (theirs.task, theirs.model, other.settings)
    )


def _gap(ours: Summary, control: Summary) -> list[Cell]:
    values = [percent(ours.mean), percent(control.mean), percent(control.mean - ours.mean)]
    if min(ours.n, control.n) < 2:
        return [*values, None, None, f"{ours.n}, {control.n}"]
    test = welch_from_summaries(control.mean, control.sd, control.n, ours.mean, ours.sd, ours.n)
    se = 100 * math.hypot(ours.se, control.se)
    return [*values, se, None if math.isnan(test.p) else test.p, f"{ours.n}, {control.n}"]


def overview_tables(groups: Sequence[Group]) -> list[Table]:
    """CA of every model on every data set, a table per task; for the dose-response over D_C."""
    tables = []
    for task in dict.fromkeys(group.method.task for group in groups):
        mine = [group for group in groups if group.method.task == task]
        labels = list(dict.fromkeys(group.label for group in mine))
        rows: list[Sequence[Cell]] = []
        for dataset in dict.fromkeys(group.method.dataset for group in mine):
            here = {g.label: g for g in mine if g.method.dataset == dataset}
            for part in ("", "unseen/"):
                values = [percent(mean(here.get(label), f"test/{part}ca")) for label in labels]
                rows.append([dataset, "unseen" if part else "all", *values])
        columns = (Column("data set"), Column("items"), *(Column(label, 2) for label in labels))
        if len(rows) > 2:
            tables.append(Table(f"CA by data set, {task}, test", columns, rows))
    return tables
