"""Predictions without training, which every system has to beat.

  most_frequent   the most frequent target of train
  recent          Most Recent Heuristic: verb and noun of the last input, or the atom asked for;
                  "first noun of the last clip" as in `mmgen.data.compact.heuristics`
  copy_last       the last input narration (task utterance)
  put_down        "put_down" and the last noun (task utterance), where train has that verb
  bigram          the most frequent target verb after the last input's verb, and the last noun;
                  task noun: the most frequent target noun after the last noun
  nearest         target of the train window whose inputs share most words (1-NN, Jaccard)

Of equals the first in train is taken. All are joined texts, known before the target is.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Int

from mmgen.compact.records import TASKS
from mmgen.data.compact.samples import Instance
from mmgen.data.compact.text import joined_noun, joined_verb
from mmgen.data.compact.windows import TARGET

LAST = TARGET - 1
"""The last input clip."""

PUT_DOWN = "put_down"

COPIES = ("recent",)
"""Rules that answer with a verb or noun of their input; the others answer with a label of train."""

_CHUNK = 256


def baselines(
    train: Sequence[Instance], instances: Sequence[Instance], task: str
) -> dict[str, list[str]]:
    """Name -> predictions for `instances`."""
    most_frequent = Counter(one[TASKS[task]] for one in train).most_common(1)[0][0]
    predict: dict[str, Callable[[Instance], str]] = {
        "most_frequent": lambda one: most_frequent,
        "recent": lambda one: _compose(task, last_verb(one), last_noun(one)),
        "bigram": _bigram(train, task),
    }
    if task == "utterance":
        predict["copy_last"] = lambda one: one[f"src{TARGET}"]
        if any(one["trgverb"] == PUT_DOWN for one in train):
            predict["put_down"] = lambda one: f"{PUT_DOWN} {last_noun(one)}"
    found = {name: list(map(rule, instances)) for name, rule in predict.items()}
    rows = nearest_rows(train, instances)
    found["nearest"] = [train[row][TASKS[task]] for row in rows.tolist()]
    return found


def last_verb(instance: Instance) -> str:
    """Joined verb of the last input clip."""
    return joined_verb(instance["verbs"][LAST])


def last_noun(instance: Instance) -> str:
    """Joined first noun of the last input clip."""
    return joined_noun(instance["nouns"][LAST])


def nearest_rows(train: Sequence[Instance], instances: Sequence[Instance]) -> Int[np.ndarray, " n"]:
    """For every instance the train window with the largest overlap of its inputs' words.

    Overlap of two sets of joined words is shared over all (Jaccard); of equals the first.
    """
    words: dict[str, int] = {}
    for one in train:
        for word in one["src"].split():
            words.setdefault(word, len(words))
    known = _presence(train, words)
    size = known.sum(axis=1)
    rows = []
    for start in range(0, len(instances), _CHUNK):
        part = instances[start : start + _CHUNK]
        shared = _presence(part, words) @ known.T
        own = np.array([len(set(one["src"].split())) for one in part])
        rows.append(np.argmax(shared / (own[:, None] + size[None, :] - shared), axis=1))
    return np.concatenate(rows) if rows else np.zeros(0, np.int64)


def _presence(instances: Sequence[Instance], words: Mapping[str, int]) -> np.ndarray:
    present = np.zeros((len(instances), len(words)), np.float32)
    for row, one in enumerate(instances):
        present[row, [words[word] for word in set(one["src"].split()) if word in words]] = 1
    return present


def _bigram(train: Sequence[Instance], task: str) -> Callable[[Instance], str]:
    """The rule that follows the last verb (task noun: the last noun)."""
    last, field = (last_noun, "trgnoun") if task == "noun" else (last_verb, "trgverb")
    following: dict[str, Counter[str]] = defaultdict(Counter)
    for one in train:
        following[last(one)][one[field]] += 1
    fallback = Counter(one[field] for one in train)

    def predict(one: Instance) -> str:
        atom = (following.get(last(one)) or fallback).most_common(1)[0][0]
        return f"{atom} {last_noun(one)}" if task == "utterance" else atom

    return predict


def _compose(task: str, verb: str, noun: str) -> str:
    return {"utterance": f"{verb} {noun}", "verb": verb, "noun": noun}[task]
