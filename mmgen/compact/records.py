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

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from etils import epath
from jaxtyping import Bool, Float, Int

from mmgen.data.compact.samples import Instance
from mmgen.data.compact.windows import TARGET
from mmgen.errors import Diverged, UserError
from mmgen.evaluation.context import Context
from mmgen.evaluation.predictions import AGAIN, Record, read_records, record_path

TASKS = {"utterance": "trg", "verb": "trgverb", "noun": "trgnoun"}
"""Task -> field of an instance with its target."""


class _Kind(NamedTuple):
    """Values of a field: what they are called, and which they are."""

    words: str
    fits: Callable[[Any], bool]


_TEXT = _Kind("a text", lambda value: isinstance(value, str))
_TEXTS = _Kind(
    f"{TARGET} texts",
    lambda value: (
        isinstance(value, list)
        and len(value) == TARGET
        and all(isinstance(text, str) for text in value)
    ),
)
_WHOLE = _Kind("a whole number", lambda value: type(value) is int)
_NUMBER = _Kind(
    "a number or null",
    lambda value: value is None or (type(value) in (int, float) and math.isfinite(value)),
)
_BOOL = _Kind("true or false", lambda value: isinstance(value, bool))

_KINDS = {
    "id": _WHOLE,
    "video": _TEXT,
    "clip": _TEXT,
    "inputs": _TEXTS,
    "target": _TEXT,
    "prediction": _TEXT,
    "nll": _NUMBER,
    "tokens": _WHOLE,
    "verb": _TEXT,
    "noun": _TEXT,
    "verb_class": _WHOLE,
    "noun_class": _WHOLE,
    "unseen": _BOOL,
}

FIELDS = tuple(_KINDS)

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


def read_evaluation(
    workdir: epath.PathLike, name: str, step: int, context: Context
) -> list[Record]:
    """Records of every row of a split, as an evaluation left them.

    Args:
      name: of the evaluation: a split, with `CURVE` behind it if it took place during training.
      step: iteration of the model.
      context: see `mmgen.compact.context`.

    Raises:
      UserError: the file is missing or damaged, lacks a row of the split or has one twice, or the
        data set has no such split.
    """
    path = record_path(workdir, name, step)
    split = context["dataset"]["splits"].get(name.removesuffix(CURVE))
    if split is None:
        raise UserError(f"{path.parent} belongs to no split of the run's data set: remove it")
    records = list(read_records(path))
    for line, record in enumerate(records, start=1):
        for field in (*FIELDS, *record):
            kind = _KINDS.get(field, _NUMBER)
            if field not in record or not kind.fits(record[field]):
                found = f"{record[field]!r:.40}" if field in record else "missing"
                raise UserError(
                    f"{path}:{line} is no record of CompAct: {field!r} is {found}, not "
                    f"{kind.words}: {AGAIN}"
                )
    if sorted(record["id"] for record in records) != list(range(split["examples"])):
        raise UserError(
            f"{path} has {len(records):,} records, not one of each of the {split['examples']:,} "
            f"rows of its split: {AGAIN}"
        )
    return records


def world_scores(records: Sequence[Record]) -> dict[str, Float[np.ndarray, " n"]]:
    """Name -> values of what built-in worlds know of the items, NaN for unknown."""
    names = dict.fromkeys(name for record in records for name in record if name not in FIELDS)
    return {name: np.array([record.get(name) for record in records], np.float64) for name in names}


def _number(value: float) -> float | None:
    """A float with 6 decimals; NaN becomes None (JSON has no NaN)."""
    return round(float(value), 6) if np.isfinite(value) else None
