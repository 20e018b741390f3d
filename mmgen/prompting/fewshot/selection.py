"""Which training windows are shown as examples to which query (E.3.2 of the paper).

The similarity of two windows is the number of nouns plus the number of verbs, as strings, that both
have among their input clips; the most similar come first, of equals the first in the data. So the
examples of Fig. 6 are in its printed order: they share 4, 4, 4, 3 and 3.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from mmgen.core.rng import numpy_generator
from mmgen.data.compact.samples import Instance
from mmgen.data.compact.windows import TARGET

CHUNK = 256
"""Queries compared at once."""


def choose_examples(
    train: Sequence[Instance],
    queries: Sequence[Instance],
    count: int,
    *,
    selection: str,
    exclude: str,
    seed: int,
) -> list[list[int]]:
    """Rows of train for every query, in the order in which they are shown.

    Args:
      count: examples of a query; fewer where not so many are left.
      selection: "overlap", or "random" (drawn for each query from its key and the seed).
      exclude: "none", "overlap" (no window that shares a clip with the query), or "video".
      seed: of random choices.
    """
    if count == 0:
        return [[] for _ in queries]
    allowed = allowed_rows(train, queries, exclude)
    if selection == "random":
        chosen = []
        for query, row in zip(queries, allowed, strict=True):
            generator = numpy_generator(seed, f"fewshot/{query['key']}")
            rows = np.flatnonzero(row)
            chosen.append(generator.permutation(rows)[:count].tolist())
        return chosen
    chosen = []
    for start in range(0, len(queries), CHUNK):
        part = queries[start : start + CHUNK]
        shared = overlaps(train, part)
        shared[~allowed[start : start + CHUNK]] = -1
        order = np.argsort(-shared, axis=1, kind="stable")[:, :count]
        chosen += [
            [column for column in columns if row[column] >= 0]
            for columns, row in zip(order.tolist(), shared.tolist(), strict=True)
        ]
    return chosen


def overlaps(train: Sequence[Instance], queries: Sequence[Instance]) -> Float[np.ndarray, "q n"]:
    """Nouns plus verbs that each query shares with each training window."""
    words = {word: number for number, word in enumerate(sorted(set().union(*map(_atoms, train))))}
    return _presence(queries, words) @ _presence(train, words).T


def allowed_rows(
    train: Sequence[Instance], queries: Sequence[Instance], exclude: str
) -> Bool[np.ndarray, "q n"]:
    """Which training windows may be shown to which query."""
    allowed = np.ones((len(queries), len(train)), np.bool_)
    if exclude == "video":
        videos = np.array([one["video_id"] for one in train])
        for row, query in enumerate(queries):
            allowed[row] = videos != query["video_id"]
    elif exclude == "overlap":
        windows: dict[str, list[int]] = {}
        for column, one in enumerate(train):
            for clip in one["narration_ids"]:
                windows.setdefault(clip, []).append(column)
        for row, query in enumerate(queries):
            for clip in query["narration_ids"]:
                allowed[row, windows.get(clip, [])] = False
    return allowed


def leak_rates(
    train: Sequence[Instance], queries: Sequence[Instance], chosen: Sequence[Sequence[int]]
) -> dict[str, Bool[np.ndarray, " q"]]:
    """What a query's examples give away: name -> of which queries.

    `answer_shown`: the target's narration stands, word by word, in an example; `answer_is_target`:
    as the example's own target; `clip_shared`: an example shares a clip with the query.
    """
    shown, is_target, shared = [], [], []
    for query, rows in zip(queries, chosen, strict=True):
        answer = query["narrations"][TARGET]
        examples = [train[row] for row in rows]
        shown.append(any(answer in one["narrations"] for one in examples))
        is_target.append(any(answer == one["narrations"][TARGET] for one in examples))
        clips = set(query["narration_ids"])
        shared.append(any(clips & set(one["narration_ids"]) for one in examples))
    columns = {"answer_shown": shown, "answer_is_target": is_target, "clip_shared": shared}
    return {name: np.array(values, np.bool_) for name, values in columns.items()}


def _atoms(instance: Instance) -> set[str]:
    """Marked nouns and verbs of the input clips."""
    return {f"noun {noun}" for noun in instance["nouns"][:TARGET]} | {
        f"verb {verb}" for verb in instance["verbs"][:TARGET]
    }


def _presence(instances: Sequence[Instance], words: dict[str, int]) -> Float[np.ndarray, "n w"]:
    present = np.zeros((len(instances), len(words)), np.float32)
    for row, one in enumerate(instances):
        present[row, [words[word] for word in _atoms(one) if word in words]] = 1
    return present
