"""Words of CompAct: tokens of the joined texts of a train split, and its target verbs and nouns.

An input is three utterances with " . " between them; the "." is the token [SEP]. What a train
split does not say is [UNK], or -1 for the label of an atom: unseen, hence always wrong.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from jaxtyping import Int

from mmgen.data.compact.reserved import RESERVED, SEPARATOR, SPECIALS
from mmgen.data.compact.samples import Instance
from mmgen.errors import UserError

PAD, BOS, EOS, UNK, SEP = range(5)

UNSEEN = -1
"""Label of a verb or noun that is no target of train."""

ATOMS = {"verb": "trgverb", "noun": "trgnoun"}
"""Atom -> field of an instance with the joined string of the target."""

_DOT = SEPARATOR.strip()


class CompactVocabulary:
    """Word-level vocabulary; ids are `SPECIALS`, then `tokens` in their order.

    Args:
      tokens: words without blanks, each once, none of them a special.

    Raises:
      UserError: a token that is none.
    """

    def __init__(self, tokens: Sequence[str]):
        self.tokens = (*SPECIALS, *tokens)
        self._ids = {token: number for number, token in enumerate(self.tokens)}
        # Texts hold the separator as they are written.
        self._ids[_DOT] = SEP
        for token in tokens:
            if token in RESERVED or token.split() != [token]:
                raise UserError(
                    f"{token!r} cannot be a word of the vocabulary: rename it in the csv"
                )
        if len(set(self.tokens)) != len(self.tokens):
            twice = Counter(self.tokens).most_common(1)[0][0]
            raise UserError(f"the vocabulary has the word {twice!r} twice")

    @classmethod
    def of(cls, train: Iterable[Instance]) -> Self:
        """Words of the inputs and targets of train instances, frequent ones first."""
        counts = Counter(
            token for one in train for key in ("src", "trg") for token in one[key].split()
        )
        del counts[_DOT]
        return cls([token for token, _ in sorted(counts.items(), key=lambda c: (-c[1], c[0]))])

    def __len__(self) -> int:
        """Number of ids."""
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        """Whether a word has an id of its own."""
        return token in self._ids

    def encode(self, text: str) -> list[int]:
        """Ids of the words of a joined text."""
        return [self._ids.get(token, UNK) for token in text.split()]

    def decode(self, ids: Iterable[int] | Int[np.ndarray, " t"]) -> str:
        """The text of ids: up to [EOS], without [BOS] and [PAD]."""
        words: list[str] = []
        for number in ids:
            if number == EOS:
                break
            if number not in (PAD, BOS):
                words.append(_DOT if number == SEP else self.tokens[number])
        return " ".join(words)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the words in their order."""
        return _digest(self.tokens)


class AtomLabels:
    """Labels of target verbs or target nouns: their joined strings, in order.

    Args:
      strings: each once.
    """

    def __init__(self, strings: Sequence[str]):
        self.strings = tuple(strings)
        self._ids = {string: number for number, string in enumerate(strings)}
        if len(self._ids) != len(self.strings):
            raise UserError("a label stands twice among the labels")

    @classmethod
    def of(cls, train: Iterable[Instance], atom: str) -> Self:
        """Strings of the targets of train instances; `atom` is a key of `ATOMS`."""
        return cls(sorted({one[ATOMS[atom]] for one in train}))

    def __len__(self) -> int:
        """Number of labels."""
        return len(self.strings)

    def encode(self, string: str) -> int:
        """Label of a string, `UNSEEN` if train has it not."""
        return self._ids.get(string, UNSEEN)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the strings in their order."""
        return _digest(self.strings)


def _digest(strings: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(strings).encode()).hexdigest()
