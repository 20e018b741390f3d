"""Tables 1-8 and 15 of the CompAct paper: published values beside ours, in per cent."""

from collections.abc import Sequence
from typing import NamedTuple

from mmgen.report.aggregate import Group, finite, hardware, mean_hours
from mmgen.report.compact_cells import LOWEST_DC, PAPER, Place
from mmgen.report.published import Row, find_row, published
from mmgen.report.tables import Cell, Column, Table, without_published

MEAN_OF_SEEDS = "Mean over seeds; sd is of one run, SE of the mean."

BASELINES = {
    "most_frequent": "most frequent",
    "recent": "MRH (most recent)",
    "copy_last": "copy the last input",
    "put_down": "put_down + last noun",
    "bigram": "bigram",
    "nearest": "nearest neighbour",
}
"""Predictions without training, below every table."""

MRH = "MRH"
"""Published name of the baseline `recent`."""

BERTSCORE = "bertscore"


class Score(NamedTuple):
    """A score of a table.

    Attributes:
      metric: its name after the evaluated split.
      head: of its column.
      key: of the published value, "" if there is none.
      optimum: its name among what a built-in world knows, "" if it knows nothing of it.
    """

    metric: str
    head: str
    key: str = ""
    optimum: str = ""


def scores_of(task: str) -> tuple[Score, ...]:
    """Scores of a task but for BERTScore."""
    if task == "utterance":
        return (
            Score("bleu1_joined", "BLEU", "bleu"),
            Score("bleu1_plain", "BLEU plain"),
            Score("em", "EM", "em", "exact"),
            Score("ca", "CA", "ca", "joint"),
        )
    return Score("em", "EM", "em"), Score("ca", "CA", "ca", task)


def quality_table(place: Place, groups: Sequence[Group], split: str) -> Table:
    """Tables 1-5, 7 and 8: every model, then what needs no training."""
    scores = [*scores_of(place.task), *_bertscores(place, groups, split)]
    columns = [Column("model")]
    for score in scores:
        columns += _columns(place, split, score)
    columns += [Column("unparsable" if place.task == "utterance" else "unseen labels", 2)]
    columns += [Column("seeds")]
    rows: list[Sequence[Cell]] = []
    absent = []
    for model, group in _rows(place, groups, split):
        if group is None:
            absent.append(model)
        row = place.published(split, model)
        cells: list[Cell] = [f"{model} ({group.settings})" if group and group.settings else model]
        for score in scores:
            cells += _cells(place, split, score, row, group)
        refused = "unparsable" if place.task == "utterance" else "unseen_label"
        cells.append(percent(mean(group, f"{split}/{refused}")))
        rows.append([*cells, len(group.runs) if group else None])
    trivial = _baseline_rows(place, groups, split, scores)
    notes = _notes(place, groups, split, absent)
    return Table(_title(place, split), tuple(columns), [*rows, *trivial], notes, len(trivial))


def _columns(place: Place, split: str, score: Score) -> list[Column]:
    columns = []
    if score.key and place.epic and place.table(split):
        head = "BERTScore" if score.key == BERTSCORE else score.head
        columns.append(Column(f"{head} published", 2))
    columns += [
        Column(score.head, 2, "high"),
        Column(f"{score.head} sd", 2),
        Column(f"{score.head} SE", 2),
    ]
    if place.world and score.optimum:
        columns.append(Column(f"{score.head} optimum", 2))
    return columns


def _cells(place: Place, split: str, score: Score, row: Row, group: Group | None) -> list[Cell]:
    cells: list[Cell] = []
    if score.key and place.epic and place.table(split):
        cells.append(row.get(score.key))
    found = group.summary_of(f"{split}/{score.metric}") if group else None
    cells += [None] * 3 if found is None else [percent(finite(v)) for v in found[:3]]
    if place.world and score.optimum:
        cells.append(percent(mean(group, f"{split}/optimum_{score.optimum}")))
    return cells


def _bertscores(place: Place, groups: Sequence[Group], split: str) -> list[Score]:
    """BERTScore by encoder; the published column stands before the first, or alone."""
    prefix = f"{split}/{BERTSCORE}_"
    names = sorted(
        {
            name.removeprefix(f"{split}/")
            for group in groups
            for run in group.runs
            for name in run.summary["metrics"]
            if name.startswith(prefix)
        }
    )
    if not names and place.table(split) and place.epic:
        return [Score(BERTSCORE, "BERTScore", BERTSCORE)]
    heads = [f"BERTScore {name.removeprefix(BERTSCORE + '_')}" for name in names]
    return [
        Score(name, head, BERTSCORE if place == 0 else "")
        for place, (name, head) in enumerate(zip(names, heads, strict=True))
    ]


def _rows(place: Place, groups: Sequence[Group], split: str) -> list[tuple[str, Group | None]]:
    """(model, group) in the paper's order; None where there is no run."""
    table = place.table(split) if place.epic else ""
    known = [row["model"] for row in published(PAPER)[table]] if table else []
    models = dict.fromkeys([*known, *(group.method.model for group in groups)])
    rows: list[tuple[str, Group | None]] = []
    for model in models:
        found = [group for group in groups if group.method.model == model]
        if model != MRH:
            rows += [(model, group) for group in found] or [(model, None)]
    return rows


def _baseline_rows(
    place: Place, groups: Sequence[Group], split: str, scores: Sequence[Score]
) -> list[list[Cell]]:
    """They belong to the data set and not to a model: any run of it has them."""
    rows = []
    for name, words in BASELINES.items():
        row = place.published(split, MRH) if name == "recent" else {}
        cells: list[Cell] = [words]
        for score in scores:
            value = mean(groups[0], f"{split}/baseline/{name}/{score.metric}")
            columns = _columns(place, split, score)
            for column in columns:
                if column.name.endswith("published"):
                    cells.append(row.get(score.key))
                else:
                    cells.append(percent(value) if column.name == score.head else None)
        if any(cell is not None for cell in cells[1:]):
            rows.append([*cells, None, None])
    return rows


def _notes(
    place: Place, groups: Sequence[Group], split: str, absent: Sequence[str]
) -> tuple[str, ...]:
    notes = [MEAN_OF_SEEDS]
    if place.world:
        notes.append(
            f"{place.dataset} is a built-in world, so no published value stands here; the optimum "
            "is that of the model's own inputs."
        )
    elif not place.epic:
        notes.append(f"{place.dataset} is not EPIC-KITCHENS, so no published value stands here.")
    elif not place.as_published:
        notes.append(
            f"The paper's split has a D_C above {LOWEST_DC} and validates on held-out compounds, "
            f"and {place.dataset} does not, so no published value stands here."
        )
    elif place.table(split):
        notes.append(
            "Published values are for the authors' split, which is not public; these runs used "
            f"{place.dataset}. Published BLEU is of joined words, but of language models of plain "
            "ones; published BERTScore is of roberta-large."
        )
    if place.split == "resplit":
        notes.append("The control of the compositional split: the same windows divided at random.")
    gold = mean(groups[0], f"{split}/gold_ca")
    if gold is not None and place.task == "utterance":
        notes.append(f"CA of the targets themselves, by the same parser: {100 * gold:.2f} %.")
    if absent:
        notes.append(f"No run of: {', '.join(absent)}.")
    if any(run.summary.get("small") for group in groups for run in group.runs):
        notes.append("Some models are smaller than the published one, see the list of runs.")
    return tuple(notes)


def seen_table(place: Place, groups: Sequence[Group], split: str) -> Table:
    """Targets whose compound is one of train, and the others, apart (`--target-dc` below 1)."""
    scores = scores_of(place.task)
    parts = ("seen", "unseen")
    heads = [f"{score.head} {part}" for score in scores for part in parts]
    known = [("optimum", "CA optimum unseen"), ("memoriser", "CA memoriser unseen")]
    known = known if place.world else []
    columns = (
        Column("model"),
        *(Column(f"{part} items", 0) for part in parts),
        *(Column(head, 2) for head in heads),
        *(Column(head, 2) for _, head in known),
    )
    rows: list[Sequence[Cell]] = []
    for group in groups:
        if mean(group, f"{split}/seen/n") is None:
            continue
        optimum = scores[-1].optimum
        rows.append(
            [
                group.label,
                *(mean(group, f"{split}/{part}/n") for part in parts),
                *(
                    percent(mean(group, f"{split}/{part}/{score.metric}"))
                    for score in scores
                    for part in parts
                ),
                *(percent(mean(group, f"{split}/unseen/{who}_{optimum}")) for who, _ in known),
            ]
        )
    note = "A compound is seen if a target of train has it."
    return Table(f"Seen and unseen compounds, {place_name(place)}, {split}", columns, rows, (note,))


def cost_table(place: Place, groups: Sequence[Group]) -> Table:
    """Table 6: parameters and training time."""
    kind = "utterance" if place.task == "utterance" else "atom"
    columns = (
        Column("model"),
        Column("parameters published, M", 1),
        Column("parameters, M", 2),
        Column("minutes published", 1),
        Column("minutes", 1),
        Column("epochs", 1),
        Column("machine"),
    )
    rows: list[Sequence[Cell]] = []
    for group in groups:
        row = find_row(PAPER, "table6", model=group.method.model) or {} if place.epic else {}
        first = group.runs[0].summary
        rows.append(
            [
                group.label,
                row.get(f"{kind}_parameters"),
                first["parameters"] / 1e6,
                row.get(f"{place.task}_minutes"),
                60 * mean_hours(group.runs),
                sum(run.summary["epochs"] for run in group.runs) / len(group.runs),
                hardware(group.runs),
            ]
        )
    note = "Our time includes the evaluations."
    if place.epic:
        note = f"Published: {published(PAPER)['units']['minutes']}. {note}{_labels(groups)}"
    table = Table(f"Table 6, {place_name(place)}", columns, rows, (note,))
    return table if place.epic else without_published(table)


def _labels(groups: Sequence[Group]) -> str:
    """Why a classifier need not have the published number of parameters."""
    summary = groups[0].runs[0].summary
    labels, width = summary.get("labels"), summary["config"].get("model.classifier")
    if not labels or not width:
        return ""
    size = labels["rows"] * (width + 1)
    return (
        " The paper has one total for verbs and nouns, rounded to .1 M, and does not say for how "
        f"many labels; {labels['rows']:,} labels of {width + 1} parameters each make "
        f"{size / 1e6:.2f} M of ours."
    )


def failure_table(place: Place, groups: Sequence[Group], split: str) -> Table:
    """Table 15: right verb, wrong noun; which of the predicted compounds are known ones."""
    comparable = place.epic and place.split == "mcd" and bool(place.table(split))
    heads = ("train published", "test published", "train, of all", f"{split}, of all")
    columns = (
        Column("model"),
        Column("failures", 1),
        Column("% of all", 2),
        *(Column(head, 2) for head in heads),
        Column("train, of failures", 2),
        Column(f"{split}, of failures", 2),
    )
    rows: list[Sequence[Cell]] = []
    for group in groups:
        if mean(group, f"{split}/failure/items") is None:
            continue
        row = find_row(PAPER, "table15", model=group.method.model) or {}
        shown = row if comparable and split == "test" else {}
        keys = ("train_of_all", "split_of_all", "train_ratio", "split_ratio")
        rows.append(
            [
                group.label,
                mean(group, f"{split}/failure/items"),
                percent(mean(group, f"{split}/failure/share")),
                shown.get("train_ratio"),
                shown.get("test_ratio"),
                *(percent(mean(group, f"{split}/failure/{key}")) for key in keys),
            ]
        )
    note = (
        "Items with the right verb and a wrong noun whose (verb, predicted noun) is a target of "
        f"train, or of {split}. The paper does not say of what its ratios are."
    )
    table = Table(f"Table 15, {place_name(place)}", columns, rows, (note,))
    return table if comparable else without_published(table)


def mean(group: Group | None, metric: str) -> float | None:
    """Mean over the group's runs, None where none has the metric."""
    found = group.summary_of(metric) if group else None
    return None if found is None else found.mean


def percent(value: float | None) -> float | None:
    """A share in per cent."""
    return None if value is None else 100 * value


def place_name(place: Place) -> str:
    """A place in titles."""
    return f"{place.dataset}, {place.task}"


def _title(place: Place, split: str) -> str:
    table = place.table(split)
    number = f"Table {table.removeprefix('table')}" if table else "Scores"
    return f"{number}, {place_name(place)}, {split}"
