"""From records to named metrics: one flat dict of floats, and the one place that names them.

Keys are `SPLIT/METRIC` or `GROUP/KIND/METRIC`; a metric that is undefined is absent, never zero.

  SPLIT/ (test, novel, validation), and MAIN_subset/ of the intermediate evaluations, whose items
  are weighted so that every task counts as in the whole split
    n                       items
    log_ppl                 item-weighted log-perplexity, nats (the paper's)
    log_ppl_token           token-weighted
    log_ppl_no_determiners  item-weighted over the span's other tokens
    determiner_share        share of masked tokens that are determiners
    accuracy_token          share of masked tokens predicted right
    bleu1, bleu2            mean sentence BLEU of the COCO caption toolkit, in [0, 1]
    bleu2_ceiling           BLEU-2 of a perfect model
    sacrebleu1, sacrebleu2  sacrebleu's sentence BLEU, final evaluations only
    optimum, optimum_text_only, gap   built-in worlds: exact optima, and log_ppl - optimum
    unigram/..., span_unigram/...     fitted on the training stream: log_ppl, bleu1, bleu2
    whatever the functions of config.metrics give
  seen/KIND/, novel/KIND/   KIND is adjective or verb; seen pairs come from the test split
    log_ppl_pair            loss at the two atom tokens, per pair, then over pairs (the paper's)
    log_ppl_pair_low, _high 95 % bootstrap interval over pairs
    log_ppl_pair_micro      mean over items (the released code's)
    log_ppl_atom, log_ppl_atom_micro, log_ppl_noun   the adjective or verb alone, the noun alone
    memoriser, composer     oracles of the built-in worlds, over the same pairs
    pairs, items, pairs_few pairs, their items, pairs with fewer than 5
  composition_gap/KIND/log_ppl_pair, log_ppl_atom    novel minus seen
  forgetting/best, seen98, seen98_frequency, as_released; tasks, tasks_excluded
  continual/average, bwt, fwt; bwt_tasks, fwt_tasks
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Bool, Float, Int

from mmgen.data.streams import FLICKR_SIZE
from mmgen.errors import UserError
from mmgen.evaluation.context import NAME, Context, exposure_of, main_split
from mmgen.evaluation.own_metrics import own_metrics
from mmgen.evaluation.predictions import (
    PredictionTable,
    as_table,
    read_records,
    record_path,
    saved_evaluations,
)
from mmgen.metrics import bleu, compositional, continual, ppl
from mmgen.metrics.mean import masked_mean

Scores = dict[str, float]

SUBSET = "_subset"
"""What follows the main split's name where its intermediate evaluations are saved."""

KINDS = ("adjective", "verb")


def score_split(
    table: PredictionTable, name: str, context: Context, *, final: bool = True
) -> Scores:
    """Metrics of one evaluated split under `name/`, with the compositions if it is the final one.

    Args:
      final: also compute what is too slow or too noisy for an intermediate evaluation: sacrebleu's
        BLEU and the compositions.
    """
    length = table.mask.sum(axis=1)
    spans = (table.prediction, table.target, length, length)
    content = ppl.mask_without(table.target, table.mask, context["determiners"])
    weight = None
    if name.endswith(SUBSET):
        weight = item_weights(table, task_items({0: table}, context))
    log_ppl = ppl.log_perplexity(table.nll, table.mask, weight).value
    bleus = np.average(bleu.sentence_bleu(*spans), axis=0, weights=weight)
    scores = {
        "n": float(len(table)),
        "log_ppl": log_ppl,
        "log_ppl_token": ppl.token_log_perplexity(table.nll, table.mask, weight).value,
        "log_ppl_no_determiners": ppl.log_perplexity(table.nll, content, weight).value,
        "determiner_share": 1 - masked_mean(content.astype(float), table.mask, weight).value,
        "accuracy_token": ppl.token_accuracy(
            table.prediction, table.target, table.mask, weight
        ).value,
        "bleu1": bleus[0],
        "bleu2": bleus[1],
        "bleu2_ceiling": np.average(bleu.bleu_ceiling(length), weights=weight),
    }
    if final:
        scores["sacrebleu1"], scores["sacrebleu2"] = bleu.sacrebleu_sentence(*spans).mean(axis=0)
    for column in ("optimum", "optimum_text_only"):
        if column in table.floats:
            scores[column] = float(np.average(table.floats[column], weights=weight))
    if "optimum" in scores:
        scores["gap"] = log_ppl - scores["optimum"]
    for measure in own_metrics(context.get("metrics", "")):
        scores |= measure(table, context)
    baselines = context["baselines"] if final else {}
    named = {f"{name}/{key}": value for key, value in scores.items()}
    named |= {key: value for key, value in baselines.items() if key.startswith(f"{name}/")}
    if final and name in ("test", "novel"):
        named |= score_compositions(table, name == "novel", context)
    return _defined(named)


def score_compositions(table: PredictionTable, novel: bool, context: Context) -> Scores:
    """Novel compositions of the novel split, or seen ones of the test split, by kind of atom."""
    group = "novel" if novel else "seen"
    scores: Scores = {}
    for kind in KINDS:
        use = composition_items(table, kind, novel, context)
        if not use.any():
            continue
        both = compositional.pair_scores(table.pair, table.pair_nll.mean(axis=1), use)
        atom = compositional.pair_scores(table.pair, table.pair_nll[:, 0], use)
        noun = compositional.pair_scores(table.pair, table.pair_nll[:, 1], use)
        interval = compositional.pair_interval(both)
        values = {
            "log_ppl_pair": interval.mean,
            "log_ppl_pair_low": interval.low,
            "log_ppl_pair_high": interval.high,
            "log_ppl_pair_micro": compositional.micro_mean(both).value,
            "log_ppl_atom": compositional.mean_over_pairs(atom).value,
            "log_ppl_atom_micro": compositional.micro_mean(atom).value,
            "log_ppl_noun": compositional.mean_over_pairs(noun).value,
            "pairs": float(len(both.pair)),
            "items": float(both.items.sum()),
            "pairs_few": float(np.sum(both.items < compositional.FEW_ITEMS)),
        }
        for oracle in ("memoriser", "composer"):
            if oracle in table.floats:
                per_pair = compositional.pair_scores(table.pair, table.floats[oracle], use)
                values[oracle] = compositional.mean_over_pairs(per_pair).value
        scores |= {f"{group}/{kind}/{key}": value for key, value in values.items()}
    return _defined(scores)


def composition_items(
    table: PredictionTable, kind: str, novel: bool, context: Context
) -> Bool[np.ndarray, " n"]:
    """Items that count for a group: pairs of that kind, held out or trained on in this very run.

    A held-out pair that the training stream shows after all is not novel, and a pair that it never
    shows is not seen; both are left out.
    """
    pairs = context["dataset"]["pairs"]
    in_stream = np.asarray(context["pairs_in_stream"], dtype=np.int64)
    allowed = [
        index
        for index, pair in enumerate(pairs)
        if pair["kind"] == kind and bool(pair["novel"]) == novel and (in_stream[index] > 0) != novel
    ]
    return np.isin(table.pair, allowed) & np.all(np.isfinite(table.pair_nll), axis=1)


def matrix_of(evaluations: Mapping[int, PredictionTable], context: Context) -> continual.TaskMatrix:
    """The task x checkpoint matrix over the items that all `evaluations` (by step) share."""
    return continual.task_matrix(
        {
            step: (table.ids, table.task, ppl.item_nll(table.nll, table.mask))
            for step, table in evaluations.items()
        },
        len(context["dataset"]["tasks"]),
    )


def task_items(
    evaluations: Mapping[int, PredictionTable], context: Context
) -> Int[np.ndarray, " k"]:
    """Items of each task in the whole main split, by which frequencies are weighted.

    Args:
      evaluations: of that split or its subset, by step; those of the whole split count the items
        where the context, of before it held their numbers, does not.

    Raises:
      UserError: neither knows them.
    """
    if "task_items" in context:
        return np.asarray(context["task_items"], dtype=np.int64)
    facts = context["dataset"]
    largest = max(evaluations.values(), key=len)
    if len(largest) < facts["splits"][main_split(context)]["examples"]:
        raise UserError(
            f"{NAME} is of an earlier version, without the items of each task, and no evaluation "
            f"of the whole {main_split(context)} split is there to count them: continue the run, "
            "which writes both"
        )
    return np.bincount(largest.task, minlength=len(facts["tasks"]))


def item_weights(table: PredictionTable, whole: Int[np.ndarray, " k"]) -> Float[np.ndarray, " n"]:
    """How many items of the whole split each item of its stratified subset stands for.

    Rare tasks have a larger share of the subset than of the split: their forgetting is measured.
    """
    return whole[table.task] / np.bincount(table.task, minlength=len(whole))[table.task]


def score_forgetting(evaluations: Mapping[int, PredictionTable], context: Context) -> Scores:
    """Forgetting under its three names, average and transfer; empty with a single evaluation."""
    if len(evaluations) < 2:
        return {}
    matrix = matrix_of(evaluations, context)
    exposed = exposure_of(context, matrix.steps.tolist())
    tasks = continual.eligible_tasks(matrix, context["min_task_items"])
    best = continual.forgetting_best(matrix, tasks)
    weights = task_items(evaluations, context).astype(np.float64)
    # A model that knows nothing spreads its probability over every row of the table.
    ignorance = np.full(len(tasks), math.log(context["dataset"]["vocabulary"]["rows"]))
    backward = continual.backward_transfer(matrix, exposed, tasks)
    forward = continual.forward_transfer(matrix, exposed, tasks, ignorance)
    skip_first = context["schedule"] == "paper"
    released = continual.forgetting_as_released(matrix, exposed, tasks, weights, skip_first)
    if context["dataset"]["paper_size"] == FLICKR_SIZE:
        # The released records of Flickr-shift carry no task; its code stops there.
        released = continual.TaskMean(math.nan, 0)
    return _defined(
        {
            "forgetting/best": best.value,
            "forgetting/seen98": continual.forgetting_seen98(matrix, exposed, tasks).value,
            "forgetting/seen98_frequency": continual.forgetting_seen98(
                matrix, exposed, tasks, weights
            ).value,
            "forgetting/as_released": released.value,
            "forgetting/tasks": float(best.tasks),
            "forgetting/tasks_excluded": float(np.sum((matrix.items > 0) & ~tasks)),
            "continual/average": continual.average_loss(matrix, tasks).value,
            "continual/bwt": backward.value,
            "continual/bwt_tasks": float(backward.tasks),
            "continual/fwt": forward.value,
            "continual/fwt_tasks": float(forward.tasks),
        }
    )


def load_evaluations(workdir: epath.PathLike, split: str) -> dict[int, PredictionTable]:
    """Saved evaluations of `split` by step."""
    steps = saved_evaluations(workdir).get(split, [])
    return {step: as_table(read_records(record_path(workdir, split, step))) for step in steps}


def checkpoint_tables(workdir: epath.PathLike, context: Context) -> dict[int, PredictionTable]:
    """Evaluations for the matrix, by step: the subset's, and the whole main split's where saved.

    The matrix keeps the items that all of them share, so the final evaluation need not be saved
    twice. One of a step that the run does not plan, which `mmgen.evaluate --from-checkpoint` makes,
    is no part of it.
    """
    main = main_split(context)
    found = load_evaluations(workdir, main + SUBSET) | load_evaluations(workdir, main)
    return {step: table for step, table in found.items() if step in context["steps"]}


def score_run(workdir: epath.PathLike, context: Context) -> Scores:
    """Every metric of a run from its saved records; the last evaluation of each split counts.

    Raises:
      UserError: nothing has been evaluated yet.
    """
    saved = saved_evaluations(workdir)
    splits = [name for name in saved if not name.endswith(SUBSET)] or list(saved)
    if not splits:
        raise UserError(f"{workdir} holds no evaluation: train first, or use --from-checkpoint")
    scores: Scores = {}
    for name in splits:
        step = saved[name][-1]
        table = as_table(read_records(record_path(workdir, name, step)))
        scores |= score_split(table, name, context)
    scores |= score_forgetting(checkpoint_tables(workdir, context), context)
    return scores | composition_gaps(scores)


def composition_gaps(scores: Scores) -> Scores:
    """Novel minus seen, where both are there."""
    return {
        f"composition_gap/{kind}/{metric}": scores[f"novel/{kind}/{metric}"]
        - scores[f"seen/{kind}/{metric}"]
        for kind in KINDS
        for metric in ("log_ppl_pair", "log_ppl_atom")
        if f"novel/{kind}/{metric}" in scores and f"seen/{kind}/{metric}" in scores
    }


def _defined(scores: Mapping[str, Any]) -> Scores:
    """Plain floats without NaN: undefined is absent."""
    return {key: float(value) for key, value in scores.items() if math.isfinite(value)}
