"""The prompted rows of CompAct's paper (Tables 9 to 14) from the files of runs."""

from collections.abc import Sequence
from typing import NamedTuple

from mmgen.report.aggregate import Group, Run, finite
from mmgen.report.published import Row, published
from mmgen.report.tables import Cell, Column, Table
from mmgen.settings.prompting import short_name

PAPER = "compact"

BY_SHOTS = ("table9", "table10", "table13")
"""Published results by number of examples, test split."""

SCORES = (
    ("bleu1_plain", "BLEU plain", "bleu"),
    ("bleu1_joined", "BLEU joined", ""),
    ("em", "EM", "em"),
    ("ca", "CA", "ca"),
)
"""Metric, head of its column, key of the published value (language models write plain words)."""


HEURISTIC = {"heuristic": "overlap"}
"""Published name of a choice of examples -> ours."""


class Prompted(NamedTuple):
    """What a run asks, and of whom.

    Attributes:
      dataset: name of the data set that was really used.
      world: is it built in?
      split: evaluated split.
      model: short name.
      template: name of the prompt.
      shots: examples shown.
      selection: "overlap" or "random".
      exclude: examples that are never shown.
      images: "none" or "keyframes".
    """

    dataset: str
    world: bool
    split: str
    model: str
    template: str
    shots: int
    selection: str
    exclude: str
    images: str

    @property
    def label(self) -> str:
        """Short name for figures."""
        return f"{self.model}, {self.shots}-shot"


def prompted_of(run: Run) -> Prompted:
    """The cell of a run, read from its config."""
    config = run.summary["config"]
    names = ("split", "template", "shots", "selection", "exclude", "images")
    return Prompted(
        dataset=run.summary["dataset"],
        world=run.summary["world"],
        model=short_name(config["model.spec"]),
        **{name: config[f"compact.{name}"] for name in names},
    )


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table for which there is a run."""
    tables = [shots_table(groups), selection_table(groups), template_table(groups)]
    return [table for table in tables if table.rows]


def shots_table(groups: Sequence[Group]) -> Table:
    """Tables 9, 10, 13 and 14: scores by model and number of examples."""
    ordered = sorted(groups, key=lambda group: (group.method.model, group.method.shots))
    rows = [_row(group, _name(group)) for group in ordered]
    bounds: list[list[Cell]] = []
    if rows:
        for table in BY_SHOTS:
            bounds += [_published_row(row) for row in published(PAPER)[table]]
        bounds += [_published_row({"shots": "5", **row}) for row in published(PAPER)["table14"]]
    return _table("CompAct, few-shot", rows, bounds)


def selection_table(groups: Sequence[Group]) -> Table:
    """Table 11: examples by overlap against random ones."""
    asked = {group.method.selection for group in groups}
    chosen = [group for group in groups if group.method.shots]
    rows = [_row(group, f"{_name(group)}, {group.method.selection}") for group in chosen]
    bounds: list[list[Cell]] = []
    for row in published(PAPER)["table11"]:
        head: list[Cell] = ["IDEFICS, published", None, "validation", "idefics"]
        examples = HEURISTIC.get(row["selection"], row["selection"])
        bounds.append([*head, int(row["shots"]), examples, row["bleu"], *[None] * 9])
    return _table("CompAct, choice of examples", rows if "random" in asked else [], bounds)


def template_table(groups: Sequence[Group]) -> Table:
    """Table 12: the templates of Figs. 7 and 10."""
    asked = {group.method.template for group in groups}
    rows = [_row(group, f"{_name(group)}, {group.method.template}") for group in groups]
    bounds = [
        _published_row({"model": f"IDEFICS, template {row['template']}", "shots": "5", **row})
        for row in published(PAPER)["table12"]
    ]
    return _table("CompAct, templates", rows if len(asked) > 1 else [], bounds)


def _table(title: str, rows: list[list[Cell]], bounds: list[list[Cell]]) -> Table:
    columns = [Column(name) for name in ("model", "data set", "split", "template", "shots")]
    columns.append(Column("examples"))
    for _, head, _ in SCORES:
        columns += [Column(head, 2, "high"), Column(f"{head} sd", 2)]
    columns += [Column("answer shown %", 1), Column("seeds")]
    note = (
        "Per cent; sd is over seeds, of one run. BLEU of language models is published in the plain "
        'form. "answer shown": prompts whose examples contain the narration that is asked for.'
    )
    shown = [*rows, *bounds] if rows else []
    return Table(title, tuple(columns), shown, (note,), unranked=len(bounds))


def _name(group: Group) -> str:
    model = group.method.model
    return f"{model} ({group.settings})" if group.settings else model


def _row(group: Group, name: str) -> list[Cell]:
    one = group.method
    cells: list[Cell] = [
        name,
        f"{one.dataset} (world)" if one.world else one.dataset,
        one.split,
        one.template,
        one.shots,
        one.selection if one.shots else None,
    ]
    for metric, _, _ in SCORES:
        found = group.summary_of(f"{one.split}/{metric}")
        cells += [None, None] if found is None else [_percent(found.mean), _percent(found.sd)]
    shown = group.summary_of("leak/answer_shown")
    return [*cells, None if shown is None else _percent(shown.mean), len(group.runs)]


def _published_row(row: Row) -> list[Cell]:
    cells: list[Cell] = [f"{row['model']}, published", None, "test", None, int(row["shots"]), None]
    for _, _, key in SCORES:
        cells += [row.get(key), row.get(f"{key}_sd")] if key else [None, None]
    return [*cells, None, None]


def _percent(value: float) -> float | None:
    known = finite(value)
    return None if known is None else 100 * known
