"""What scores need besides the records: written once per run, so that a workdir explains itself.

`evals/context.json` holds facts about the data and the stream, none about the model. With it every
metric is recomputed from the workdir alone, without the prepared data set.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Int

from mmgen.core.workdir import Workdir
from mmgen.data.columns import Dataset, Split
from mmgen.errors import UserError
from mmgen.evaluation.predictions import FOLDER, target_spans
from mmgen.evaluation.schedule import stratified_subset
from mmgen.metrics import bleu, continual, ppl, unigram

Context = dict[str, Any]

NAME = f"{FOLDER}/context.json"

DENSITY_BINS = 100
"""Equal parts of the stream in which examples of each task and pair are counted, for figures."""

EXAMPLES = 40
"""Items whose captions are kept, so that a report can show predictions in place."""

INFO_KEYS = (
    "name",
    "fingerprint",
    "tasks",
    "pairs",
    "vocabulary",
    "world",
    "paper_size",
    "paper_scale",
)


def make_context(
    dataset: Dataset,
    stream_rows: Int[np.ndarray, " n"],
    *,
    batch_size: int,
    steps: Sequence[int],
    schedule: str,
    min_task_items: int,
    splits: Sequence[str],
    reference_rows: Int[np.ndarray, " n"] | None = None,
    metrics: str = "",
) -> Context:
    """The context of a run, as JSON-able values.

    Args:
      stream_rows: rows of the train split in the order in which the run reads them; entries below
        0 are padding.
      batch_size: stream examples of one iteration.
      steps: iterations that are evaluated.
      schedule: "even" or "paper", see `mmgen.evaluation.schedule`.
      min_task_items: tasks with fewer evaluated items are left out of forgetting.
      splits: splits for which the unigram baselines are computed; the first is the main one, to
        which the intermediate evaluations and forgetting belong.
      reference_rows: the stream that says when a task ends, if not the one that was read: an iid
        run is compared with the shifting stream of the same data, which it does not follow. A
        shifting run is measured by what it read: cut short, it has not shown the later tasks; over
        several passes, a task ends with its part of the last one.
      metrics: import paths of metrics of the user's own, separated by commas.
    """
    train = dataset.split("train")
    read = stream_rows[stream_rows >= 0]
    reference = read if reference_rows is None else reference_rows[reference_rows >= 0]
    num_tasks = len(dataset.info["tasks"])
    task = np.asarray(train.columns["task"])
    exposed = continual.exposure(task[reference], num_tasks, np.asarray(steps), batch_size)
    pair = np.asarray(train.columns["pair"])[read]
    num_pairs = len(dataset.info["pairs"])
    return {
        "dataset": {key: dataset.info.get(key) for key in INFO_KEYS}
        | {"splits": _split_facts(dataset.info["splits"])},
        "batch_size": batch_size,
        "steps": [int(step) for step in steps],
        "schedule": schedule,
        "min_task_items": min_task_items,
        "metrics": metrics,
        "main_split": splits[0],
        "task_items": np.bincount(
            dataset.split(splits[0]).columns["task"], minlength=num_tasks
        ).tolist(),
        "determiners": _ids(dataset, ppl.DETERMINERS),
        "exposure": {
            "size": exposed.size.tolist(),
            "end_example": exposed.end_example.tolist(),
            "seen": [[_number(v) for v in row] for row in exposed.seen.tolist()],
        },
        # The stream really trained on decides what counts as a seen composition.
        "pairs_in_stream": np.bincount(pair[pair >= 0], minlength=num_pairs).tolist(),
        "density": {
            "examples": len(read),
            "tasks": _density(task[read], num_tasks),
            "pairs": _density(pair, num_pairs),
        },
        "baselines": _baselines(dataset, train, np.unique(read), splits),
        "tokens": list(dataset.vocabulary.tokens),
        "examples": _examples(dataset.split(splits[0])),
    }


def main_split(context: Context) -> str:
    """The split of the intermediate evaluations, of forgetting and of the examples shown."""
    # Workdirs of before the key existed have evaluated nothing else.
    return context.get("main_split", "test")


def write_context(workdir: epath.PathLike, context: Context) -> None:
    """Write `evals/context.json` whole."""
    Workdir(workdir).write_text(NAME, json.dumps(context, allow_nan=False) + "\n")


def read_context(workdir: epath.PathLike) -> Context:
    """The context of a run.

    Raises:
      UserError: the workdir has none, or it is damaged.
    """
    return Workdir(workdir).read_json(NAME)


def exposure_of(context: Context, steps: Sequence[int]) -> continual.Exposure:
    """The exposure at `steps`, a subset of the steps that the context was made for.

    Raises:
      UserError: a step was not planned for evaluation.
    """
    facts, planned = context["exposure"], context["steps"]
    unknown = [step for step in steps if step not in planned]
    if unknown:
        raise UserError(
            f"{FOLDER} holds an evaluation of step {unknown[0]}, which {NAME} does not plan: "
            "remove that file"
        )
    seen = np.array(facts["seen"], dtype=np.float64).reshape(len(facts["size"]), len(planned))
    return continual.Exposure(
        np.array(facts["size"], dtype=np.int64),
        np.array(facts["end_example"], dtype=np.int64),
        seen[:, [planned.index(step) for step in steps]],
        context["batch_size"],
    )


def _baselines(
    dataset: Dataset, train: Split, rows: np.ndarray, splits: Sequence[str]
) -> dict[str, float]:
    """Scores of the unigram baselines: `SPLIT/{unigram,span_unigram}/{log_ppl,bleu1,bleu2}`."""
    model = unigram.fit_span_unigram(*target_spans(train, rows), dataset.vocabulary.rows)
    scores = {}
    for name in splits:
        split = dataset.split(name)
        target, mask = target_spans(split, np.arange(len(split)))
        length = mask.sum(axis=1)
        for baseline, nll, prediction in (
            (
                "unigram",
                unigram.unigram_nll(model, target),
                unigram.unigram_prediction(model, mask),
            ),
            (
                "span_unigram",
                unigram.span_unigram_nll(model, target, mask),
                unigram.span_unigram_prediction(model, mask),
            ),
        ):
            key = f"{name}/{baseline}"
            scores[f"{key}/log_ppl"] = ppl.log_perplexity(nll, mask).value
            bleus = bleu.sentence_bleu(prediction, target, length, length)
            scores[f"{key}/bleu1"], scores[f"{key}/bleu2"] = bleus.mean(axis=0).tolist()
    return scores


def _examples(split: Split) -> list[dict[str, Any]]:
    """Captions of some items of the main split, for showing predictions in place."""
    rows = stratified_subset(np.asarray(split.columns["task"]), EXAMPLES, seed=0)
    return [
        {
            "id": row,
            "caption": split.tokens(row).tolist(),
            "span": split.columns["span"][row].tolist(),
        }
        for row in rows.tolist()
    ]


def _density(label: np.ndarray, classes: int) -> list[list[int]]:
    """Examples of each class in each of `DENSITY_BINS` parts; labels below 0 are no class."""
    part = np.arange(len(label)) * DENSITY_BINS // max(len(label), 1)
    flat = label[label >= 0] * DENSITY_BINS + part[label >= 0]
    count = np.bincount(flat, minlength=classes * DENSITY_BINS)
    return count.reshape(classes, DENSITY_BINS).tolist()


def _split_facts(splits: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Counts of every split, without the checksums."""
    return {
        name: {key: value for key, value in facts.items() if key != "sha256"}
        for name, facts in splits.items()
    }


def _ids(dataset: Dataset, words: Sequence[str]) -> list[int]:
    vocabulary = dataset.vocabulary
    return [vocabulary.id_of(word) for word in words if word in vocabulary]


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
