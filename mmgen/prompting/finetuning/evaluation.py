"""Held-out prompts under the adapters as they are: likelihood of the caption, and what is written.

One record per prompt and evaluation, `evals/heldout/<step>.jsonl`; step 0 is the untuned model.
Every score is computed from the records alone.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from mmgen.core.workdir import Workdir
from mmgen.data.schema import IGNORE_ID
from mmgen.errors import UserError
from mmgen.prompting.estimates import as_metrics, estimate, paired_difference
from mmgen.prompting.finetuning.baselines import Caption, copy_nearest, judge_words, substitute
from mmgen.prompting.finetuning.examples import Example
from mmgen.prompting.finetuning.packing import Encoded, Shape, pack
from mmgen.prompting.requests import Answer, Backend
from mmgen.report.tables import Cell, Column, Table

Record = dict[str, Any]

BASELINES = {"copy_nearest": copy_nearest, "substitute": substitute}


def record_name(step: int) -> str:
    """Where the records of an evaluation lie in a workdir."""
    return f"evals/heldout/{step}.jsonl"


def heldout_nll(nll: Any, encoded: Sequence[Encoded], shape: Shape, rows: int) -> Iterator[float]:
    """Mean negative log-likelihood per answer token, example by example, `rows` at once.

    Args:
      nll: `(batch) -> float32[b, m]`.
    """
    for start in range(0, len(encoded), rows):
        here = list(range(start, min(start + rows, len(encoded))))
        batch = pack(encoded, here + [IGNORE_ID] * (rows - len(here)), shape)
        values = np.asarray(jax.device_get(nll(batch)))
        for place, row in enumerate(here):
            yield float(values[place].sum()) / encoded[row].answer_length


def written_answers(backend: Backend, examples: Sequence[Example]) -> list[Answer]:
    """What the model writes to every prompt, in their order."""
    answers = dict(backend.answer([example.request for example in examples]))
    return [answers[place] for place in range(len(examples))]


def make_records(
    examples: Sequence[Example],
    nll: Sequence[float],
    answers: Sequence[Answer] | None,
    caption: Caption,
) -> list[Record]:
    """One record per held-out prompt; without `answers` of the likelihood alone."""
    records = []
    for place, (example, value) in enumerate(zip(examples, nll, strict=True)):
        sample = example.sample
        record: Record = {
            "id": place,
            "item": example.request.item,
            "task": sample.task.name,
            "given": sample.task.given,
            # As in `cobsat.scoring.clusters`: all tasks share the records.
            "cluster": f"{sample.query}/{sample.latent}",
            "target": example.answer,
            "nll": round(value, 6),
        }
        if answers is not None:
            answer = answers[place]
            record |= {"prediction": answer.text, "error": answer.error}
            record |= _judged("", sample, answer.text)
        for name, baseline in BASELINES.items():
            record |= _judged(f"{name}_", sample, baseline(sample, caption))
        records.append(record)
    return records


def _judged(prefix: str, sample: Any, text: str | None) -> dict[str, bool]:
    attribute, thing = judge_words(sample, text)
    return {f"{prefix}attribute": attribute, f"{prefix}object": thing}


def write_records(workdir: Workdir, step: int, records: Sequence[Record]) -> None:
    """Write the records of an evaluation, whole."""
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    workdir.write_lines(record_name(step), lines)


def read_records(workdir: Workdir, step: int) -> list[Record]:
    """The records of an evaluation; UserError if they are missing or damaged."""
    path = workdir.file(record_name(step))
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); restore it, or train in another --workdir."
        ) from None


def score(records: Sequence[Record]) -> dict[str, float]:
    """Metrics of one evaluation: likelihood, and of what was written the words it names."""
    mean = float(np.mean([record["nll"] for record in records]))
    metrics = {"heldout/nll": mean, "heldout/perplexity": math.exp(min(mean, 100.0))}
    if "prediction" not in records[0]:
        return metrics
    clusters = np.array([record["cluster"] for record in records])
    for system in ("", *(f"{name}_" for name in BASELINES)):
        name = f"heldout/{system}"
        metrics |= as_metrics(f"{name}accuracy", estimate(_right(records, system), clusters))
        for kind in ("attribute", "object"):
            metrics[f"{name}{kind}"] = float(np.mean([r[f"{system}{kind}"] for r in records]))
    return metrics | {
        "heldout/given": float(np.mean([r[r["given"]] for r in records])),
        "heldout/latent": float(np.mean([r[_latent(r)] for r in records])),
        "heldout/errors": sum(record["error"] is not None for record in records),
    }


def compare(tuned: Sequence[Record], untuned: Sequence[Record]) -> dict[str, float]:
    """Paired differences in accuracy: to the untuned model and to the baselines."""
    clusters = np.array([record["cluster"] for record in tuned])
    ours = _right(tuned, "")
    others = {"untuned": _right(untuned, "")}
    others |= {name: _right(tuned, f"{name}_") for name in BASELINES}
    return {
        key: value
        for name, theirs in others.items()
        for key, value in as_metrics(
            f"gain_over_{name}", paired_difference(ours, theirs, clusters)
        ).items()
    }


def tables(tuned: Sequence[Record], untuned: Sequence[Record]) -> list[Table]:
    """Systems beside each other over all prompts; and per task, in the order of the paper."""
    clusters = np.array([record["cluster"] for record in tuned])
    systems = [("tuned", tuned, ""), ("untuned", untuned, "")]
    systems += [(f"{name} (baseline)", tuned, f"{name}_") for name in BASELINES]
    rows: list[list[Cell]] = [
        [
            name,
            estimate(_right(records, system), clusters).shown,
            float(np.mean([r[f"{system}attribute"] for r in records])),
            float(np.mean([r[f"{system}object"] for r in records])),
            None if system else float(np.mean([r["nll"] for r in records])),
        ]
        for name, records, system in systems
    ]
    heads = ("system", "accuracy", "attribute", "object", "nll per token")
    tasks = list(dict.fromkeys(record["task"] for record in tuned))
    by_task: list[list[Cell]] = [
        [
            name,
            *(
                float(_right([r for r in records if r["task"] == task], system).mean())
                for task in tasks
            ),
        ]
        for name, records, system in systems
    ]
    count = len(BASELINES)
    return [
        Table("held-out prompts", tuple(map(Column, heads)), rows, unranked=count),
        Table(
            "accuracy by task",
            tuple(map(Column, ("system", *tasks))),
            by_task,
            notes=(
                "Right is a text that names the right word of both lists and no other of them.",
            ),
            unranked=count,
        ),
    ]


def _right(records: Sequence[Mapping[str, Any]], system: str) -> np.ndarray:
    return np.array([r[f"{system}attribute"] and r[f"{system}object"] for r in records], float)


def _latent(record: Mapping[str, Any]) -> str:
    return "object" if record["given"] == "attribute" else "attribute"
