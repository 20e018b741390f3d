"""Labelled spans of captions: noun phrases with their verbs, and the task that each belongs to.

    python -m mmgen.data.phrases tag --captions captions_val2017.json.gz --out tags_val2017.jsonl.gz

writes the tags that the builders of COCO-shift and Flickr-shift from raw captions read.
"""

import argparse
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from mmgen.data.builders.rawfiles import read_lines
from mmgen.data.composition import lemma
from mmgen.data.tagging import TAGGERS, Tag, read_captions, write_tags
from mmgen.errors import UserError

# One letter per tag, so that a grammar is a regular expression over a caption's letters. Proper
# nouns count as nouns, as the released chunks show ("a black honda motorcycle").
LETTERS = {
    "DT": "D",
    "JJ": "J",
    "NN": "N",
    "NNS": "N",
    "NNP": "N",
    "NNPS": "N",
    "VB": "V",
    "VBD": "V",
    "VBP": "V",
    "VBG": "G",
    "VBN": "G",
    "VBZ": "Z",
}
GRAMMARS = {
    # Paper and code alike spell VBZ as VPZ, so that "sits" is in no chunk: "a man | sits".
    "release": re.compile("D?[JG]*N+[VG]*"),
    "vbz": re.compile("D?[JG]*N+[VGZ]*"),
}
"""Chunk grammars over those letters (released data/coco.py:77)."""

MISSING_IDS = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71})
"""Numbers up to 80 that are no COCO category id. The released code takes the line number in the
noun table for the id, and so loses the categories on these lines."""

RELEASED_LEMMAS = {"men": "men"}
"""Where the released lemmatiser (WordNet's) differs: it knows "men" as a word of its own."""

Noun = tuple[str, ...]
"""Lemmas of the words of a noun."""


class NounTable(NamedTuple):
    """Which nouns stand for which task.

    Attributes:
      tasks: names of the 80 categories.
      by_last: last word of a noun -> (noun, task) in the order of trial.
      objects: "release" matches single WordPieces, the table's first noun first; "fixed" matches
        whole words, the longest noun first.
    """

    tasks: tuple[str, ...]
    by_last: Mapping[str, Sequence[tuple[Noun, int]]]
    objects: str


def read_noun_table(path: pathlib.Path, objects: str) -> NounTable:
    """The nouns of the 80 COCO categories.

    Args:
      path: coco_nouns.txt, a line of synonyms per category.
      objects: "release" finds the 58 categories that the released streams have, for the same
        three reasons (viscoll.md section 6); "fixed" finds all 80.

    Raises:
      UserError: another value of `objects`, or a file of another length.
    """
    if objects not in ("release", "fixed"):
        raise UserError(f"objects={objects}: choose release (58 categories) or fixed (80)")
    lines = [line.split(",") for line in read_lines(path) if line.strip()]
    if len(lines) != 80:
        raise UserError(f"{path} has {len(lines)} lines, the released table has 80")
    task_of: dict[Noun, int] = {}
    for task, synonyms in enumerate(lines):
        if objects == "release" and task + 1 in MISSING_IDS:
            continue
        for synonym in filter(str.strip, synonyms):
            noun = tuple(noun_lemma(word, objects) for word in synonym.lower().split())
            # A noun on two lines belongs to the later one, but keeps its place in the order.
            task_of[noun] = task
    nouns = list(task_of)
    if objects == "fixed":
        nouns.sort(key=len, reverse=True)
    by_last: dict[str, list[tuple[Noun, int]]] = {}
    for noun in nouns:
        by_last.setdefault(noun[-1], []).append((noun, task_of[noun]))
    return NounTable(tuple(synonyms[0].strip() for synonyms in lines), by_last, objects)


def noun_lemma(word: str, objects: str = "fixed") -> str:
    """Lemma of a lower-case noun or WordPiece, as `objects` has it."""
    if not word.isalpha():
        return word
    found = next(iter(lemma(word, "NOUN")), word)
    return RELEASED_LEMMAS.get(word, found) if objects == "release" else found


def token_tags(offsets: Sequence[tuple[int, int]], tags: Sequence[Tag]) -> list[str]:
    """Tag of each token: that of the word which holds its first character, "" without one."""
    found, word = [], 0
    for start, _ in offsets:
        while word < len(tags) and tags[word][1] <= start:
            word += 1
        found.append(tags[word][2] if word < len(tags) and tags[word][0] <= start else "")
    return found


def chunks(tags: Sequence[str], grammar: str) -> list[tuple[int, int]]:
    """Half-open spans of the chunks of a caption, left to right, none overlapping."""
    letters = "".join(LETTERS.get(tag, ".") for tag in tags)
    return [match.span() for match in GRAMMARS[grammar].finditer(letters)]


def task_nouns(pieces: Sequence[str], table: NounTable) -> list[tuple[int, int]]:
    """Nouns of tasks among the WordPieces of a caption: (position of its last piece, task)."""
    whole = table.objects == "fixed"
    words, last = _whole_words(pieces) if whole else (pieces, range(len(pieces)))
    lemmas = [noun_lemma(word, table.objects) for word in words]
    found = []
    for position, word in enumerate(lemmas):
        for noun, task in table.by_last.get(word, ()):
            start = position + 1 - len(noun)
            if start >= 0 and tuple(lemmas[start : position + 1]) == noun:
                found.append((last[position], task))
                break
    return found


def _whole_words(pieces: Sequence[str]) -> tuple[list[str], list[int]]:
    words: list[str] = []
    last: list[int] = []
    for position, piece in enumerate(pieces):
        if piece.startswith("##") and words:
            words[-1] += piece[2:]
            last[-1] = position
        else:
            words.append(piece)
            last.append(position)
    return words, last


def labelled_spans(
    pieces: Sequence[str], tags: Sequence[str], table: NounTable, grammar: str
) -> list[tuple[int, int, int]]:
    """Instances of a caption: (start, stop, task) of the chunk around each noun of a task.

    Args:
      pieces: its WordPieces.
      tags: the tag of each.
      table: nouns of the tasks.
      grammar: a key of `GRAMMARS`.
    """
    spans = chunks(tags, grammar)
    return [
        (start, stop, task)
        for position, task in task_nouns(pieces, table)
        for start, stop in spans
        if start <= position < stop
    ]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; --help shows the options")


def main(arguments: Sequence[str]) -> None:
    """The command `tag`; UserError for whatever the user can mend."""
    parser = _Parser(prog="python -m mmgen.data.phrases", description="Tag captions.")
    parser.add_argument("command", choices=["tag"])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--captions", type=pathlib.Path, metavar="FILE", help="COCO captions_*.json[.gz]"
    )
    source.add_argument(
        "--sentences", type=pathlib.Path, metavar="DIR", help="Flickr30k Entities Sentences"
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE.jsonl.gz")
    parser.add_argument("--tagger", default="spacy", choices=TAGGERS)
    options = parser.parse_args(arguments)
    if options.captions is not None:
        captions = read_captions(options.captions)
    else:
        from mmgen.data.builders.flickr_shift import read_sentence_folder

        captions = read_sentence_folder(options.sentences)
    write_tags(captions, options.out, options.tagger)
    print(f"{len(captions):,} captions tagged: {options.out}")


if __name__ == "__main__":
    from mmgen.settings.command_line import fail

    try:
        main(sys.argv[1:])
    except UserError as sentence:
        fail(sentence)
