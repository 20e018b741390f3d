"""Which predictions are right, by text and by class."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped

from mmgen.compact.forms import Joiner, plain
from mmgen.compact.parsing import NO_CLASS, Parsed, Parser
from mmgen.data.compact.text import joined_noun, joined_verb
from mmgen.evaluation.predictions import Record

Pairs = tuple[tuple[str, str], ...]
"""(prediction, target) of every item."""


@dataclass(frozen=True)
class Judged:
    """Predictions with their verdicts.

    Attributes:
      video: video of every item, the cluster of the bootstrap.
      joined, plain: predictions and targets in both forms.
      found: verb and noun of every prediction; of the tasks verb and noun that atom alone.
      em: is the text the target?
      verb, noun: is the class the target's? For an atom that was not asked for: True. A classifier
        is wrong where the target is no label of train, unless its text is the target's.
      is_utterance: were both asked for, as a text?
    """

    video: Shaped[np.ndarray, " n"]
    joined: Pairs
    plain: Pairs
    found: tuple[Parsed, ...]
    em: Bool[np.ndarray, " n"]
    verb: Bool[np.ndarray, " n"]
    noun: Bool[np.ndarray, " n"]
    is_utterance: bool

    def __len__(self) -> int:
        """Number of items."""
        return len(self.em)

    @property
    def ca(self) -> Bool[np.ndarray, " n"]:
        """Is every class right that was asked for?"""
        return self.verb & self.noun

    def select(self, keep: Bool[np.ndarray, " n"]) -> "Judged":
        """The items where `keep` is True."""
        rows = np.flatnonzero(keep).tolist()
        return Judged(
            self.video[keep],
            tuple(self.joined[row] for row in rows),
            tuple(self.plain[row] for row in rows),
            tuple(self.found[row] for row in rows),
            self.em[keep],
            self.verb[keep],
            self.noun[keep],
            self.is_utterance,
        )


class Judge:
    """Judges records of a run.

    Args:
      context: see `mmgen.compact.context`.
    """

    def __init__(self, context: Mapping[str, Any]):
        self._task = context["task"]
        # Joined texts stay as they are: joining more of their words would undo a right answer.
        self._plain = context["form"] == "plain"
        self._join: Callable[[str], str] = Joiner(context["phrases"]) if self._plain else str
        narrations = {text: Parsed(*found) for text, found in context["narrations"].items()}
        self._parse = Parser(context["verbs"], context["nouns"], narrations)
        self._train_labels = frozenset(context["labels"])
        # What train calls a label decides; the class lists know the rest.
        self._labels = {
            joined(name): number
            for atom, joined in (("verb", joined_verb), ("noun", joined_noun))
            if atom == self._task
            for name, number in context[f"{atom}s"].items()
        } | context["labels"]

    def __call__(self, records: Sequence[Record]) -> Judged:
        """The verdicts on `records`."""
        return self._judge(
            records, [record["prediction"] for record in records], self._train_labels
        )

    def gold(self, records: Sequence[Record]) -> Judged:
        """The verdicts if every prediction were the target, in the form of the predictions."""
        texts = [record["target"] for record in records]
        return self._judge(records, map(plain, texts) if self._plain else texts, self._train_labels)

    def of_baseline(
        self, records: Sequence[Record], texts: Sequence[str], *, copies: bool
    ) -> Judged:
        """The verdicts on other predictions for the items of `records`.

        Args:
          texts: joined, whatever the form of the run's own predictions.
          copies: they are from the inputs, and so not chosen among the labels of train.
        """
        return self._judge(records, texts, None if copies else self._train_labels, join=str)

    def _judge(
        self,
        records: Sequence[Record],
        predictions: Iterable[str],
        labels: Collection[str] | None,
        join: Callable[[str], str] | None = None,
    ) -> Judged:
        join = join or self._join
        texts = [
            (text, record["target"]) for text, record in zip(predictions, records, strict=True)
        ]
        apart = tuple((plain(ours), plain(true)) for ours, true in texts)
        found = tuple(self._find(ours) for ours, _ in texts)
        return Judged(
            np.array([record["video"] for record in records]),
            tuple((join(ours), true) for ours, true in texts),
            apart,
            found,
            np.array([ours == true for ours, true in apart], bool),
            self._right("verb", found, records, apart, labels),
            self._right("noun", found, records, apart, labels),
            self._task == "utterance",
        )

    def _find(self, text: str) -> Parsed:
        if self._task == "utterance":
            return self._parse(text)
        number = self._labels.get(text, NO_CLASS)
        if self._task == "verb":
            return Parsed(text, "", number, NO_CLASS)
        return Parsed("", text, NO_CLASS, number)

    def _right(
        self,
        atom: str,
        found: Sequence[Parsed],
        records: Sequence[Record],
        apart: Pairs,
        labels: Collection[str] | None,
    ) -> Bool[np.ndarray, " n"]:
        if self._task not in ("utterance", atom):
            return np.ones(len(records), bool)
        key = f"{atom}_class"
        pairs = zip(found, records, strict=True)
        right = np.array([getattr(ours, key) == record[key] for ours, record in pairs], bool)
        if self._task == "utterance" or labels is None:
            return right
        # A target that is no label of train is not had by another label of its class.
        exact = [ours == true for ours, true in apart]
        known = [record["target"] in labels for record in records]
        return right & (np.array(known, bool) | np.array(exact, bool))
