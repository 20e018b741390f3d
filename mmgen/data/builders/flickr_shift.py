"""Flickr-shift rebuilt from Flickr30k Entities sentences and tags.

`--raw` holds the folder Sentences/ (IMAGE.txt, five marked-up captions each), tags.jsonl.gz made
by `python -m mmgen.data.phrases tag --sentences`, flickr_vocab.txt, flickr_tasks.pkl or .json, and
flickr_{train,val,test}_map.json, whose images are the splits (released data/flickr30k.py:242-335).
A phrase's task is the lemma of its last noun; phrases of other nouns are left out.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mmgen.data.builders.instances import Instances, make_instances, write_instances
from mmgen.data.builders.rawfiles import require_raw, source_of
from mmgen.data.builders.released import (
    FLICKR_SIZE,
    FLICKR_SPLITS,
    flickr_tasks,
    read_image_map,
)
from mmgen.data.builders.request import BuildRequest
from mmgen.data.phrases import noun_lemma, token_tags
from mmgen.data.tagging import Caption, Tag, iterate_tags
from mmgen.data.tokenizer import Vocabulary, flickr_vocabulary
from mmgen.errors import UserError

PHRASE = re.compile(r"\[/EN#\d+(?:/\w+)+ ([^\]]+)\]")
"""A marked phrase: [/EN#CHAIN/TYPE[/TYPE...] words]."""

SENTENCES_PER_IMAGE = 10
"""Caption id = image id times this + number of the sentence; images have five."""


class Sentence(NamedTuple):
    """A caption.

    Attributes:
      words: its lower-cased words.
      phrases: half-open spans of its marked phrases.
    """

    words: tuple[str, ...]
    phrases: tuple[tuple[int, int], ...]


def build_flickr_shift_rebuilt(request: BuildRequest) -> pathlib.Path:
    """Build `flickr_shift_rebuilt`; returns its folder. UserError for a file's defect."""
    if request.pairs is not None or request.train_from is not None:
        raise UserError(f"--pairs and --train-from have no meaning for {request.name}")
    raw = request.raw_folder()
    request.chosen({})
    vocabulary_path = require_raw(raw, "flickr_vocab.txt")
    vocabulary = flickr_vocabulary(vocabulary_path)
    tasks = flickr_tasks(raw)
    tags_path = require_raw(raw, "tags.jsonl.gz", "tags.jsonl")
    tagger, rows = iterate_tags(tags_path)
    tags = dict(rows)
    maps = {
        split: require_raw(raw, f"flickr_{part}_map.json") for split, part in FLICKR_SPLITS.items()
    }
    index = {task: position for position, task in enumerate(tasks)}
    splits = {
        split: read_images(raw / "Sentences", read_image_map(path), tags, index, vocabulary)
        for split, path in maps.items()
    }
    info = {
        "builder": "mmgen.data.builders.flickr_shift:build_flickr_shift_rebuilt",
        "settings": {"tokenizer": "flickr_vocab", "tagger": tagger},
        "tasks": tasks,
        "licences": [
            "Flickr30k captions: non-commercial research and education",
            "Flickr30k Entities: none stated",
        ],
        "sources": [source_of(path) for path in (*maps.values(), vocabulary_path, tags_path)],
        "paper_scale": True,
        "paper_size": FLICKR_SIZE,
    }
    return write_instances(request, request.name, splits, vocabulary, info)


def parse_sentence(line: str) -> Sentence:
    """Words and phrases of a marked-up caption; ValueError for a mark-up that does not close."""
    words: list[str] = []
    phrases = []
    end = 0
    for match in PHRASE.finditer(line):
        words += line[end : match.start()].split()
        start = len(words)
        words += match[1].split()
        phrases.append((start, len(words)))
        end = match.end()
    words += line[end:].split()
    if any("[/EN#" in word for word in words):
        raise ValueError("a phrase's mark-up does not close")
    return Sentence(tuple(word.lower() for word in words), tuple(phrases))


def read_sentences(path: pathlib.Path) -> list[Sentence]:
    """Captions of an image; UserError names file and line of a defect."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    sentences = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            sentences.append(parse_sentence(line))
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from error
    if not 0 < len(sentences) <= SENTENCES_PER_IMAGE:
        raise UserError(f"{path} has {len(sentences)} captions, expected 1 to 10")
    return sentences


def read_sentence_folder(folder: pathlib.Path) -> list[Caption]:
    """Captions of a Sentences folder, for the tagger."""
    files = sorted(folder.glob("*.txt"), key=lambda file: (len(file.stem), file.stem))
    if not files:
        raise UserError(f"{folder} has no IMAGE.txt")
    rows = []
    for file in files:
        if not file.stem.isdigit():
            raise UserError(f"{file}: the name of a sentence file is its image id")
        for number, sentence in enumerate(read_sentences(file)):
            image = int(file.stem)
            rows.append((image * SENTENCES_PER_IMAGE + number, image, " ".join(sentence.words)))
    return rows


def read_images(
    folder: pathlib.Path,
    images: list[int],
    tags: Mapping[int, list[Tag]],
    tasks: Mapping[str, int],
    vocabulary: Vocabulary,
) -> Instances:
    """Instances of a split, image after image, caption after caption, phrase after phrase."""
    rows: list[tuple[list[int], int, int, int, int, int]] = []
    for image in images:
        for number, sentence in enumerate(read_sentences(folder / f"{image}.txt")):
            caption = image * SENTENCES_PER_IMAGE + number
            if caption not in tags:
                raise UserError(
                    f"the tags lack caption {number + 1} of image {image}: tag this folder with "
                    "python -m mmgen.data.phrases tag --sentences"
                )
            ids = vocabulary.encode_words(sentence.words)
            for start, stop, task in phrase_tasks(sentence, tags[caption], tasks):
                rows.append((ids, start, stop, task, caption, image))
    return make_instances(rows)


def phrase_tasks(
    sentence: Sentence, tags: list[Tag], tasks: Mapping[str, int]
) -> Iterator[tuple[int, int, int]]:
    """(start, stop, task) of the phrases whose last noun is a task."""
    offsets, position = [], 0
    for word in sentence.words:
        offsets.append((position, position + len(word)))
        position += len(word) + 1
    tag_of = token_tags(offsets, tags)
    for start, stop in sentence.phrases:
        nouns = [word for word in range(start, stop) if tag_of[word].startswith("N")]
        if nouns:
            task = tasks.get(noun_lemma(sentence.words[nouns[-1]], "release"))
            if task is not None:
                yield start, stop, task
