"""Held-out concept pairs, their images and synonyms (Nikolaus et al., CoNLL 2019).

Files of mitjanikolaus/compositional-image-captioning, folder `data/`: `dataset_splits_{1..4}.json`
and the synonym lists, either as one `synonyms.json` {adjectives, nouns, verbs: {word: [synonyms]}}
or as the source's folders `synonyms/{adjectives,nouns,verbs}/WORD.json`. Each may be gzipped.
"""

import pathlib
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from mmgen.data.builders.rawfiles import read_json, source_of
from mmgen.data.composition import PairTable
from mmgen.errors import UserError

GROUPS = (1, 2, 3, 4)
KINDS = ("adjectives", "nouns", "verbs")


class HeldOut(NamedTuple):
    """Contents of the folder.

    Attributes:
      table: the 24 pairs and the synonyms.
      images: sorted ids of the COCO images with a held-out pair in a caption. The source calls
        those from train2014 its validation and those from val2014 its test split.
      sources: the files read, with checksums.
    """

    table: PairTable
    images: Int[np.ndarray, " i"]
    sources: list[str]


def read_heldout(folder: pathlib.Path) -> HeldOut:
    """Read the held-out pairs in `folder`; UserError names a missing or damaged file."""
    if not folder.is_dir():
        raise UserError(f"--pairs {folder} is not a folder")
    pairs: list[str] = []
    images: set[int] = set()
    sources = []
    for group in GROUPS:
        path = _one_of(folder, f"dataset_splits_{group}.json")
        split = read_json(path)
        try:
            pairs += split["heldout_pairs"]
            for part in ("val_images_split", "test_images_split"):
                images.update(map(int, split[part]))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is no split file of held-out pairs ({error!r})") from error
        sources.append(source_of(path))
    synonyms, files = _synonyms(folder)
    return HeldOut(
        PairTable.make(pairs, synonyms),
        np.array(sorted(images), np.int64),
        sources + [source_of(file) for file in files],
    )


def _one_of(folder: pathlib.Path, name: str) -> pathlib.Path:
    for path in (folder / name, folder / f"{name}.gz", folder / "dataset_splits" / name):
        if path.is_file():
            return path
    raise UserError(f"{folder / name} is missing: see data/coco_shift/README.md for its source")


def _synonyms(folder: pathlib.Path) -> tuple[dict[str, dict[str, Any]], list[pathlib.Path]]:
    lists = folder / "synonyms"
    if lists.is_dir():
        files = sorted(file for kind in KINDS for file in (lists / kind).glob("*.json"))
        words: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        for file in files:
            words[file.parent.name][file.stem] = read_json(file)
    else:
        files = [_one_of(folder, "synonyms.json")]
        words = read_json(files[0])
    if not all(isinstance(words.get(kind), dict) and words[kind] for kind in KINDS):
        raise UserError(f"{folder}: the synonym lists need {', '.join(KINDS)}")
    return words, files
