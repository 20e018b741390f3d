"""Records of CompAct: one JSON line per evaluated window, from which every metric is computed.

    {"id": row in the split, "video": video id, "clip": narration id of the target,
     "inputs": [three joined narrations], "target": joined text, "prediction": text,
     "nll": nats, summed over the target's tokens, 6 decimals, or null, "tokens": int,
     "verb", "noun": the target's, joined, "verb_class", "noun_class": int,
     "unseen": is the target's compound no target of train?}

What follows these fields are exact or oracle scores of the item, which built-in worlds know.
Files are written and read by `mmgen.evaluation.predictions`: `evals/SPLIT/STEP.jsonl`. A prediction
is in the form ("joined" or "plain") that the run's context names; all other texts are joined.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.data.compact.samples import Instance
from mmgen.data.compact.windows import TARGET
from mmgen.errors import Diverged
from mmgen.evaluation.predictions import Record

TASKS = {"utterance": "trg", "verb": "trgverb", "noun": "trgnoun"}
"""Task -> field of an instance with its target."""

FIELDS = (
    "id",
    "video",
    "clip",
    "inputs",
    "target",
    "prediction",
    "nll",
    "tokens",
    "verb",
    "noun",
    "verb_class",
    "noun_class",
    "unseen",
)

CURVE = "_curve"
"""What follows a split's name where its evaluations during training are saved (Fig. 9)."""


def make_records(
    instances: Sequence[Instance],
    unseen: Bool[np.ndarray, " n"],
    task: str,
    rows: Int[np.ndarray, " b"],
    predictions: Sequence[str],
    nll: Float[np.ndarray, " b"] | None = None,
    tokens: Int[np.ndarray, " b"] | None = None,
    extra: Mapping[str, Float[np.ndarray, " n"]] | None = None,
) -> list[Record]:
    """Records of some rows of a split.

    Args:
      instances: the whole split.
      unseen: `CompactDataset.unseen` of the split.
      task: one of `TASKS`.
      rows: the rows that were predicted; no padding.
      predictions: a text for each of them.
      nll: negative log-likelihood of each target, nats; None where there is none (prompting).
      tokens: predicted tokens behind each nll; the words of the target if None.
      extra: name -> value of every row of the split, NaN for unknown.

    Raises:
      Diverged: a loss is not finite.
    """
    losses = [None] * len(rows) if nll is None else np.asarray(nll, np.float64).tolist()
    if nll is not None and not np.all(np.isfinite(nll)):
        bad = np.asarray(rows)[~np.isfinite(nll)][:5].tolist()
        raise Diverged(
            f"the model's loss is not finite on rows {bad}: lower optimizer.learning_rate or start "
            "again from an earlier checkpoint"
        )
    records = []
    for place, (row, prediction) in enumerate(zip(rows.tolist(), predictions, strict=True)):
        one = instances[row]
        target = one[TASKS[task]]
        loss = losses[place]
        records.append(
            {
                "id": row,
                "video": one["video_id"],
                "clip": one["narration_ids"][TARGET],
                "inputs": [one[f"src{number}"] for number in range(1, TARGET + 1)],
                "target": target,
                "prediction": prediction,
                "nll": None if loss is None else round(loss, 6),
                "tokens": len(target.split()) if tokens is None else int(tokens[place]),
                "verb": one["trgverb"],
                "noun": one["trgnoun"],
                "verb_class": one["verb_classes"][TARGET],
                "noun_class": one["noun_classes"][TARGET],
                "unseen": bool(unseen[row]),
                **{name: _number(values[row]) for name, values in (extra or {}).items()},
            }
        )
    return records


def world_scores(records: Sequence[Record]) -> dict[str, Float[np.ndarray, " n"]]:
    """Name -> values of what built-in worlds know of the items, NaN for unknown."""
    names = dict.fromkeys(name for record in records for name in record if name not in FIELDS)
    return {name: np.array([record.get(name) for record in records], np.float64) for name in names}


def _number(value: float) -> float | None:
    """A float with 6 decimals; NaN becomes None (JSON has no NaN)."""
    return round(float(value), 6) if np.isfinite(value) else None
