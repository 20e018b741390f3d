"""COCO-shift rebuilt from COCO captions, the noun table, tags and the held-out pairs.

`--raw` holds captions_{train,val}2017.json, their tags tags_{train,val}2017.jsonl.gz (made by
`python -m mmgen.data.phrases tag`), coco_nouns.txt, and for each part either the released
coco_{train,val}_map.json or instances_{train,val}2017.json: only images with an annotated object
have features. Files may be gzipped. As in the release (data/coco.py:76-83, 339-372): train and
validation come from train2017, test and novel from val2017; images with a held-out pair are
removed, and those of val2017 are the novel split. The streams keep the order of the captions file.
"""

import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mmgen.core.rng import numpy_generator
from mmgen.data.builders.heldout import HeldOut, read_heldout
from mmgen.data.builders.instances import (
    Instances,
    cut_by_image,
    make_instances,
    write_instances,
)
from mmgen.data.builders.rawfiles import find_raw, read_json, require_raw, source_of
from mmgen.data.builders.released import (
    COCO_SIZE,
    TEST_SHARE,
    VALIDATION_SHARE,
    read_image_map,
)
from mmgen.data.builders.request import BuildRequest
from mmgen.data.phrases import GRAMMARS, NounTable, labelled_spans, read_noun_table, token_tags
from mmgen.data.tagging import Caption, caption_text, iterate_tags, read_captions
from mmgen.data.tokenizer import WordPiece, load_wordpiece
from mmgen.errors import UserError

DEFAULTS = {
    # "release": the 58 categories of the released streams; "fixed": all 80.
    "objects": "release",
    # "release": as the paper prints and the code runs, without third-person verbs (VBZ, which both
    # spell VPZ); "vbz": with them, as both must mean.
    "grammar": "release",
    # Captions drawn from train2017 whose images are the validation split.
    "validation_captions": 5000,
}
BATCH = 8192
"""Captions tokenised at a time."""


class Part(NamedTuple):
    """Instances of train2017 or val2017.

    Attributes:
      instances: all of them, held-out images included, in the order of the captions file.
      caption_images: image id of every caption, also of those without an instance.
      tagger: name of the tagger.
      sources: files read.
    """

    instances: Instances
    caption_images: np.ndarray
    tagger: str
    sources: list[pathlib.Path]


def build_coco_shift_rebuilt(request: BuildRequest) -> pathlib.Path:
    """Build it; returns its folder.

    The name tells the choices: `coco_shift_rebuilt[_fixed][_paper][_valtrain]`, the last for
    `train_from="val"`, which trains on val2017 alone.

    Raises:
      UserError: a file is missing or damaged, tags are of other captions, an unknown choice.
    """
    raw = request.raw_folder()
    choice = request.chosen(DEFAULTS)
    if request.train_from not in (None, "train", "val"):
        raise UserError(
            f"--train-from={request.train_from}: {request.name} can train on train or val"
        )
    if request.pairs is None:
        raise UserError(f"{request.name} needs the held-out pairs: give their folder with --pairs")
    if choice["grammar"] not in GRAMMARS:
        raise UserError(f"--set grammar={choice['grammar']}: choose {' or '.join(GRAMMARS)}")
    substituted = request.train_from == "val"
    if not substituted and find_raw(raw, *captions_names("train")) is None:
        raise UserError(
            f"captions_train2017.json is missing below {raw}: put it there, or give "
            f"--train-from=val to train on val2017 alone ({request.name}_valtrain)"
        )
    nouns = require_raw(raw, "coco_nouns.txt")
    table = read_noun_table(nouns, choice["objects"])
    heldout = read_heldout(request.pairs)
    wordpiece = load_wordpiece(request.tokenizer)
    val = read_part(raw, "val", table, choice["grammar"], wordpiece)
    if substituted:
        parts, splits = [val], _split_val(val, heldout, request.data_seed)
    else:
        train = read_part(raw, "train", table, choice["grammar"], wordpiece)
        parts, splits = [train, val], _split_both(train, val, heldout, choice, request.data_seed)
    marks = [mark for mark in (choice["objects"], choice["grammar"]) if mark != "release"]
    name = "_".join([request.name, *marks, *(["valtrain"] if substituted else [])])
    files = [path for part in parts for path in part.sources]
    info = {
        "builder": "mmgen.data.builders.coco_shift:build_coco_shift_rebuilt",
        "settings": choice
        | {
            "train_from": request.train_from,
            "tokenizer": "bert-base-uncased",
            "taggers": sorted({part.tagger for part in parts}),
        },
        "tasks": list(table.tasks),
        "licences": ["COCO captions: CC BY 4.0 (COCO Consortium)", "noun table: none stated"],
        "sources": [source_of(path) for path in (*files, nouns)] + heldout.sources,
        "paper_scale": not substituted and not marks,
        "paper_size": COCO_SIZE,
    }
    return write_instances(request, name, splits, wordpiece.vocabulary, info, heldout.table)


def captions_names(part: str) -> tuple[str, str]:
    """File names of a part's captions."""
    return f"captions_{part}2017.json", f"captions_{part}2017.json.gz"


def read_part(
    raw: pathlib.Path, part: str, table: NounTable, grammar: str, wordpiece: WordPiece
) -> Part:
    """Instances of one part ("train" or "val") on images that have an annotated object."""
    path = require_raw(raw, *captions_names(part))
    tags_path = require_raw(raw, f"tags_{part}2017.jsonl.gz", f"tags_{part}2017.jsonl")
    images, image_path = _images_with_objects(raw, part)
    captions = read_captions(path)
    tagger, tags = iterate_tags(tags_path)
    rows: list[tuple[list[int], int, int, int, int, int]] = []
    for start in range(0, len(captions), BATCH):
        batch = captions[start : start + BATCH]
        rows.extend(
            row
            for caption, caption_tags, encoding in _aligned(batch, tags, tags_path, wordpiece)
            if caption[1] in images
            for row in _caption_rows(caption, caption_tags, encoding, table, grammar, wordpiece)
        )
    if not rows:
        raise UserError(f"{path}: no caption names an object of coco_nouns.txt in a chunk")
    return Part(
        make_instances(rows),
        np.array([image for _, image, _ in captions]),
        tagger,
        [path, tags_path, image_path],
    )


def _aligned(
    batch: list[Caption], tags: Iterator[tuple[int, Any]], path: pathlib.Path, wordpiece: WordPiece
) -> Iterator[tuple[Caption, Any, Any]]:
    encodings = wordpiece.encode_with_offsets([caption_text(text) for _, _, text in batch])
    for caption, encoding in zip(batch, encodings, strict=True):
        number, caption_tags = next(tags, (None, None))
        if number != caption[0]:
            raise UserError(
                f"{path} has the tags of caption {number} where {caption[0]} is due: tag this "
                "captions file with python -m mmgen.data.phrases tag"
            )
        yield caption, caption_tags, encoding


def _caption_rows(
    caption: Caption,
    tags: Any,
    encoding: tuple[list[int], list[tuple[int, int]]],
    table: NounTable,
    grammar: str,
    wordpiece: WordPiece,
) -> Iterator[tuple[list[int], int, int, int, int, int]]:
    ids, offsets = encoding
    pieces = wordpiece.vocabulary.tokens_of(ids)
    for start, stop, task in labelled_spans(pieces, token_tags(offsets, tags), table, grammar):
        yield ids, start, stop, task, caption[0], caption[1]


def _images_with_objects(raw: pathlib.Path, part: str) -> tuple[set[int], pathlib.Path]:
    names = (f"instances_{part}2017.json", f"instances_{part}2017.json.gz")
    path = require_raw(raw, f"coco_{part}_map.json", *names)
    if path.name.startswith("coco_"):
        return set(read_image_map(path)), path
    value = read_json(path)
    try:
        return {int(annotation["image_id"]) for annotation in value["annotations"]}, path
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is no COCO instances file ({error!r})") from error


def _split_val(val: Part, heldout: HeldOut, data_seed: int) -> dict[str, Instances]:
    novel = np.isin(val.instances.image_id, heldout.images)
    shares = {
        "train": 1 - VALIDATION_SHARE - TEST_SHARE,
        "validation": VALIDATION_SHARE,
        "test": TEST_SHARE,
    }
    regular = val.instances.take(np.flatnonzero(~novel))
    parts = cut_by_image(regular, shares, data_seed=data_seed, stream="split/coco_shift_rebuilt")
    return parts | {"novel": val.instances.take(np.flatnonzero(novel))}


def _split_both(
    train: Part, val: Part, heldout: HeldOut, choice: dict[str, Any], data_seed: int
) -> dict[str, Instances]:
    # One draw per caption, as released, so that fewer images than draws come out.
    count = min(choice["validation_captions"], len(train.caption_images))
    generator = numpy_generator(data_seed, "split/coco_shift_validation")
    drawn = generator.choice(len(train.caption_images), count, replace=False)
    regular = ~np.isin(train.instances.image_id, heldout.images)
    validation = np.isin(train.instances.image_id, train.caption_images[drawn])
    novel = np.isin(val.instances.image_id, heldout.images)
    rows = {
        "train": (train, regular & ~validation),
        "validation": (train, regular & validation),
        "test": (val, ~novel),
        "novel": (val, novel),
    }
    return {name: part.instances.take(np.flatnonzero(mask)) for name, (part, mask) in rows.items()}
