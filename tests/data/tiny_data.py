"""A tiny release in the format of the real one, and a tiny prepared data set."""

import json
import pathlib
import pickle

import numpy as np

from mmgen.data.columns import DatasetWriter, masked_span_columns
from mmgen.data.tokenizer import world_vocabulary

INFO = {
    "name": "tiny",
    "builder": "test",
    "settings": {"size": 3},
    "data_seed": 0,
    "tasks": ["dog", "cat"],
    "pairs": [],
    "max_objects": 0,
    "feature_dim": 0,
    "licences": ["none"],
    "sources": [],
    "paper_scale": False,
    "paper_size": 639_592,
    "world": False,
}
WORDS = ("a", "brown", "dog", "cat", "runs")

COCO_CAPTIONS = (
    (11, 1, "A brown dog runs"),
    (11, 2, "A cat"),
    (12, 3, "A skateboarding cat runs"),
    (13, 4, "A dog"),
)


def tiny_columns(**changed):
    """Columns of three rows, with some of them replaced."""
    values = {
        "span": [[0, 3], [0, 2], [1, 2]],
        "task": [0, 1, 0],
        "image": [0, 0, 1],
        "caption": [1, 2, 3],
        "image_id": [11, 11, 12],
    } | changed
    return masked_span_columns([[7, 8, 9, 11], [7, 10], [7, 9]], **values)


def write_tiny(root, info=None, *, force=False, **changed):
    """A finished data set of three training rows."""
    with DatasetWriter(root, INFO | (info or {}), force=force) as writer:
        writer.write_vocabulary(world_vocabulary(WORDS))
        writer.write_images(np.array([11, 12]))
        writer.write_split("train", tiny_columns(**changed))
    return root


def coco_row(index, task, first, last):
    """One row of a released COCO stream; the span's end is inclusive."""
    image, caption, text = COCO_CAPTIONS[index]
    annotation = {"image_id": image, "id": caption, "caption": text}
    return {"annotation": annotation, "task": task, "mask": (first, last)}


def flickr_row(number, words, task, span, image="21"):
    """One row of a released Flickr stream; the span is half-open."""
    return {
        "tokens": words.split(),
        "task_id": task,
        "image_id": image,
        "instance_id": number,
        "phrase_offset": span,
    }


class Release:
    """A folder like `datasets/` of the release; `write` replaces one of its files."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        (folder / "pickles").mkdir(parents=True)
        nouns = ["dog", "cat", *(f"noun{i}" for i in range(78))]
        self.text("coco_nouns.txt", "".join(f"{noun}, synonym of {noun}\n" for noun in nouns))
        self.json("coco_train_map.json", {"0": 11, "1": 12})
        self.json("coco_val_map.json", {"0": 13})
        rows = [coco_row(0, "dog", 0, 2), coco_row(1, "cat", 0, 1), coco_row(2, "cat", 1, 3)]
        self.pickle("coco", "train_split_val_novel_comps_False", rows)
        self.pickle("coco", "val_split_val_novel_comps_False", [coco_row(3, "dog", 0, 1)])
        self.pickle("coco", "val_split_val_novel_comps_True", [coco_row(3, "dog", 1, 1)])
        self.json("flickr_tasks.json", {"tasks": ["man", "dog"], "stat_nouns": []})
        words = ["[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]", "a", "man", "dog"]
        fill = [f"word{i}" for i in range(20_316 - len(words))]
        self.text("flickr_vocab.txt", "\n".join(words + fill) + "\n")
        rows = [
            flickr_row(i, "a man a dog", i % 2, (2 * (i % 2), 2 * (i % 2) + 2), str(21 + i // 2))
            for i in range(40)
        ]
        self.pickle("flickr", "val", rows)

    def text(self, name, content):
        (self.folder / name).write_text(content, encoding="utf-8")

    def json(self, name, value):
        self.text(name, json.dumps(value))

    def path(self, corpus, part):
        name = {
            "coco": f"task_buffer_real_split_{part}_task_partition_any_objects.pkl",
            "flickr": f"flickr_task_buffer_{part}_0.pkl",
        }[corpus]
        return self.folder / "pickles" / name

    def pickle(self, corpus, part, rows):
        self.path(corpus, part).write_bytes(pickle.dumps(rows, protocol=3))
