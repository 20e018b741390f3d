"""A prepared data set on disk: memory-mapped columns, a vocabulary, features and a manifest.

Reading is `open_dataset`, writing is `DatasetWriter`. The folder:

    dataset.json                  manifest, written last: without it the folder is unfinished
    columns/SPLIT/COLUMN.npy      one array per column, see `COLUMNS`
    vocab.txt                     one token per line, the id is the line number
    images.npy                    int64, source image id of every row that column `image` names
    features/                     optional feature store, its rows in the order of images.npy
    tfds/                         the same rows as a TFDS data set, optional
    raw/                          raw files of a built-in world, optional
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from mmgen.data.folder import MANIFEST, FolderWriter, read_manifest
from mmgen.data.store_files import BAD_ARRAY
from mmgen.data.tokenizer import Vocabulary, read_vocabulary, write_tokens
from mmgen.errors import UserError

if TYPE_CHECKING:
    from mmgen.data.features import FeatureStore

KIND = "masked_span"
SPLITS = ("train", "validation", "test", "novel")

COLUMNS: dict[str, tuple[str, type]] = {
    # Token ids of every caption, back to back, without special tokens.
    "tokens": ("total", np.int32),
    # Row i has tokens[token_start[i]:token_start[i + 1]].
    "token_start": ("n+1", np.int64),
    # Half-open span [start, stop) over the row's own tokens.
    "span": ("n 2", np.int32),
    # Index into the manifest's "tasks".
    "task": ("n", np.int32),
    # Index into images.npy, which is the row of the feature store.
    "image": ("n", np.int32),
    # Source caption id and source image id.
    "caption": ("n", np.int64),
    "image_id": ("n", np.int64),
    # Index into the manifest's "pairs", -1 without one.
    "pair": ("n", np.int32),
    # Token positions of the pair's atom (adjective or verb) and noun, -1 without one.
    "pair_tokens": ("n 2", np.int32),
}
"""Columns that every data set of the masked-span kind has: name -> (axes, numpy dtype)."""

FLOAT_COLUMNS = ("optimum", "optimum_text_only", "memoriser", "composer")
"""Extra float32[n] columns of built-in worlds: exact or oracle losses of an item, in nats."""


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """The rows of one split; arrays are memory-mapped and read-only.

    Attributes:
      name: name of the split.
      columns: name -> array, see `COLUMNS` and `FLOAT_COLUMNS`.
    """

    name: str
    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.columns["task"])

    def tokens(self, row: int) -> Int[np.ndarray, " t"]:
        """Token ids of the caption of `row`, without special tokens."""
        start = self.columns["token_start"]
        return self.columns["tokens"][start[row] : start[row + 1]]

    @property
    def lengths(self) -> Int[np.ndarray, " n"]:
        """Tokens of every row's caption, int64."""
        return np.diff(self.columns["token_start"])


class Dataset:
    """An opened data set.

    Attributes:
      root: its folder.
      info: the manifest `dataset.json`.
    """

    def __init__(self, root: pathlib.Path, info: dict[str, Any]):
        self.root = root
        self.info = info
        self._splits: dict[str, Split] = {}

    def split(self, name: str) -> Split:
        """The split called `name`; UserError names the splits there are."""
        if name not in self.info["splits"]:
            raise UserError(
                f"data set {self.info['name']} has no split {name!r}, only "
                f"{', '.join(self.info['splits'])}"
            )
        if name not in self._splits:
            self._splits[name] = _open_split(self.root, name, self.info["splits"][name])
        return self._splits[name]

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """Its vocabulary."""
        facts = self.info["vocabulary"]
        return read_vocabulary(
            self.root / "vocab.txt",
            word_level=facts["word_level"],
            rows=facts["rows"],
            size=facts["size"],
        )

    @functools.cached_property
    def features(self) -> "FeatureStore | None":
        """Its feature store, or None: such a data set only allows text-only runs."""
        if self.info["features"] is None:
            return None
        from mmgen.data.features import FeatureStore

        return FeatureStore.open(self.root / "features")

    @functools.cached_property
    def images(self) -> Int[np.ndarray, " i"]:
        """Source image ids; column `image` indexes them."""
        return np.load(self.root / "images.npy", mmap_mode="r")


def open_dataset(path: str | pathlib.Path) -> Dataset:
    """Open a prepared data set.

    Raises:
      UserError: `path` holds no finished data set, or one of another kind.
    """
    root = pathlib.Path(path)
    info = read_manifest(root, KIND, "NAME")
    return Dataset(root, info)


def _open_split(root: pathlib.Path, name: str, facts: dict[str, Any]) -> Split:
    folder = root / "columns" / name
    columns: dict[str, np.ndarray] = {}
    for column in facts["sha256"]:
        file = folder / f"{column}.npy"
        try:
            columns[column] = np.load(file, mmap_mode="r", allow_pickle=False)
        except BAD_ARRAY as error:
            raise UserError(
                f"{file} is missing or damaged ({error}): build the data set again"
            ) from error
    split = Split(name, columns)
    if len(split) != facts["examples"]:
        raise UserError(
            f"{folder} has {len(split)} rows where {MANIFEST} says {facts['examples']}: "
            "build the data set again"
        )
    return split


def masked_span_columns(
    tokens: Sequence[Sequence[int]],
    *,
    span: Any,
    task: Any,
    image: Any,
    caption: Any,
    image_id: Any,
    pair: Any = None,
    pair_tokens: Any = None,
    **floats: Any,
) -> dict[str, np.ndarray]:
    """Columns of a split from per-example values, in the dtypes of `COLUMNS`.

    Args:
      tokens: token ids of every example's caption.
      span: half-open spans [n, 2].
      task: task indices [n].
      image: rows of images.npy [n].
      caption: source caption ids [n].
      image_id: source image ids [n].
      pair: indices into the manifest's pairs [n]; None is -1 everywhere.
      pair_tokens: positions of atom and noun [n, 2]; None is -1 everywhere.
      **floats: extra float32 columns [n], see `FLOAT_COLUMNS`.
    """
    count = len(tokens)
    start = np.zeros(count + 1, np.int64)
    np.cumsum([len(row) for row in tokens], out=start[1:])
    flat = np.fromiter((token for row in tokens for token in row), np.int32, count=int(start[-1]))
    values = {
        "tokens": flat,
        "token_start": start,
        "span": span,
        "task": task,
        "image": image,
        "caption": caption,
        "image_id": image_id,
        "pair": np.full(count, -1) if pair is None else pair,
        "pair_tokens": np.full((count, 2), -1) if pair_tokens is None else pair_tokens,
    }
    columns: dict[str, np.ndarray] = {
        name: np.ascontiguousarray(values[name], dtype=dtype)
        for name, (_, dtype) in COLUMNS.items()
    }
    columns["span"] = columns["span"].reshape(count, 2)
    return columns | {
        name: np.ascontiguousarray(value, dtype=np.float32) for name, value in floats.items()
    }


class DatasetWriter(FolderWriter):
    """Builds a data set; see `FolderWriter` for what happens to one that is not finished.

        with DatasetWriter(root, info) as writer:
            writer.write_vocabulary(vocabulary)
            writer.write_images(image_ids)
            writer.write_split("train", columns)

    A feature store belongs into `folder / "features"`, raw files into `folder / "raw"`; whatever
    stands there at the end is part of the data set. With a feature store `write_images` may be
    left out: the store's image ids are taken.

    Args:
      root: the data set's folder.
      info: the manifest but for what is counted here (`splits`, `vocabulary`, `features`,
        `fingerprint`, `kind`): name, builder, settings, data_seed, tasks, pairs, max_objects,
        feature_dim, licences, sources, paper_scale, paper_size, world. No paths of this machine.
      force: replace a finished data set of that name.

    Raises:
      UserError: as `FolderWriter`, or a column breaks a rule of `mmgen.data.checks`.
    """

    def __init__(self, root: str | pathlib.Path, info: dict[str, Any], *, force: bool = False):
        super().__init__(root, force=force)
        self._info = dict(info, kind=KIND, splits={})

    def write_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Write vocab.txt."""
        write_tokens(self.folder / "vocab.txt", vocabulary.tokens)
        self._info["vocabulary"] = vocabulary.info()

    def write_images(self, image_ids: Int[np.ndarray, " i"]) -> None:
        """Write the source image ids that column `image` indexes."""
        write_array(self.folder / "images.npy", np.asarray(image_ids, np.int64))

    def write_split(self, name: str, columns: dict[str, np.ndarray]) -> None:
        """Write the columns of split `name` (one of `SPLITS`)."""
        if name not in SPLITS:
            raise ValueError(f"split {name!r} is none of {SPLITS}")
        folder = self.folder / "columns" / name
        folder.mkdir(parents=True)
        for column, value in columns.items():
            write_array(folder / f"{column}.npy", value)
        self._info["splits"][name] = {"sha256": dict.fromkeys(sorted(columns), "")}

    def complete(self) -> dict[str, Any]:
        """Checks every rule and counts; the manifest."""
        from mmgen.data.checks import check_dataset, complete_manifest

        store = self.folder / "features"
        if store.is_dir() and not (self.folder / "images.npy").exists():
            self.write_images(np.load(store / "image_ids.npy"))
        splits = self._info["splits"]
        self._info["splits"] = {name: splits[name] for name in SPLITS if name in splits}
        complete_manifest(self._info, self.folder)
        check_dataset(Dataset(self.folder, self._info))
        return self._info


def write_array(path: pathlib.Path, array: np.ndarray) -> None:
    """Write `array` as .npy; a full disk raises OSError with its errno (np.save loses it)."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(np.ascontiguousarray(array).data)
        file.flush()
        os.fsync(file.fileno())


def file_sha256(path: pathlib.Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
