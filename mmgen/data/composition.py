"""Finding atom-noun compositions in labelled spans, for the novel / seen comparison.

Follows the released matching (viscoll.md section 5): noun lemma, then verb lemma of each span
token, its canonical word through the synonym lists, any two tokens of the span in either order.
Three things that the release leaves to chance are fixed here. A word in two lists (boy: child and
man) belongs to both, and a held-out pair wins over a seen one, because images with either were
removed. Among several of a kind the last wins, as released. A piece that a continuation piece
follows is no word. Pairs with adjectives and with verbs are kept apart.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int

from mmgen.data.tokenizer import Vocabulary
from mmgen.errors import UserError

if TYPE_CHECKING:
    from mmgen.data.builders.instances import Instances

MISFILED = {("plane", "minibus"), ("plane", "trolley"), ("plane", "seaplane bus")}
"""Entries of the source's plane list that belong to bus (a comma is missing there)."""

Match = tuple[str, int, int]
"""Name of a pair, positions of its atom and of its noun."""


class PairTable(NamedTuple):
    """Held-out pairs with the synonyms of their words.

    Attributes:
      heldout: names `atom_noun` in the source's order.
      kind: atom -> "adjective" or "verb".
      nouns: nouns of the held-out pairs.
      canonical: lemma -> words it may stand for.
    """

    heldout: tuple[str, ...]
    kind: Mapping[str, str]
    nouns: frozenset[str]
    canonical: Mapping[str, frozenset[str]]

    @classmethod
    def make(
        cls, heldout: Sequence[str], synonyms: Mapping[str, Mapping[str, Sequence[str]]]
    ) -> "PairTable":
        """The table of pairs `atom_noun`; UserError for a pair whose words have no list."""
        kind: dict[str, str] = {}
        nouns = set()
        for pair in heldout:
            atom, _, noun = pair.partition("_")
            if noun not in synonyms["nouns"]:
                raise UserError(f"held-out pair {pair!r}: {noun!r} has no list of synonyms")
            if atom in synonyms["adjectives"]:
                kind[atom] = "adjective"
            elif atom in synonyms["verbs"]:
                kind[atom] = "verb"
            else:
                raise UserError(f"held-out pair {pair!r}: {atom!r} has no list of synonyms")
            nouns.add(noun)
        canonical: dict[str, set[str]] = {}
        for words in synonyms.values():
            for word, others in words.items():
                if word not in kind and word not in nouns:
                    continue
                for other in others:
                    if (word, other) not in MISFILED:
                        canonical.setdefault(other, set()).add(word)
        frozen = {word: frozenset(stands_for) for word, stands_for in canonical.items()}
        return cls(tuple(heldout), kind, frozenset(nouns), frozen)


def find_pairs(
    splits: Mapping[str, "Instances"], vocabulary: Vocabulary, table: PairTable
) -> tuple[list[dict[str, Any]], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Pairs of every row.

    A seen pair is any other combination of the held-out pairs' atoms and nouns that occurs in a
    span of the training split, which is what a model can have learned; without a training split
    there is none.

    Args:
      splits: instances by split.
      vocabulary: of their tokens.
      table: held-out pairs.

    Returns:
      The manifest's pairs (held-out ones first; `train_count` is the number of training spans with
      the pair), and by split the columns `pair` int32[n] and `pair_tokens` int32[n, 2].
    """
    words = _WordTable(vocabulary, table)
    matches = {name: [words.matches(part, row) for row in range(len(part.tokens))]
               for name, part in splits.items()}  # fmt: skip
    counts = Counter(
        name for row in matches.get("train", ()) for name in {match[0] for match in row}
    )
    seen = sorted(name for name in counts if name not in table.heldout)
    names = {name: index for index, name in enumerate((*table.heldout, *seen))}
    pairs = [
        {
            "name": name,
            "atom": name.partition("_")[0],
            "noun": name.partition("_")[2],
            "kind": table.kind[name.partition("_")[0]],
            "novel": name in table.heldout,
            "train_count": counts[name],
        }
        for name in names
    ]
    heldout = frozenset(table.heldout)
    return pairs, {name: _columns(rows, names, heldout) for name, rows in matches.items()}


def _columns(
    rows: Sequence[Sequence[Match]], names: Mapping[str, int], heldout: frozenset[str]
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, "n 2"]]:
    pair = np.full(len(rows), -1, np.int32)
    positions = np.full((len(rows), 2), -1, np.int32)
    for row, found in enumerate(rows):
        known = [match for match in found if match[0] in names]
        if known:
            name, atom, noun = max(enumerate(known), key=lambda m: (m[1][0] in heldout, m[0]))[1]
            pair[row] = names[name]
            positions[row] = atom, noun
    return pair, positions


class _WordTable:
    """Canonical words of token ids, worked out once per id."""

    def __init__(self, vocabulary: Vocabulary, table: PairTable):
        self._vocabulary = vocabulary
        self._table = table
        self._stands_for: dict[int, frozenset[str]] = {}

    def matches(self, part: "Instances", row: int) -> list[Match]:
        """Every composition in the span of a row, in the order of its words."""
        tokens, (start, stop) = part.tokens[row], part.span[row].tolist()
        atoms, nouns = [], []
        for position in range(start, stop):
            for word in self._canonical(tokens[position]):
                if position + 1 < len(tokens) and self._continues(tokens[position + 1]):
                    continue
                if word in self._table.kind:
                    atoms.append((position, word))
                if word in self._table.nouns:
                    nouns.append((position, word))
        found = [(f"{atom}_{noun}", i, j) for i, atom in atoms for j, noun in nouns if i != j]
        return sorted(found, key=lambda match: (min(match[1:]), max(match[1:]), match[0]))

    def _continues(self, token: int) -> bool:
        return not self._vocabulary.word_level and self._vocabulary.tokens[token].startswith("##")

    def _canonical(self, token: int) -> frozenset[str]:
        if token not in self._stands_for:
            forms = lemmas(self._vocabulary.tokens[token])
            self._stands_for[token] = frozenset().union(
                *(self._table.canonical.get(form, ()) for form in forms)
            )
        return self._stands_for[token]


@functools.cache
def lemmas(word: str) -> frozenset[str]:
    """The word, its noun and verb lemmas, and the verb lemma of its noun lemma."""
    nouns = {word, *lemma(word, "NOUN")}
    return frozenset(nouns.union(*(lemma(noun, "VERB") for noun in nouns)))


@functools.cache
def lemma(word: str, part_of_speech: str) -> tuple[str, ...]:
    """Dictionary lemmas of `word` as "NOUN" or "VERB"; UserError without lemminflect."""
    try:
        from lemminflect import getLemma
    except ModuleNotFoundError as error:
        raise UserError(
            "lemmas need the package lemminflect: pip install 'lemminflect>=0.2.3'"
        ) from error
    # No guesses for other words: they make "bus" of the WordPiece "bi".
    return getLemma(word, upos=part_of_speech, lemmatize_oov=False) or ()
