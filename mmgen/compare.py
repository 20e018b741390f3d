"""Compares two runs item by item: which is better, by how much, and what changed its answer.

    python -m mmgen.compare A B [--split test]

A and B are workdirs of runs that were evaluated on the same data. Differences are A minus B over
the items that both evaluated last; intervals resample whole images, or videos.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.evaluation.context import Context, read_context
from mmgen.evaluation.predictions import (
    PredictionTable,
    as_table,
    read_records,
    record_path,
    saved_evaluations,
)
from mmgen.metrics import bleu, continual, ppl
from mmgen.metrics.stats import cluster_bootstrap
from mmgen.report.run_table import words
from mmgen.report.tables import Cell, Column, Table, markdown
from mmgen.settings.command_line import fail
from mmgen.settings.kinds import DEFAULT

SHOWN = 8
"""Items and tasks listed on each side."""


class Pair(NamedTuple):
    """Two evaluations of the same items, in the same order."""

    first: PredictionTable
    second: PredictionTable


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for.

    Raises:
      UserError: a folder is no evaluated run, or the two are of different kinds or share no item.
    """
    parser = argparse.ArgumentParser(
        "python -m mmgen.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", metavar="A", help="workdir")
    parser.add_argument("second", metavar="B", help="workdir")
    parser.add_argument("--split", default="test", help="test, novel, ... (default: test)")
    options = parser.parse_args(arguments)
    print("\n".join(markdown(t) for t in compare(options.first, options.second, options.split)))


def compare(first: str, second: str, split: str = "test") -> list[Table]:
    """Scores with their paired differences, tasks that differ most, and flipped items.

    Prompted runs have no splits: all of their items are compared.
    """
    context = _shared_context(first, second)
    if context.get("kind") == "prompting":
        from mmgen.prompting.compare import compare_records

        return compare_records(first, second, context)
    if context.get("kind") == "compact":
        from mmgen.compact import compare as compact

        return compact.compare_records(first, second, split)
    pair = load_pair(first, second, split)
    return [
        score_table(pair, split, context),
        task_table(pair, context),
        flip_table(pair, context),
    ]


def load_pair(first: str, second: str, split: str) -> Pair:
    """The last evaluations of both runs, reduced to the items that both hold.

    Raises:
      UserError: one has no evaluation of `split`, or they share no item, or its truth differs.
    """
    left, right = _last_table(first, split), _last_table(second, split)
    common = np.intersect1d(left.ids, right.ids)
    if not len(common):
        raise UserError(f"{first} and {second} have no evaluated item of split {split} in common")
    pair = Pair(*(table.select(np.isin(table.ids, common)) for table in (left, right)))
    if not np.array_equal(pair.first.target, pair.second.target):
        raise UserError(
            f"{first} and {second} disagree about the truth of split {split}: they were evaluated "
            "on different data"
        )
    return pair


def score_table(pair: Pair, split: str, context: Context) -> Table:
    """Each metric of both runs, and the difference with its interval over images."""
    length = pair.first.mask.sum(axis=1)

    def bleus(table: PredictionTable, order: int) -> Float[np.ndarray, " n"]:
        scores = bleu.sentence_bleu(table.prediction, table.target, length, length)
        return 100 * scores[:, order - 1]

    def without_determiners(table: PredictionTable) -> Float[np.ndarray, " n"]:
        content = ppl.mask_without(table.target, table.mask, context["determiners"])
        return ppl.item_nll(table.nll, content)

    measures = {
        "log-PPL": lambda table: ppl.item_nll(table.nll, table.mask),
        "log-PPL without determiners": without_determiners,
        "BLEU-1": lambda table: bleus(table, 1),
        "BLEU-2": lambda table: bleus(table, 2),
        "whole span right %": lambda table: 100.0 * _right(table),
    }
    rows: list[list[Cell]] = []
    for name, measure in measures.items():
        left, right = measure(pair.first), measure(pair.second)
        known = np.isfinite(left) & np.isfinite(right)
        difference = (left - right)[known]
        interval = cluster_bootstrap(difference, pair.first.image[known])
        means = float(left[known].mean()), float(right[known].mean())
        excludes = "yes" if interval.excludes(0) else "no"
        rows.append([name, *means, *interval, excludes])
    names = ("", "A", "B", "A - B", "95 % low", "95 % high", "excludes 0")
    images = len(np.unique(pair.first.image))
    return Table(
        f"{split}: {len(pair.first):,} items of {images:,} images",
        tuple(Column(name) for name in names),
        rows,
    )


def task_table(pair: Pair, context: Context) -> Table:
    """Tasks whose loss differs most, both ways, among those with enough items."""
    evaluations = {
        step: (table.ids, table.task, ppl.item_nll(table.nll, table.mask))
        for step, table in enumerate(pair)
    }
    names = context["dataset"]["tasks"]
    matrix = continual.task_matrix(evaluations, len(names))
    tasks = np.flatnonzero(continual.eligible_tasks(matrix, context["min_task_items"]))
    difference = matrix.loss[:, 0] - matrix.loss[:, 1]
    ordered = tasks[np.argsort(difference[tasks], kind="stable")]
    ends = ordered if len(ordered) <= 2 * SHOWN else np.r_[ordered[:SHOWN], ordered[-SHOWN:]]
    rows: list[list[Cell]] = [
        [names[task], int(matrix.items[task]), *matrix.loss[task].tolist(), float(difference[task])]
        for task in ends.tolist()
    ]
    columns = (Column("task"), *(Column(name) for name in ("items", "A", "B", "A - B")))
    return Table("log-PPL of the tasks that differ most", columns, rows)


def flip_table(pair: Pair, context: Context) -> Table:
    """Items that one run fills in right and the other does not."""
    right = _right(pair.first), _right(pair.second)
    won, lost = np.flatnonzero(right[0] & ~right[1]), np.flatnonzero(~right[0] & right[1])
    rows = [
        [side, int(pair.first.ids[i]), *_texts(pair, i, context)]
        for side, items in (("A right", won[:SHOWN]), ("B right", lost[:SHOWN]))
        for i in items.tolist()
    ]
    counts = f"Only A is right on {len(won):,} items, only B on {len(lost):,}."
    columns = tuple(Column(name) for name in ("", "item", "truth", "A", "B"))
    return Table("flipped items", columns, rows, (counts,))


def _texts(pair: Pair, item: int, context: Context) -> list[Cell]:
    mask = pair.first.mask[item]
    spans: list[Int[np.ndarray, " m"]] = [
        pair.first.target[item, mask],
        pair.first.prediction[item, mask],
        pair.second.prediction[item, mask],
    ]
    return [words(span, context["tokens"]) for span in spans]


def _right(table: PredictionTable) -> np.ndarray:
    return np.all((table.prediction == table.target) | ~table.mask, axis=1)


def _last_table(path: str, split: str) -> PredictionTable:
    steps = saved_evaluations(path).get(split)
    if not steps:
        raise UserError(f"{path} holds no evaluation of split {split}: finish the run first")
    return as_table(read_records(record_path(path, split, steps[-1])))


def _shared_context(first: str, second: str) -> Context:
    for path in (first, second):
        if not Workdir(path).file("config.json").exists():
            raise UserError(f"{path} is no workdir of a run: it has no config.json")
    contexts = [read_context(path) for path in (first, second)]
    prints = [context["dataset"]["fingerprint"] for context in contexts]
    if prints[0] != prints[1]:
        raise UserError(
            f"{first} and {second} were run on different data (fingerprints {prints[0][:12]} and "
            f"{prints[1][:12]}) and cannot be compared item by item"
        )
    kinds = [context.get("kind", DEFAULT) for context in contexts]
    if kinds[0] != kinds[1]:
        raise UserError(
            f"{first} and {second} are runs of different kinds ({kinds[0]} and {kinds[1]}) and "
            "cannot be compared item by item: give two of one kind"
        )
    return contexts[0]


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        fail(error)
