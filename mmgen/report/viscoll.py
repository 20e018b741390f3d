"""The tables of the VisCOLL paper: published values beside ours, each with its data set's name."""

from collections.abc import Iterable, Sequence
from typing import Any

from mmgen.core.workdir import Workdir
from mmgen.evaluation.scores import KINDS
from mmgen.metrics.stats import paired_t_interval
from mmgen.report.aggregate import Group, finite, hardware, mean_hours, paired_values
from mmgen.report.figures import write_figures
from mmgen.report.kinds import Reporter
from mmgen.report.published import FAMILIES, family_of, find_row, published
from mmgen.report.sources import data_table, pair_table
from mmgen.report.tables import Cell, Column, Table, file_name, without_published
from mmgen.report.viscoll_cells import Method, method_of, unusual_keys

PAPER = "viscoll"
MEAN_OF_SEEDS = "Mean over seeds; sd is of one run, SE of the mean."

Place = tuple[str, str, str]
"""Data set, model and profile: what a table is about."""


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table for which there is a run."""
    runs = [run for group in groups for run in group.runs]
    tables = [data_table(runs), pair_table(runs)]
    for place in sorted({place_of(group.method) for group in groups}):
        here = [group for group in groups if place_of(group.method) == place]
        in_order = [group for group in here if group.method.order == "random"]
        tables += [
            quality_table(place, in_order),
            difference_table(place, in_order),
            forgetting_table(place, in_order),
            composition_table(place, in_order),
            time_table(place, in_order),
            order_table(place, here),
        ]
    return [table for table in tables if table.rows]


def draw_figures(groups: Sequence[Group], folder: Workdir) -> list[str]:
    """Figures by data set, model and profile; returns Markdown that shows them."""
    parts = []
    for place in sorted({place_of(group.method) for group in groups}):
        here = [g for g in groups if place_of(g.method) == place and g.method.order == "random"]
        if not here:
            continue
        prefix = file_name(" ".join(place))
        written = write_figures(in_paper_order(here), folder.file("figures"), prefix)
        pictures = [f"![{file}](figures/{file})" for file in written if file.endswith(".png")]
        parts.append("\n".join([f"### Figures, {', '.join(place)}", "", *pictures, ""]))
    return parts


def in_paper_order(groups: Sequence[Group]) -> list[Group]:
    """Groups of one place in the order of Table 2, our own methods last."""
    if not groups:
        return []
    rows = _rows(place_of(groups[0].method), groups)
    return [group for _, _, group in rows if group is not None]


def place_of(method: Method) -> Place:
    """What a table of this method is about."""
    return method.dataset, method.model, method.profile


def quality_table(place: Place, groups: Sequence[Group]) -> Table:
    """Table 2: final log-PPL and BLEU, with the bounds and baselines of the data set below."""
    columns = (
        *(Column(name) for name in ("method", "memory", "slots", "share %")),
        Column("log-PPL published"),
        Column("log-PPL", better="low"),
        *(Column(name) for name in ("sd", "SE")),
        Column("BLEU-1 published", 2),
        Column("BLEU-1", 2, "high"),
        Column("BLEU-2 published", 2),
        Column("BLEU-2", 2, "high"),
        Column("seeds"),
    )
    rows: list[Sequence[Cell]] = []
    absent = []
    for method, memory, group in _rows(place, groups):
        if group is None:
            absent.append(method if memory == "none" else f"{method} {memory}")
        row = _published("table2", place, method, memory)
        rows.append(
            [
                _name(method, group),
                memory,
                *_memory(group),
                row.get("log_ppl"),
                *_mean_sd_se(group, "test/log_ppl"),
                row.get("bleu1"),
                _percent(_mean(group, "test/bleu1")),
                row.get("bleu2"),
                _percent(_mean(group, "test/bleu2")),
                None if group is None else len(group.runs),
            ]
        )
    bounds = _bounds(groups)
    notes = _notes(place, absent, groups)
    table = Table(f"Table 2, {_title(place)}", columns, [*rows, *bounds], notes, len(bounds))
    return table if family_of(place[0]) else without_published(table)


def _bounds(groups: Sequence[Group]) -> list[list[Cell]]:
    """Optima and baselines, which belong to the data set and not to a method."""
    rows: list[list[Cell]] = []
    for name, log_ppl, bleu in (
        ("optimum", "optimum", None),
        ("optimum of text alone", "optimum_text_only", None),
        ("position x span-length unigram", "span_unigram/log_ppl", "span_unigram/bleu"),
        ("unigram", "unigram/log_ppl", "unigram/bleu"),
    ):
        value = _mean(groups[0], f"test/{log_ppl}") if groups else None
        if value is None:
            continue
        bleus = [_percent(_mean(groups[0], f"test/{bleu}{k}")) if bleu else None for k in (1, 2)]
        blank = [None] * 4
        rows.append([name, *blank, value, None, None, None, bleus[0], None, bleus[1], None])
    return rows


def forgetting_table(place: Place, groups: Sequence[Group]) -> Table:
    """Table 2, forgetting: the published column beside all three definitions."""
    names = ("method", "memory", "published", "as released", "best", "seen98", "sd", "SE")
    columns = (*(Column(name) for name in (*names, "backward transfer")), Column("tasks", 0))
    rows: list[Sequence[Cell]] = []
    for method, memory, group in _rows(place, groups):
        if group is None:
            continue
        rows.append(
            [
                _name(method, group),
                memory,
                _published("table2", place, method, memory).get("forgetting"),
                _mean(group, "forgetting/as_released"),
                _mean(group, "forgetting/best"),
                *_mean_sd_se(group, "forgetting/seen98"),
                _mean(group, "continual/bwt"),
                _mean(group, "forgetting/tasks"),
            ]
        )
    note = (
        "The published values come from code that compares example numbers with iteration "
        "numbers; only the column 'as released' is computed that way. sd and SE are of seen98."
    )
    return Table(f"Table 2 (forgetting), {_title(place)}", columns, rows, (note,))


def composition_table(place: Place, groups: Sequence[Group]) -> Table:
    """Fig. 6 in numbers: loss at the atoms of seen and novel compositions, mean over pairs."""
    heads = [f"{kind} {group}" for kind in KINDS for group in ("seen", "novel", "novel - seen")]
    columns = (Column("method"), Column("memory"), *(Column(head) for head in heads))
    rows = []
    for method, memory, group in _rows(place, groups):
        values = [
            _mean(group, key)
            for kind in KINDS
            for key in (
                f"seen/{kind}/log_ppl_pair",
                f"novel/{kind}/log_ppl_pair",
                f"composition_gap/{kind}/log_ppl_pair",
            )
        ]
        if any(value is not None for value in values):
            rows.append([_name(method, group), memory, *values])
    return Table(f"Fig. 6 (compositions), {_title(place)}", columns, rows)


def time_table(place: Place, groups: Sequence[Group]) -> Table:
    """Table 3: wall time of a run."""
    columns = (
        *(Column(name) for name in ("method", "memory")),
        Column("hours published", 2),
        Column("hours", 2),
        Column("iterations", 0),
        Column("machine"),
    )
    rows: list[Sequence[Cell]] = [
        [
            _name(method, group),
            memory,
            _hours(_published("table3", place, method, memory).get("minutes")),
            mean_hours(group.runs),
            group.runs[0].summary["steps"],
            hardware(group.runs),
        ]
        for method, memory, group in _rows(place, groups)
        if group is not None
    ]
    note = f"Published: {published(PAPER)['units']['minutes']}; ours includes the evaluations."
    return Table(f"Table 3, {_title(place)}", columns, rows, (note,))


def order_table(place: Place, groups: Sequence[Group]) -> Table:
    """Table 5: order of the task centres; empty unless an order other than random was run."""
    columns = (
        *(Column(name) for name in ("order", "method", "memory")),
        Column("log-PPL published", 2),
        *(Column(name) for name in ("log-PPL", "sd", "SE")),
        Column("seeds"),
    )
    rows: list[Sequence[Cell]] = []
    if any(group.method.order != "random" for group in groups):
        compared = {
            (g.method.method, g.method.memory) for g in groups if g.method.order != "random"
        }
        for group in groups:
            method = group.method
            if (method.method, method.memory) not in compared:
                continue
            keys = {"order": method.order, "method": method.method, "memory": method.memory}
            same_data = family_of(method.dataset) == "coco_shift" and method.model == "vlbert"
            row = (find_row(PAPER, "table5", **keys) if same_data else None) or {}
            rows.append(
                [
                    method.order,
                    _name(method.method, group),
                    method.memory,
                    row.get("log_ppl"),
                    *_mean_sd_se(group, "test/log_ppl"),
                    len(group.runs),
                ]
            )
    return Table(f"Table 5, {_title(place)}", columns, rows, (MEAN_OF_SEEDS,))


def difference_table(place: Place, groups: Sequence[Group]) -> Table:
    """Final log-PPL against the vanilla run and against the text-only run, paired by seed."""
    columns = (
        *(Column(name) for name in ("method", "minus", "difference", "95 % low", "95 % high")),
        Column("seeds"),
        Column("excludes 0"),
    )
    rows: list[Sequence[Cell]] = []
    for group in groups:
        for other in groups:
            if other is group or not _is_reference(group.method, other.method):
                continue
            pairs = paired_values(group, other, "test/log_ppl")
            if len(pairs) < 2:
                continue
            interval = paired_t_interval([a for a, _ in pairs], [b for _, b in pairs])
            excludes = "yes" if interval.excludes(0) else "no"
            rows.append([group.label, other.label, *interval, len(pairs), excludes])
    note = "Log-PPL of the method minus that of the other run of the same seed, t interval."
    return Table(f"Paired differences, {_title(place)}", columns, rows, (note,))


def _rows(place: Place, groups: Sequence[Group]) -> Iterable[tuple[str, str, Group | None]]:
    """(method, memory, group) in the paper's order; None where there is no run."""
    family = family_of(place[0])
    known = [
        (row["method"], row["memory"])
        for row in published(PAPER)["table2"]
        if row["dataset"] == (family or FAMILIES[0]) and row["model"] == "vlbert"
    ]
    others = [(group.method.method, group.method.memory) for group in groups]
    for cell in dict.fromkeys([*known, *others]):
        found = [g for g in groups if (g.method.method, g.method.memory) == cell]
        if not found:
            yield (*cell, None)
        for group in found:
            yield (*cell, group)


def _notes(place: Place, absent: Sequence[str], groups: Sequence[Group]) -> tuple[str, ...]:
    dataset = place[0]
    family = family_of(dataset)
    notes = [MEAN_OF_SEEDS]
    if family is None:
        notes.append(f"{dataset} is no published data set, so no published value stands here.")
    elif dataset != family:
        notes.append(f"Published values are for {family}; these runs used {dataset}.")
    if absent:
        notes.append(f"No run of: {', '.join(absent)}.")
    if any(run.summary.get("small") for group in groups for run in group.runs):
        notes.append("Some models are smaller than the published one, see the list of runs.")
    return tuple(notes)


def _published(table: str, place: Place, method: str, memory: str) -> dict[str, Any]:
    keys = {"dataset": family_of(place[0]), "model": place[1]}
    return find_row(PAPER, table, **keys, method=method, memory=memory) or {}


def _is_reference(method: Method, other: Method) -> bool:
    """Is `other` what `method` should be compared with?"""
    text_only = other.method == f"{method.method}_text_only" and other.memory == method.memory
    return text_only or (other.method == "vanilla" and method.method != "vanilla")


def _mean_sd_se(group: Group | None, metric: str) -> list[Cell]:
    found = group.summary_of(metric) if group else None
    return [None] * 3 if found is None else [found.mean, finite(found.sd), finite(found.se)]


def _mean(group: Group | None, metric: str) -> float | None:
    found = group.summary_of(metric) if group else None
    return None if found is None else found.mean


def _memory(group: Group | None) -> list[Cell]:
    memory = (group.runs[0].summary.get("memory") or {}) if group else {}
    if not memory.get("capacity"):
        return [None, None]
    return [int(memory["capacity"]), 100 * memory["share"]]


def _name(method: str, group: Group | None) -> str:
    return f"{method} ({group.settings})" if group and group.settings else method


def _title(place: Place) -> str:
    dataset, model, profile = place
    return f"{dataset}, {model}, profile {profile}"


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _hours(minutes: float | None) -> float | None:
    return None if minutes is None else minutes / 60


REPORTER = Reporter(method_of, all_tables, draw_figures, unusual_keys)
