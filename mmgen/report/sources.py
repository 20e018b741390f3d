"""What the numbers of a report rest on: the data sets and the runs, and what is missing."""

from collections.abc import Sequence

from mmgen.evaluation.context import read_context
from mmgen.report.aggregate import Missing, Run, hardware, mean_hours
from mmgen.report.published import family_of, find_row, published
from mmgen.report.tables import Cell, Column, Table

PAPER = "viscoll"
PAIRED = "coco_shift"
"""The published data set that holds out compositions."""


def data_table(runs: Sequence[Run]) -> Table:
    """Table 1: sizes of the data sets really used, beside the published ones."""
    keys = ("train", "validation", "test", "novel")
    counts = (Column(name) for name in keys)
    columns = (
        Column("data set"),
        Column("fingerprint"),
        *counts,
        Column("tasks"),
        Column("instances per task, mean", 1),
        Column("median", 1),
        Column("mean span"),
    )
    rows: list[Sequence[Cell]] = []
    for run in {run.summary["fingerprint"]: run for run in runs}.values():
        splits = read_context(run.path)["dataset"]["splits"]
        train = splits["train"]
        rows.append(
            [
                run.summary["dataset"],
                run.summary["fingerprint"][:12],
                *(splits.get(key, {}).get("examples") for key in keys),
                train.get("tasks"),
                train.get("instances_per_task_mean"),
                train.get("instances_per_task_median"),
                train.get("mean_span"),
            ]
        )
    families = sorted({family_of(run.summary["dataset"]) or "" for run in runs} - {""})
    for family in families:
        row = find_row(PAPER, "table1", dataset=family) or {}
        per_task = [row["instances_per_task_mean"], row["instances_per_task_median"]]
        numbers = [*(row[key] for key in keys), row["tasks"], *per_task, row["mean_span"]]
        rows.append([f"{family}, published", None, *numbers])
    remarks = [r for r in published(PAPER)["remarks"] if r.startswith("Table 1")]
    return Table("Table 1", columns, rows, tuple(remarks) if families else ())


def pair_table(runs: Sequence[Run]) -> Table:
    """Table 4: the held-out compositions, published ones beside those of the data really used."""
    heldout: dict[str, dict[str, str]] = {}
    for run in runs:
        if family_of(run.summary["dataset"]) == PAIRED:
            pairs = read_context(run.path)["dataset"]["pairs"]
            heldout[run.summary["dataset"]] = {p["name"]: p["kind"] for p in pairs if p["novel"]}
    printed = {row["pair"]: row["kind"] for row in published(PAPER)["table4"]}
    kinds = printed | {name: kind for ours in heldout.values() for name, kind in ours.items()}
    columns = tuple(Column(name) for name in ("composition", "kind", "published", *heldout))
    rows: list[Sequence[Cell]] = [
        [
            name,
            kind,
            *("held out" if name in pairs else None for pairs in (printed, *heldout.values())),
        ]
        for name, kind in kinds.items()
    ]
    return Table("Table 4", columns, rows if heldout else [])


def run_table(runs: Sequence[Run], missing: Sequence[Missing]) -> Table:
    """Provenance of every run, and what is missing."""
    names = ("run", "data set", "fingerprint", "profile", "seed", "data seed", "code", "machine")
    columns = (*(Column(name) for name in (*names, "hours")), Column("state"))
    rows: list[Sequence[Cell]] = []
    for run in runs:
        summary = run.summary
        git = summary.get("git") or {}
        rows.append(
            [
                f"{summary['name']} ({run.path})",
                summary["dataset"],
                summary["fingerprint"][:12],
                summary.get("profile"),
                str(summary["seed"]),
                str(summary["data_seed"]),
                git.get("commit", "unknown")[:10] + ("+changes" if git.get("dirty") else ""),
                hardware([run]),
                mean_hours([run]),
                "small model" if summary.get("small") else "finished",
            ]
        )
    blank: list[Cell] = [None] * (len(columns) - 2)
    rows += [[entry.path, *blank, entry.reason] for entry in missing]
    return Table("Runs", columns, rows)
