"""Tables of one CoBSAT run: every task in every way, what chance gives, and the judge's worth."""

from collections.abc import Mapping, Sequence

import numpy as np

from mmgen.prompting.cobsat.chance import levels
from mmgen.prompting.cobsat.rendering import Style
from mmgen.prompting.cobsat.scoring import Scored, groups
from mmgen.prompting.estimates import Estimate
from mmgen.prompting.judges.audit import Audit, corrected
from mmgen.report.published import find_row
from mmgen.report.tables import Cell, Column, Table

REFERENCE = {"image": "SEED-LLaMA", "text": "Qwen-VL"}
"""Output -> the model whose tables the paper prints."""


def score_table(
    label: str,
    found: Mapping[str, Mapping[str, Estimate]],
    style: Style,
    shots: int,
    split: str,
    *,
    tuned: bool = False,
) -> Table:
    """Shares of every group and task, the published accuracy beside ours.

    Args:
      tuned: is the model fine-tuned? (For the published values of the test of fine-tuning.)
    """
    first = next(iter(found.values()))
    names = [name for name in first if name != "joint"]
    reference = REFERENCE[style.output]
    columns = (
        Column("task"),
        Column("prompts"),
        Column("accuracy"),
        *(Column(name) for name in names),
        Column(f"published, {reference}"),
    )
    rows: list[Sequence[Cell]] = []
    for group, measures in found.items():
        published = published_accuracy(
            reference, style.output, shots, style.prompt_type, group, _training(split, tuned)
        )
        rows.append(
            [
                group,
                measures["joint"].n,
                measures["joint"].shown,
                *(measures[name].mean for name in names),
                published,
            ]
        )
    note = (
        "accuracy: object and attribute right; textual: what the text names, visual: what the "
        "images share; missing outputs count as wrong."
    )
    title = f"{label}, {shots}-shot {style.prompt_type}, {style.output}"
    return Table(title, columns, rows, (note,))


def published_accuracy(
    model: str, output: str, shots: int, prompt: str, task: str, training: str = ""
) -> float | None:
    """An accuracy that the paper prints, None if it does not.

    Args:
      training: "none" or "finetuned" on the test of fine-tuning, "" on the benchmark itself.
    """
    keys = {"model": model, "output": output, "shots": str(shots), "prompt": prompt, "task": task}
    if training:
        row = find_row("cobsat", "finetuning", **keys, training=training)
    else:
        row = find_row("cobsat", "results", **keys)
    return None if row is None else row["accuracy"]


def _training(split: str, tuned: bool) -> str:
    if split != "ft_test":
        return ""
    return "finetuned" if tuned else "none"


def chance_table(scored: Sequence[Scored], prompt_type: str) -> Table:
    """Joint accuracy that can be had without seeing, and the most that can be had."""
    columns = (Column("task"), *(Column(n) for n in ("random pair", "text alone", "optimum")))
    rows: list[Sequence[Cell]] = []
    for group, members in groups(scored).items():
        found = [levels(one.sample, prompt_type) for one in members]
        rows.append([group, *(float(np.mean(column)) for column in zip(*found, strict=True))])
    return Table("levels of chance", columns, rows)


def audit_table(audits: Mapping[str, Audit], found: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """How well the judge reads the data set's own images, and accuracies behind the observed.

    Args:
      audits: "attribute", "object" and "joint" -> audit.
    """
    columns = (
        Column("judged"),
        Column("known images"),
        Column("accuracy on them"),
        Column("kappa"),
        Column("abstained"),
        Column("observed"),
        Column("corrected"),
    )
    rows: list[Sequence[Cell]] = []
    for kind, one in audits.items():
        observed = found["all"][kind].mean
        rows.append(
            [
                kind,
                one.accuracy.n,
                one.accuracy.shown,
                f"{one.kappa.mean:.3f} [{one.kappa.low:.2f}, {one.kappa.high:.2f}]",
                one.abstained,
                observed,
                corrected(observed, one.hit, one.false),
            ]
        )
    return Table("the judge on known images", columns, rows)
