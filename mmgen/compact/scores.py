"""From records to named metrics of CompAct: one flat dict of floats, and the place that names them.

Keys are `SPLIT/METRIC`; a metric that is undefined is absent, never zero. Scores are shares in
[0, 1]. With * also METRIC_low and METRIC_high: the 95 % interval of a bootstrap over videos.

  n, videos               items, and the videos they are from
  em*                     exact matches of the whole text; plain texts are compared, so that both
                          forms score alike
  ca*                     categorical accuracy: verb and noun are of the target's classes; of the
                          tasks verb and noun that atom alone
  verb_ca, noun_ca        task utterance: one of them
  bleu1_joined*, bleu1_plain*           task utterance: unigram BLEU by torchtext's definition, with
                          words of several parts as one token, and apart
  sacrebleu1_joined, sacrebleu1_plain   sacrebleu's
  unparsable              task utterance: predictions without a verb or a noun, wrong for CA
  gold_ca                 CA of the targets themselves as predictions: what parser or labels reach
  gold_bleu1_joined       plain answers: bleu1_joined of the targets themselves, written plainly
  unseen_label            tasks verb and noun: targets that are no label of train, hence wrong in EM
                          and CA for whoever answers with labels
  nll, nll_token          nats of the target, per item and per predicted token
  bertscore_NAME          BERTScore F1 of the plain texts, where the context names an encoder
  seen/, unseen/          the same of targets whose compound is, or is not, one of train
  failure/...             Table 15, see `mmgen.compact.failures`
  baseline/NAME/...       predictions without a model for the same items, see
                          `mmgen.compact.baselines`
  optimum_..., memoriser_...    what else the records of a built-in world hold, mean over items
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from mmgen.compact.baselines import COPIES
from mmgen.compact.failures import failure_ratios
from mmgen.compact.judging import Judge, Judged, Pairs
from mmgen.compact.records import CURVE, read_evaluation, world_scores
from mmgen.errors import UserError
from mmgen.evaluation.context import Context
from mmgen.evaluation.predictions import Record, saved_evaluations
from mmgen.metrics import corpus_bleu
from mmgen.metrics.bertscore import open_scorer
from mmgen.metrics.stats import Interval, bootstrap_sums, cluster_bootstrap

Scores = dict[str, float]


def score_records(
    records: Sequence[Record],
    context: Context,
    split: str,
    *,
    final: bool = True,
    judge: Judge | None = None,
) -> Scores:
    """Metrics of the records of a split under `SPLIT/`.

    Args:
      context: see `mmgen.compact.context`.
      final: False leaves out what is too slow or too noisy for an evaluation during training:
        intervals, sacrebleu's BLEU, BERTScore, seen and unseen apart, failures, baselines.
      judge: that of the context, where it has been made before.
    """
    judge = judge or Judge(context)
    judged = judge(records)
    scores = quality(judged, final) | _losses(records)
    if context["task"] == "utterance":
        scores["unparsable"] = float(np.mean([not found.complete for found in judged.found]))
    else:
        unknown = [record["target"] not in context["labels"] for record in records]
        scores["unseen_label"] = float(np.mean(unknown))
    if final:
        gold = judge.gold(records)
        scores["gold_ca"] = float(np.mean(gold.ca))
        if context["form"] == "plain":
            scores["gold_bleu1_joined"] = quality(gold, False)["bleu1_joined"]
        scores |= _bertscore(judged.plain, context["bertscore"])
        scores |= _seen_and_unseen(records, judged)
        if context["task"] == "utterance":
            scores |= failure_ratios(records, judged, context, split)
        scores |= _baselines(records, context, split, judge)
    return {f"{split}/{key}": value for key, value in scores.items() if math.isfinite(value)}


def score_run(workdir: epath.PathLike, context: Context) -> Scores:
    """Every metric of a run from its saved records; the last evaluation of each split counts.

    Raises:
      UserError: nothing has been evaluated yet, or records are damaged or incomplete.
    """
    saved = saved_evaluations(workdir)
    splits = [name for name in saved if not name.endswith(CURVE)]
    if not splits:
        raise UserError(f"{workdir} holds no evaluation: train first, or use --from-checkpoint")
    scores: Scores = {}
    judge = Judge(context)
    for name in splits:
        records = read_evaluation(workdir, name, saved[name][-1], context)
        scores |= score_records(records, context, name, judge=judge)
    return scores


def quality(judged: Judged, intervals: bool) -> Scores:
    """EM, CA and, of utterances, BLEU; with intervals over videos if asked for."""
    scores: Scores = {"n": float(len(judged)), "videos": float(len(np.unique(judged.video)))}
    for name, right in (("em", judged.em), ("ca", judged.ca)):
        scores |= _mean(name, right.astype(np.float64), judged, intervals)
    if judged.is_utterance:
        scores["verb_ca"], scores["noun_ca"] = float(judged.verb.mean()), float(judged.noun.mean())
        for form, texts in (("joined", judged.joined), ("plain", judged.plain)):
            scores |= _bleu(form, texts, judged, intervals)
    return scores


def _mean(name: str, values: np.ndarray, judged: Judged, interval: bool) -> Scores:
    if not interval:
        return {name: float(values.mean())}
    return _with_ends(name, cluster_bootstrap(values, judged.video))


def _bleu(form: str, texts: Pairs, judged: Judged, interval: bool) -> Scores:
    words = [(ours.split(), true.split()) for ours, true in texts]
    counts = corpus_bleu.unigram_counts(*zip(*words, strict=True))
    name = f"bleu1_{form}"
    if not interval:
        return {name: corpus_bleu.bleu1(counts.sum(axis=0))}
    found = bootstrap_sums(counts.astype(np.float64), judged.video, corpus_bleu.bleu1)
    sacrebleu = corpus_bleu.sacrebleu1([ours for ours, _ in texts], [true for _, true in texts])
    return _with_ends(name, found) | {f"sacrebleu1_{form}": sacrebleu}


def _with_ends(name: str, interval: Interval) -> Scores:
    return {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _bertscore(texts: Pairs, facts: Mapping[str, Any] | None) -> Scores:
    if facts is None:
        return {}
    found = open_scorer(facts)(*zip(*texts, strict=True))
    return {facts["name"]: float(found.f1.mean())}


def _baselines(records: Sequence[Record], context: Context, split: str, judge: Judge) -> Scores:
    scores: Scores = {}
    for name, texts in context["baselines"].get(split, {}).items():
        # Workdirs of before the texts were kept have the scores themselves.
        found = texts if isinstance(texts, Mapping) else None
        if found is None:
            answers = [texts[record["id"]] for record in records]
            judged = judge.of_baseline(records, answers, copies=name in COPIES)
            found = quality(judged, False) | _bertscore(judged.plain, context["bertscore"])
        scores |= {f"baseline/{name}/{key}": value for key, value in found.items()}
    return scores


def _losses(records: Sequence[Record]) -> Scores:
    """Mean nll, where there is one, and means of what a built-in world knows of its items."""
    known = [(record["nll"], record["tokens"]) for record in records if record["nll"] is not None]
    scores: Scores = {}
    if known:
        nll, tokens = np.array(known, np.float64).T
        scores = {"nll": float(nll.mean()), "nll_token": float(nll.sum() / tokens.sum())}
    for name, values in world_scores(records).items():
        if np.isfinite(values).any():
            scores[name] = float(np.nanmean(values))
    return scores


def _seen_and_unseen(records: Sequence[Record], judged: Judged) -> Scores:
    unseen = np.array([record["unseen"] for record in records], bool)
    scores: Scores = {}
    for name, part in (("seen", ~unseen), ("unseen", unseen)):
        if part.any():
            chosen = [records[row] for row in np.flatnonzero(part).tolist()]
            found = quality(judged.select(part), True) | _losses(chosen)
            scores |= {f"{name}/{key}": value for key, value in found.items()}
    return scores
