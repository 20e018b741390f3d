"""`scene_world`: images and captions of a small grammar, with the exact optimum of every item.

The built-in world of VisCOLL (CORRECTIONS F). It writes raw files in COCO-shift's format, which
go through COCO-shift's reader into a prepared data set, and a feature store. The grammar is in
`scene_grammar`, the draws in `scene_sampling`, the posteriors in `scene_oracle`, what is known of
every item in `scene_scores`.

Measured with the default settings, four data seeds of 16,000 test and 6,000 novel items: optimum
.477 (.472 to .480), text-only optimum 2.01 (1.99 to 2.04); mean over adjective pairs, novel / seen:
memoriser .99 / .51, composer .46 / .50, true prior .30 / .56. A test split of 2,000 items has 260
images, so that its text-only optimum varies by .04. Section F has .54 for the optimum: the exact
posterior does better, .53 is what the composer reaches (adjective and verb independent of noun).

Read into the specification: topics are equally frequent, noun of rank i belongs to topic i modulo
6, images have one, two or three objects alike; so 20,000 instances take 2,600 images (2,860 with
the test split's). Novel images are drawn around a held-out pair, all pairs alike, in an object that
captions mention.
"""

import dataclasses
import gzip
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mmgen.data.builders.instances import Instances
from mmgen.data.builders.released import COCO_SIZE, read_coco_rows
from mmgen.data.columns import FLOAT_COLUMNS, DatasetWriter, masked_span_columns
from mmgen.data.features import FeatureItem, write_feature_store
from mmgen.data.tokenizer import Vocabulary
from mmgen.data.worlds.scene_grammar import (
    NOUNS,
    SceneWorldSettings,
    make_vocabulary,
    scene_settings,
)
from mmgen.data.worlds.scene_sampling import SceneWorld, make_scene_world
from mmgen.data.worlds.scene_scores import PairColumns, find_pairs, item_oracles, summarise

__all__ = ["SceneWorldSettings", "build_scene_world", "make_scene_world", "scene_settings"]

NAME = "scene_world"

FIRST_IMAGE_ID = 100_000
"""Source ids are no row numbers, so that neither can stand in for the other unnoticed."""

CHUNK = 256
"""Images whose features are in memory at once."""


def build_scene_world(
    root: pathlib.Path, settings: SceneWorldSettings, *, force: bool = False
) -> None:
    """Build the world into the folder `root`, which appears only when it is finished.

    Args:
      root: the data set's folder.
      settings: of the world; the same settings give the same bytes.
      force: replace a finished data set.

    Raises:
      UserError: `root` is finished already or is not ours, or the disk is full.
    """
    world = make_scene_world(settings)
    vocabulary = make_vocabulary(settings)
    pairs, marked = find_pairs(world)
    oracles = {split: item_oracles(world, split, marked[split]) for split in world.splits}
    info = _manifest(world, pairs)
    info["oracles"] = {split: summarise(oracles[split], marked[split], pairs) for split in oracles}
    with DatasetWriter(root, info, force=force) as writer:
        writer.write_vocabulary(vocabulary)
        write_feature_store(writer.folder / "features", feature_items(world), FEATURE_FACTS)
        raw = writer.folder / "raw"
        raw.mkdir()
        for split in world.splits:
            path = raw / f"{NAME}_{split}.jsonl.gz"
            write_raw(path, raw_rows(world, split))
            rows = read_coco_rows(path, info["tasks"], _image_ids(world), _Words(vocabulary))
            writer.write_split(split, _columns(rows, marked[split], oracles[split]))


FEATURE_FACTS = {
    "extractor": f"{NAME}: sum of the codes of an object's atoms and role, plus noise",
    "trained_on": "nothing: the codes are drawn",
    "box_convention": "x1, y1, x2, y2 in [0, 1]",
}


def _manifest(world: SceneWorld, pairs: list[dict[str, Any]]) -> dict[str, Any]:
    settings = dataclasses.asdict(world.settings)
    return {
        "name": NAME,
        "builder": f"{__name__}:{build_scene_world.__name__}",
        "settings": settings,
        "data_seed": settings.pop("data_seed"),
        "tasks": list(NOUNS[: world.settings.nouns]),
        "pairs": pairs,
        "max_objects": world.settings.max_objects,
        "feature_dim": world.settings.feature_dim,
        "licences": ["none needed: drawn by mmgen"],
        "sources": [],
        "paper_scale": False,
        "paper_size": COCO_SIZE,
        "world": True,
    }


def _image_ids(world: SceneWorld) -> set[int]:
    images = sum(len(scenes.objects) for scenes, _ in world.splits.values())
    return set(range(FIRST_IMAGE_ID, FIRST_IMAGE_ID + images))


def _first_images(world: SceneWorld) -> dict[str, int]:
    """Row of the feature store of each split's first image."""
    counts = [len(scenes.objects) for scenes, _ in world.splits.values()]
    return dict(zip(world.splits, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))


def raw_rows(world: SceneWorld, split: str) -> Iterator[dict[str, Any]]:
    """Rows of a split in COCO-shift's raw format; the end of `mask` is inclusive, in words."""
    _, items = world.splits[split]
    first_image = FIRST_IMAGE_ID + _first_images(world)[split]
    first_caption = first_image * world.settings.captions_per_image
    image_id = first_image + items.caption_image
    words = np.array(world.lexicon.words)
    tasks = items.mention_words(items.mention)[0][:, 2] - world.lexicon.noun
    rows = zip(items.caption.tolist(), tasks.tolist(), items.spans().tolist(), strict=True)
    for caption, task, (start, stop) in rows:
        annotation = {
            "image_id": int(image_id[caption]),
            "id": first_caption + caption,
            "caption": " ".join(words[items.words[caption][items.present[caption]]]),
        }
        yield {"annotation": annotation, "task": NOUNS[task], "mask": [start, stop - 1]}


def write_raw(path: pathlib.Path, rows: Iterator[dict[str, Any]]) -> None:
    """Write rows as gzipped JSON lines, without the time and name that gzip would note."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        for row in rows:
            packed.write((json.dumps(row) + "\n").encode())


def feature_items(world: SceneWorld) -> Iterator[FeatureItem]:
    """Images of all splits for the feature store: float16, in the order of their rows."""
    row = 0
    for scenes, _ in world.splits.values():
        for start in range(0, len(scenes.objects), CHUNK):
            latent = scenes.latent[start : start + CHUNK]
            features = latent @ world.codes.projection
            for index, objects in enumerate(features, start=start):
                count = scenes.objects[index]
                shown = objects[:count].astype(np.float16)
                whole = objects[:count].mean(0).astype(np.float16)
                boxes = scenes.boxes[index, :count].astype(np.float32)
                yield FIRST_IMAGE_ID + row, shown, boxes, whole
                row += 1


class _Words:
    """Encoder of captions whose tokens are words."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._vocabulary.encode_words(text.split()) for text in texts]


def _columns(
    rows: Instances,
    marked: PairColumns,
    oracles: dict[str, Float[np.ndarray, " m"]],
) -> dict[str, np.ndarray]:
    return masked_span_columns(
        rows.tokens,
        span=rows.span,
        task=rows.task,
        image=rows.image_id - FIRST_IMAGE_ID,
        caption=rows.caption,
        image_id=rows.image_id,
        pair=marked.pair,
        pair_tokens=marked.tokens,
        **{name: oracles[name] for name in FLOAT_COLUMNS},
    )
