"""A hand-made data set: two tasks, four pairs, spans of one to three tokens."""

from typing import Any, NamedTuple

import numpy as np

from mmgen.data.columns import Split, masked_span_columns
from mmgen.data.tokenizer import APPENDED, CLS, MASK, PAD, SEP, UNK, Vocabulary

WORDS = ("a", "the", "red", "small", "sits", "dog", "cat", "on")
TOKENS = (PAD, UNK, SEP, CLS, MASK, *APPENDED[:2], *WORDS)
ID = {token: index for index, token in enumerate(TOKENS)}


class HandMade(NamedTuple):
    """What evaluation needs of a data set."""

    info: dict[str, Any]
    splits: dict[str, Split]
    vocabulary: Vocabulary
    features: None = None

    def split(self, name: str) -> Split:
        return self.splits[name]


def make_split(name: str, phrases: list[tuple[str, int, int]], **floats: Any) -> Split:
    """Rows from (caption with the span in brackets, task, pair); image = row // 2 + 100."""
    tokens, span, pair_tokens = [], [], []
    for caption, _, pair in phrases:
        words = caption.split()
        start = words.index("[")
        stop = words.index("]") - 1
        plain = [word for word in words if word not in "[]"]
        tokens.append([ID[word] for word in plain])
        span.append((start, stop))
        pair_tokens.append((stop - 2, stop - 1) if pair >= 0 else (-1, -1))
    rows = np.arange(len(phrases))
    columns = masked_span_columns(
        tokens,
        span=span,
        task=[task for _, task, _ in phrases],
        image=rows // 2,
        caption=rows,
        image_id=rows // 2 + 100,
        pair=[pair for _, _, pair in phrases],
        pair_tokens=pair_tokens,
        **floats,
    )
    return Split(name, columns)


def hand_made_dataset() -> HandMade:
    """A new copy, whose columns a test may change."""
    train = make_split(
        "train",
        [
            ("[ a red dog ] sits", 0, 0),
            ("[ a dog ] sits on a cat", 0, -1),
            ("a dog on [ the cat ]", 1, -1),
            ("[ a small cat ]", 1, 3),
        ],
    )
    test = make_split(
        "test",
        [
            ("[ a red dog ]", 0, 0),
            ("[ dog ] sits", 0, -1),
            ("a dog on [ the cat ]", 1, -1),
            ("[ small cat ] sits on a red dog", 1, 3),
            ("[ a red cat ]", 1, 1),
            ("a cat on [ a dog ]", 0, -1),
        ],
        optimum=np.arange(6) / 10,
    )
    novel = make_split("novel", [("[ a small dog ]", 0, 2), ("[ small dog ] sits", 0, 2)])
    info = {
        "name": "hand_made",
        "fingerprint": "f0",
        "tasks": ["dog", "cat"],
        "pairs": [
            {"name": "red_dog", "atom": "red", "noun": "dog", "kind": "adjective", "novel": False},
            {"name": "red_cat", "atom": "red", "noun": "cat", "kind": "adjective", "novel": False},
            {
                "name": "small_dog",
                "atom": "small",
                "noun": "dog",
                "kind": "adjective",
                "novel": True,
            },
            {
                "name": "small_cat",
                "atom": "small",
                "noun": "cat",
                "kind": "adjective",
                "novel": False,
            },
        ],
        "vocabulary": {"rows": 20, "size": len(TOKENS)},
        "world": True,
        "paper_size": 639_592,
        "splits": {"train": {"examples": 4, "tasks": 2, "sha256": {}}},
    }
    splits = {"train": train, "test": test, "novel": novel}
    return HandMade(info, splits, Vocabulary(TOKENS, word_level=True, rows=20))
