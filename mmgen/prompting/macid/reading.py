"""From replies to what a model chose, in three readings: generated, most likely, calibrated."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from mmgen.prompting.macid.answers import read_number, read_yes_no
from mmgen.prompting.macid.asking import Asking
from mmgen.prompting.macid.items import Item
from mmgen.prompting.requests import Answer

GENERATE, CHOICES, CALIBRATED = "generate", "choices", "calibrated"


class Choice(NamedTuple):
    """What a model chose for an item.

    Attributes:
      item: the question.
      prediction: number of the answer, from 1; None if there is none that can be read.
      detail: what it was read from, for the records.
    """

    item: Item
    prediction: int | None
    detail: dict[str, Any]

    @property
    def is_right(self) -> bool:
        """An unusable answer is wrong."""
        return self.prediction == self.item.target


def read_generated(asking: Asking, replies: Mapping[str, Answer]) -> list[Choice]:
    """Choices from generated answers; items without an answer are left out."""
    macid = asking.config.macid
    choices = []
    for item in asking.items:
        reply = replies.get(item.name)
        if reply is None:
            continue
        text = reply.text or ""
        prediction: int | None
        if macid.format == "pairs":
            said = read_yes_no(text, macid.parser)
            prediction = None if said is None else (1 if said else 2)
        else:
            sentences = item.group.sentences[macid.language]
            shown = [sentences[place - 1] for place in item.order]
            prediction = read_number(text, shown, macid.parser)
        choices.append(Choice(item, prediction, {"text": text}))
    return choices


def read_scores(
    asking: Asking,
    replies: Mapping[str, Answer],
    preference: Float[np.ndarray, " k"] | None = None,
) -> list[Choice]:
    """Choices from log-probabilities; items without an answer are left out.

    Args:
      preference: log-probabilities of the choices without content, which are subtracted; None
        reads the raw scores. A tie at the top chooses nothing.
    """
    choices = []
    for item in asking.items:
        reply = replies.get(item.name)
        if reply is None or reply.scores is None:
            continue
        scores = np.asarray(reply.scores) - (0.0 if preference is None else preference)
        detail: dict[str, Any] = {"scores": [round(float(score), 6) for score in scores]}
        choices.append(Choice(item, _largest(scores), detail))
    return choices


def content_free_preference(replies: Mapping[str, Answer]) -> Float[np.ndarray, " k"] | None:
    """Log of the mean probability of each choice over the content-free prompts; None without any.

    Zhao et al. 2021, "Calibrate before use": normalised over the choices, then averaged.
    """
    rows = [reply.scores for reply in replies.values() if reply.scores is not None]
    if not rows:
        return None
    scores = np.asarray(rows, np.float64)
    scores = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return np.logaddexp.reduce(scores, axis=0) - math.log(len(rows))


def records(reading: str, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """One JSON object per item."""
    return [
        {
            "id": f"{reading}/{choice.item.name}",
            "reading": reading,
            "group": choice.item.group.id,
            "order": list(choice.item.order),
            "target": choice.item.target,
            "prediction": choice.prediction,
            "right": choice.is_right,
            **choice.detail,
        }
        for choice in choices
    ]


def _largest(scores: Float[np.ndarray, " k"]) -> int | None:
    best = np.flatnonzero(scores >= scores.max() - 1e-9)
    return int(best[0]) + 1 if len(best) == 1 else None
