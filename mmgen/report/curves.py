"""Numbers behind the figures: losses of tasks and of compositions over time, read from records."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmgen.evaluation.context import Context, read_context
from mmgen.evaluation.predictions import PredictionTable
from mmgen.evaluation.scores import checkpoint_tables, item_weights, matrix_of, task_items
from mmgen.metrics import compositional, ppl
from mmgen.report.aggregate import Group, Run


class Curves(NamedTuple):
    """Losses of one experiment at its checkpoints, mean over its runs.

    Attributes:
      label: the experiment.
      examples: stream examples seen at each checkpoint.
      loss: float64[k, c], one row per task or composition, NaN where there is none.
      spread: standard error over runs, NaN for a single one.
    """

    label: str
    examples: Int[np.ndarray, " c"]
    loss: Float[np.ndarray, "k c"]
    spread: Float[np.ndarray, "k c"]


def task_curves(group: Group) -> Curves | None:
    """Loss of every task over time; None with fewer than two checkpoints."""
    return _over_runs(group, lambda tables, context: matrix_of(tables, context).loss)


def mean_curves(group: Group) -> Curves | None:
    """Item-weighted log-PPL over time, one row, estimated from the items all checkpoints share."""

    def losses(tables: dict[int, PredictionTable], context: Context) -> np.ndarray:
        kept = _shared(tables)
        weight = item_weights(kept[0], task_items(tables, context))
        return np.array([[ppl.log_perplexity(t.nll, t.mask, weight).value for t in kept]])

    return _over_runs(group, losses)


def pair_curves(group: Group) -> Curves | None:
    """Loss at the adjective or verb of every composition over time, one row per pair."""

    def losses(tables: dict[int, PredictionTable], context: Context) -> np.ndarray:
        kept = _shared(tables)
        values = np.full((len(context["dataset"]["pairs"]), len(kept)), np.nan)
        for column, table in enumerate(kept):
            use = np.all(np.isfinite(table.pair_nll), axis=1)
            scores = compositional.pair_scores(table.pair, table.pair_nll[:, 0], use)
            values[scores.pair, column] = scores.loss
        return values

    return _over_runs(group, losses)


def density(run: Run, what: str) -> Float[np.ndarray, "k bins"]:
    """Share of each part of the stream that belongs to each of the "tasks" or "pairs"."""
    facts = read_context(run.path)["density"]
    count = np.array(facts[what], dtype=np.float64)
    examples = np.array(facts["tasks"], dtype=np.float64).sum(axis=0)
    return count.reshape(-1, len(examples)) / np.maximum(examples, 1)


def items_per_pair(run: Run) -> Int[np.ndarray, " pairs"]:
    """Evaluated items of every composition at the checkpoints."""
    context = read_context(run.path)
    kept = _shared(checkpoint_tables(run.path, context))
    use = np.all(np.isfinite(kept[-1].pair_nll), axis=1) & (kept[-1].pair >= 0)
    return np.bincount(kept[-1].pair[use], minlength=len(context["dataset"]["pairs"]))


def items_per_task(run: Run) -> Int[np.ndarray, " tasks"]:
    """Evaluated items of every task at the checkpoints."""
    context = read_context(run.path)
    return matrix_of(checkpoint_tables(run.path, context), context).items


def _over_runs(group: Group, losses) -> Curves | None:
    values = []
    examples = None
    for run in group.runs:
        context = read_context(run.path)
        tables = checkpoint_tables(run.path, context)
        here = np.array(sorted(tables)) * context["batch_size"]
        if len(tables) < 2 or (examples is not None and len(here) != len(examples)):
            continue
        examples = here
        values.append(losses(tables, context))
    if examples is None:
        return None
    stacked = np.stack(values)
    spread = np.full(stacked.shape[1:], np.nan)
    if len(values) > 1:
        spread = np.std(stacked, axis=0, ddof=1) / np.sqrt(len(values))
    return Curves(group.label, examples, stacked.mean(axis=0), spread)


def _shared(tables: dict[int, PredictionTable]) -> list[PredictionTable]:
    """Tables by step, each reduced to the items that all of them hold."""
    ordered = [tables[step] for step in sorted(tables)]
    common = ordered[0].ids
    for table in ordered[1:]:
        common = np.intersect1d(common, table.ids)
    return [table.select(np.isin(table.ids, common)) for table in ordered]
