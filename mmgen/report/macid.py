"""MACID's tables from the files of runs: the data (Tables 1 to 3), and accuracies."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mmgen.data.macid.report import data_tables
from mmgen.evaluation.context import read_context
from mmgen.report.aggregate import Group, Run
from mmgen.report.published import published
from mmgen.report.tables import Cell, Column, Table
from mmgen.settings.prompting import short_name

PAPER = "macid"
PUBLISHED_GROUPS = 100

READINGS = ("generate", "choices", "calibrated")
"""Ways of taking a choice from a model, see `mmgen.prompting.macid.reading`."""


class Asked(NamedTuple):
    """What a run asks, and of whom.

    Attributes:
      dataset: name of the data set that was really used.
      world: is it built in?
      model: short name.
      format: "quadruples" or "pairs".
      prompt: name of the prompt.
      language: of sentences and instruction.
      shots: examples shown.
    """

    dataset: str
    world: bool
    model: str
    format: str
    prompt: str
    language: str
    shots: int

    @property
    def label(self) -> str:
        """Short name for figures."""
        return f"{self.model}, {self.prompt}, {self.shots}-shot"


def asked_of(run: Run) -> Asked:
    """The cell of a run, read from its config."""
    config = run.summary["config"]
    return Asked(
        dataset=run.summary["dataset"],
        world=run.summary["world"],
        model=short_name(config["model.spec"]),
        format=config["macid.format"],
        prompt=config["macid.prompt"],
        language=config["macid.language"],
        shots=config["macid.shots"],
    )


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table for which there is a run."""
    tables: list[Table] = []
    for run in {group.runs[0].summary["fingerprint"]: group.runs[0] for group in groups}.values():
        facts: Mapping[str, Any] = read_context(run.path)["dataset"]["facts"]
        name = run.summary["dataset"]
        tables += [
            table._replace(title=f"MACID, {name}, {table.title}")
            for table in data_tables(next(iter(facts.values())), name)
        ]
    for form in ("quadruples", "pairs"):
        here = [group for group in groups if group.method.format == form]
        tables += [accuracy_table(here, form), condition_table(here, form)]
    return [table for table in tables if table.rows]


def accuracy_table(groups: Sequence[Group], form: str) -> Table:
    """Accuracy of every run and reading; published values, which are of groups of four, below."""
    rows: list[list[Cell]] = [
        cells
        for group in groups
        for reading in _readings(group)
        if (cells := _accuracy_cells(group, reading)) is not None
    ]
    bounds: list[list[Cell]] = []
    if rows:
        chance = groups[0].summary_of("chance")
        bounds.append(_bound("chance", None if chance is None else chance.mean))
    if rows and form == "quadruples":
        for row in published(PAPER)["accuracy"]:
            share = row["accuracy"]
            se = math.sqrt(share * (1 - share) / PUBLISHED_GROUPS)
            bounds.append(_bound(f"{row['model']}, published", share, se, "MACID"))
    names = ("model", "data set", "prompt", "language", "shots", "reading")
    columns = (
        *(Column(name) for name in names),
        Column("accuracy", better="high"),
        Column("SE"),
        Column("95 %"),
        Column("unusable"),
        Column("mean of orders"),
        Column("worst order"),
        Column("right in all"),
        Column("seeds"),
    )
    note = (
        "SE and interval are over groups, of one run; several seeds are averaged. An answer that "
        "cannot be read is wrong and counted as unusable."
    )
    notes = (note, *(r for r in published(PAPER)["remarks"] if "standard error" in r))
    return Table(f"MACID, {form}", columns, rows + bounds, notes, unranked=len(bounds))


def condition_table(groups: Sequence[Group], form: str) -> Table:
    """Accuracy by verb pattern, shared verb, position and similarity: a column for each run."""
    shown = [(group, reading) for group in groups for reading in _readings(group)]
    conditions = list(
        dict.fromkeys(
            name.removeprefix(f"{reading}/by/").removesuffix("/n")
            for group, reading in shown
            for name in group.runs[0].summary["metrics"]
            if name.startswith(f"{reading}/by/") and name.endswith("/n")
        )
    )
    rows: list[list[Cell]] = []
    for condition in conditions:
        cells: list[Cell] = [condition.replace("_", " ")]
        for group, reading in shown:
            metrics = group.runs[0].summary["metrics"]
            key = f"{reading}/by/{condition}"
            if key not in metrics:
                # Runs of other shots or languages ask of other conditions.
                cells.append(None)
                continue
            se = metrics.get(f"{key}/se")
            cells.append(f"{metrics[key]:.2f}" + ("" if se is None else f" ± {se:.2f}"))
        rows.append(cells)
    heads = [f"{group.label}, {reading}" for group, reading in shown]
    columns = (Column("condition"), *(Column(head) for head in heads))
    note = "Of the first seed; ± is the standard error over groups."
    return Table(f"MACID, {form}, by condition", columns, rows, (note,))


def _readings(group: Group) -> list[str]:
    metrics = group.runs[0].summary["metrics"]
    names = [prefix + reading for prefix in ("", "zero_shot/") for reading in READINGS]
    return [name for name in names if f"{name}/accuracy" in metrics]


def _accuracy_cells(group: Group, reading: str) -> list[Cell] | None:
    def mean(name: str) -> float | None:
        found = group.summary_of(f"{reading}/{name}")
        return None if found is None else found.mean

    accuracy = mean("accuracy")
    if accuracy is None:
        return None
    asked, first = group.method, group.runs[0].summary["metrics"]
    ends = [first.get(f"{reading}/accuracy/{end}") for end in ("low", "high")]
    return [
        f"{asked.model} ({group.settings})" if group.settings else asked.model,
        f"{asked.dataset} (world)" if asked.world else asked.dataset,
        asked.prompt,
        asked.language,
        asked.shots,
        reading,
        accuracy,
        first.get(f"{reading}/accuracy/se"),
        None if None in ends else f"{ends[0]:.2f} .. {ends[1]:.2f}",
        *(mean(name) for name in ("unusable", "orders/mean", "orders/worst", "orders/all_right")),
        len(group.runs),
    ]


def _bound(name: str, share: float | None, se: float | None = None, data: str = "") -> list[Cell]:
    return [name, data, *[None] * 4, share, se, *[None] * 6]
