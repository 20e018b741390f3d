"""COCO-shift and Flickr-shift from the released streams (INK-USC/VisCOLL, folder `datasets/`).

The streams are pickled lists of plain dicts. COCO spans are inclusive over the caption's
bert-base-uncased WordPieces, Flickr spans half-open over words (viscoll.md section 1); both become
half-open here. Row numbers in messages count from 1.
"""

import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from mmgen.data.builders.heldout import read_heldout
from mmgen.data.builders.instances import (
    Instances,
    cut_by_image,
    make_instances,
    write_instances,
)
from mmgen.data.builders.rawfiles import (
    find_raw,
    read_json,
    read_lines,
    read_rows,
    require_raw,
    source_of,
)
from mmgen.data.builders.request import BuildRequest
from mmgen.data.tokenizer import Vocabulary, flickr_vocabulary, load_wordpiece
from mmgen.data.unpickle import load_plain_pickle
from mmgen.errors import UserError

COCO_SIZE, FLICKR_SIZE = 639_592, 456_299
"""Training instances that the paper states; stream constants scale with them."""

COCO_PARTS = {"train": "train_split_train_novel_comps_False",
              "dev": "train_split_val_novel_comps_False",
              "test": "val_split_val_novel_comps_False",
              "novel": "val_split_val_novel_comps_True"}  # fmt: skip
COCO_SPLITS = {"train": "train", "validation": "dev", "test": "test", "novel": "novel"}
FLICKR_SPLITS = {"train": "train", "validation": "val", "test": "test"}

VALIDATION_SHARE = 0.1
TEST_SHARE = 0.1
"""Shares of the images cut out where a released part serves as training stream."""


def coco_names(part: str) -> tuple[str, str]:
    """File names of a COCO part: the released pickle, and the same rows as JSON lines."""
    pickle = f"task_buffer_real_split_{COCO_PARTS[part]}_task_partition_any_objects.pkl"
    return pickle, f"coco_{'test_novel_comps' if part == 'novel' else part}.jsonl.gz"


def flickr_names(part: str) -> tuple[str, str]:
    """File names of a Flickr part: the released pickle, and the same rows as JSON lines."""
    return f"flickr_task_buffer_{part}_0.pkl", f"flickr_{part}.jsonl.gz"


def build_coco_shift(request: BuildRequest) -> pathlib.Path:
    """COCO-shift; with `train_from="dev"` it is `coco_shift_devtrain`. Returns its folder."""
    raw = request.raw_folder()
    choice = _choose_train(request, raw, *coco_names("train"), substitute="dev")
    tasks = coco_tasks(raw)
    maps = [require_raw(raw, f"coco_{part}_map.json") for part in ("train", "val")]
    images = {image for path in maps for image in read_image_map(path)}
    wordpiece = load_wordpiece(request.tokenizer)
    paths = {
        split: require_raw(raw, *coco_names(part))
        for split, part in COCO_SPLITS.items()
        if split != "train" or not choice.substituted
    }
    splits = {
        split: read_coco_rows(path, tasks, images, wordpiece) for split, path in paths.items()
    }
    if choice.substituted:
        shares = {"train": 1 - VALIDATION_SHARE, "validation": VALIDATION_SHARE}
        stream = splits.pop("validation")
        parts = cut_by_image(stream, shares, data_seed=request.data_seed, stream="split/coco_shift")
        splits = parts | splits
    heldout = None if request.pairs is None else read_heldout(request.pairs)
    info = {
        "builder": "mmgen.data.builders.released:build_coco_shift",
        "settings": {"train_from": request.train_from, "tokenizer": "bert-base-uncased"},
        "tasks": tasks,
        "licences": [
            "VisCOLL streams: none stated",
            "COCO captions: CC BY 4.0 (COCO Consortium)",
        ],
        "sources": [source_of(path) for path in (*paths.values(), *maps)]
        + (heldout.sources if heldout else []),
        "paper_scale": not choice.substituted,
        "paper_size": COCO_SIZE,
    }
    table = heldout.table if heldout else None
    return write_instances(request, choice.name, splits, wordpiece.vocabulary, info, table)


def build_flickr_shift(request: BuildRequest) -> pathlib.Path:
    """Flickr-shift; with `train_from="val"` it is `flickr_shift_valtrain`. Returns its folder."""
    if request.pairs is not None:
        raise UserError("--pairs: the held-out concept pairs are defined on COCO only")
    raw = request.raw_folder()
    choice = _choose_train(request, raw, *flickr_names("train"), substitute="val")
    vocabulary_path = require_raw(raw, "flickr_vocab.txt")
    vocabulary = flickr_vocabulary(vocabulary_path)
    tasks = flickr_tasks(raw)
    parts = {"validation": "val"} if choice.substituted else FLICKR_SPLITS
    paths = {split: require_raw(raw, *flickr_names(part)) for split, part in parts.items()}
    captions: dict[Any, int] = {}
    splits = {
        split: read_flickr_rows(path, len(tasks), vocabulary, captions)
        for split, path in paths.items()
    }
    if choice.substituted:
        shares = {
            "train": 1 - VALIDATION_SHARE - TEST_SHARE,
            "validation": VALIDATION_SHARE,
            "test": TEST_SHARE,
        }
        splits = cut_by_image(
            splits["validation"], shares, data_seed=request.data_seed, stream="split/flickr_shift"
        )
    info = {
        "builder": "mmgen.data.builders.released:build_flickr_shift",
        "settings": {"train_from": request.train_from, "tokenizer": "flickr_vocab"},
        "tasks": tasks,
        "licences": [
            "VisCOLL streams: none stated",
            "Flickr30k captions: non-commercial research and education",
        ],
        "sources": [source_of(path) for path in (*paths.values(), vocabulary_path)],
        "paper_scale": not choice.substituted,
        "paper_size": FLICKR_SIZE,
    }
    return write_instances(request, choice.name, splits, vocabulary, info)


class _Choice(NamedTuple):
    name: str
    substituted: bool


def _choose_train(
    request: BuildRequest, raw: pathlib.Path, *names: str, substitute: str
) -> _Choice:
    """Which stream trains, and the data set's name that says so."""
    request.chosen({})
    if request.train_from == substitute:
        return _Choice(f"{request.name}_{substitute}train", True)
    if request.train_from not in (None, "train"):
        raise UserError(
            f"--train-from={request.train_from}: {request.name} can train on train or {substitute}"
        )
    if find_raw(raw, *names) is None:
        raise UserError(
            f"the training stream {names[0]} is missing below {raw}: put it there, or give "
            f"--train-from={substitute} to train on that part ({request.name}_{substitute}train)"
        )
    return _Choice(request.name, False)


def coco_tasks(raw: pathlib.Path) -> list[str]:
    """The 80 COCO categories in the order of the noun table; the release's streams have 58."""
    path = require_raw(raw, "coco_nouns.txt")
    tasks = [line.split(",")[0].strip() for line in read_lines(path) if line.strip()]
    if len(tasks) != 80 or len(set(tasks)) != 80:
        raise UserError(f"{path} has {len(set(tasks))} categories, the released table has 80")
    return tasks


def flickr_tasks(raw: pathlib.Path) -> list[str]:
    """The 1,000 nouns of Flickr-shift; their position is the task id."""
    path = require_raw(raw, "flickr_tasks.pkl", "flickr_tasks.json")
    value = load_plain_pickle(path) if path.suffix == ".pkl" else read_json(path)
    tasks = value.get("tasks") if isinstance(value, dict) else None
    if not isinstance(tasks, list) or not all(isinstance(task, str) for task in tasks):
        raise UserError(f"{path} has no list of task words under the key 'tasks'")
    if len(set(tasks)) != len(tasks):
        raise UserError(f"{path} names a task twice")
    return tasks


def read_image_map(path: pathlib.Path) -> list[int]:
    """Image ids in the order of the released feature file's rows; UserError for a damaged map."""
    value = read_json(path)
    try:
        ids = [int(value[str(row)]) for row in range(len(value))]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is no map from row number to image id ({error!r})") from error
    if len(set(ids)) != len(ids):
        raise UserError(f"{path} names an image twice")
    return ids


class Encoder(Protocol):
    """What turns captions into token ids: `WordPiece`, or the words of a built-in world."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        ...


def read_coco_rows(
    path: pathlib.Path, tasks: list[str], images: set[int], encoder: Encoder
) -> Instances:
    """Rows of a released COCO stream whose image is in `images`, as half-open spans.

    Raises:
      UserError: a row is no row of such a stream, has an empty caption, an unknown task or a span
        outside its caption, or gives a caption id to a second caption.
    """
    rows = read_rows(path)
    captions: dict[int, tuple[int, str]] = {}
    for number, row in enumerate(rows, start=1):
        where = f"{path}, row {number}"
        try:
            annotation = row["annotation"]
            image, caption, text = annotation["image_id"], annotation["id"], annotation["caption"]
            task, (first, last) = row["task"], row["mask"]
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{where} is no row of a COCO stream ({error!r})") from error
        if not _integers(image, caption, first, last) or not isinstance(text, str):
            raise UserError(f"{where} is no row of a COCO stream (a value of the wrong type)")
        if not text.strip():
            raise UserError(f"{where} has an empty caption (id {caption})")
        if task not in tasks:
            raise UserError(f"{where} has the task {task!r}, which is not in coco_nouns.txt")
        if captions.setdefault(caption, (image, text)) != (image, text):
            raise UserError(f"{where}: caption id {caption} is a duplicate of another caption's")
    encoded = encoder.encode([text for _, text in captions.values()])
    tokens = dict(zip(captions, encoded, strict=True))
    index = {task: position for position, task in enumerate(tasks)}
    kept = []
    for number, row in enumerate(rows, start=1):
        caption, (first, last) = row["annotation"]["id"], row["mask"]
        if not 0 <= first <= last < len(tokens[caption]):
            raise UserError(
                f"{path}, row {number}: the span {first}..{last} lies outside caption {caption} "
                f"of {len(tokens[caption])} tokens"
            )
        image = row["annotation"]["image_id"]
        if image in images:
            kept.append((tokens[caption], first, last + 1, index[row["task"]], caption, image))
    if not kept:
        raise UserError(f"{path}: no row has an image of the image maps")
    return make_instances(kept)


def read_flickr_rows(
    path: pathlib.Path, tasks: int, vocabulary: Vocabulary, captions: dict[Any, int]
) -> Instances:
    """Rows of a released Flickr stream.

    Args:
      path: the stream.
      tasks: number of tasks.
      vocabulary: word list; every word must be in it.
      captions: (image id, words) -> number of the caption by first appearance. The release has no
        caption ids; this dict is filled here and shared by the parts of a data set.

    Raises:
      UserError: as for COCO; also for an instance id that occurs twice or an unknown word.
    """
    kept: list[tuple[list[int], int, int, int, int, int]] = []
    encoded: dict[int, list[int]] = {}
    instances: set[int] = set()
    for number, row in enumerate(read_rows(path), start=1):
        where = f"{path}, row {number}"
        try:
            words, task, instance = tuple(row["tokens"]), row["task_id"], row["instance_id"]
            image, (start, stop) = int(row["image_id"]), row["phrase_offset"]
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{where} is no row of a Flickr stream ({error!r})") from error
        if not _integers(task, instance, start, stop):
            raise UserError(f"{where} is no row of a Flickr stream (a value of the wrong type)")
        if instance in instances:
            raise UserError(f"{where}: instance id {instance} is a duplicate")
        instances.add(instance)
        if not words:
            raise UserError(f"{where} has an empty caption")
        if not 0 <= task < tasks:
            raise UserError(f"{where} has the task {task}, there are only 0..{tasks - 1}")
        if not 0 <= start < stop <= len(words):
            raise UserError(
                f"{where}: the span [{start}, {stop}) lies outside its caption of "
                f"{len(words)} words"
            )
        caption = captions.setdefault((image, words), len(captions))
        if caption not in encoded:
            unknown = [word for word in words if word not in vocabulary]
            if unknown:
                raise UserError(
                    f"{where}: the word {unknown[0]!r} is not in flickr_vocab.txt: is it the "
                    "released vocabulary?"
                )
            encoded[caption] = vocabulary.encode_words(words)
        kept.append((encoded[caption], start, stop, task, caption, image))
    return make_instances(kept)


def _integers(*values: Any) -> bool:
    return all(isinstance(value, int | np.integer) for value in values)
