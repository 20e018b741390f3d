"""Compares two CompAct runs window by window, from their records; see `mmgen.compare`."""

from collections.abc import Sequence

import numpy as np
from etils import epath
from jaxtyping import Float

from mmgen.compact.context import read_compact_context
from mmgen.compact.judging import Judge, Judged
from mmgen.compact.records import read_evaluation
from mmgen.errors import UserError
from mmgen.evaluation.context import Context
from mmgen.evaluation.predictions import Record, saved_evaluations
from mmgen.metrics.corpus_bleu import bleu1, unigram_counts
from mmgen.metrics.stats import bootstrap_sums, cluster_bootstrap
from mmgen.report.tables import Cell, Column, Table

SHOWN = 8
"""Items listed on each side."""

COUNTS = 3
"""Sums of which BLEU is made."""


def compare_records(first: str, second: str, split: str) -> list[Table]:
    """Scores with their paired differences over videos, and the items that flipped.

    Raises:
      UserError: other tasks, no evaluation of `split`, or no item in common.
    """
    contexts = [read_compact_context(path) for path in (first, second)]
    tasks = [context["task"] for context in contexts]
    if tasks[0] != tasks[1]:
        raise UserError(f"{first} predicts {tasks[0]}s and {second} {tasks[1]}s: compare like runs")
    left, right = (
        _last_records(path, split, context)
        for path, context in zip((first, second), contexts, strict=True)
    )
    shared = sorted(left.keys() & right.keys())
    if not shared:
        raise UserError(f"{first} and {second} have no evaluated item of split {split} in common")
    records = [[side[row] for row in shared] for side in (left, right)]
    judged = [Judge(c)(r) for c, r in zip(contexts, records, strict=True)]
    return [score_table(judged, split), flip_table(records, judged)]


def score_table(judged: Sequence[Judged], split: str) -> Table:
    """Every score of both runs in per cent, and the difference with its interval over videos."""
    one, other = judged
    rows: list[list[Cell]] = []
    for name in ("em", "ca"):
        left, right = (100.0 * getattr(run, name) for run in judged)
        interval = cluster_bootstrap(left - right, one.video)
        excludes = "yes" if interval.excludes(0) else "no"
        rows.append([name.upper(), float(left.mean()), float(right.mean()), *interval, excludes])
    for form in ("joined", "plain") if one.is_utterance else ():
        counts = [_counts(run, form) for run in (one, other)]
        interval = bootstrap_sums(np.concatenate(counts, axis=1), one.video, _bleu_difference)
        scores = [100 * bleu1(part.sum(axis=0)) for part in counts]
        excludes = "yes" if interval.excludes(0) else "no"
        rows.append([f"BLEU {form}", *scores, *interval, excludes])
    heads = ("A", "B", "A - B", "95 % low", "95 % high")
    columns = (Column(""), *(Column(head, 2) for head in heads), Column("excludes 0"))
    videos = len(np.unique(one.video))
    return Table(f"{split}: {len(one):,} items of {videos:,} videos", columns, rows)


def flip_table(records: Sequence[Sequence[Record]], judged: Sequence[Judged]) -> Table:
    """Items that only one of the runs has right by class."""
    rows: list[list[Cell]] = []
    sides = []
    for side, (mine, theirs) in (("A right", judged), ("B right", judged[::-1])):
        places = np.flatnonzero(mine.ca & ~theirs.ca).tolist()
        sides.append(len(places))
        for place in places[:SHOWN]:
            item = records[0][place]
            answers = [run[place]["prediction"] for run in records]
            rows.append([side, " . ".join(item["inputs"]), item["target"], *answers])
    columns = tuple(Column(name) for name in ("", "inputs", "target", "A", "B"))
    note = f"By class only A is right on {sides[0]} items, only B on {sides[1]}."
    return Table("flipped items", columns, rows, (note,))


def _last_records(path: epath.PathLike, split: str, context: Context) -> dict[int, Record]:
    steps = saved_evaluations(path).get(split)
    if not steps:
        raise UserError(f"{path} holds no evaluation of split {split}")
    return {record["id"]: record for record in read_evaluation(path, split, steps[-1], context)}


def _counts(judged: Judged, form: str) -> Float[np.ndarray, "n 3"]:
    texts = [(ours.split(), true.split()) for ours, true in getattr(judged, form)]
    return unigram_counts(*zip(*texts, strict=True)).astype(np.float64)


def _bleu_difference(sums: Float[np.ndarray, " 6"]) -> float:
    return 100 * (bleu1(sums[:COUNTS]) - bleu1(sums[COUNTS:]))
