"""The feature store: ragged region features of images in memory-mapped arrays.

The files are described in `mmgen.data.feature_format`.
"""

import contextlib
import functools
import json
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.data.checks import file_sha256
from mmgen.data.feature_format import (
    ARRAYS,
    FEATURE_DTYPES,
    FILES,
    MANIFEST,
    boxes_valid,
    check_shapes,
    damaged,
    open_array,
    read_manifest,
)
from mmgen.data.store_files import NpyWriter, new_folder
from mmgen.errors import UserError

CHUNK = 4096
"""Rows that a check holds in memory at a time."""

FeatureItem = tuple[int, np.ndarray, np.ndarray, np.ndarray]
"""Image id, features[k, d], boxes[k, 4] in [0, 1] and the whole image's feature[d]."""

REQUIRED = ("extractor", "trained_on", "box_convention")
"""Facts that the manifest must state: a feature without its origin cannot be judged."""


class Gathered(NamedTuple):
    """Regions of a batch of images, padded; zero where `object_mask` is False.

    Attributes:
      features: [b, o, d] in the dtype of the store.
      boxes: float32[b, o, 4].
      object_mask: bool[b, o].
      image_feature: [b, d] in the dtype of the store.
    """

    features: Float[np.ndarray, "b o d"]
    boxes: Float[np.ndarray, "b o 4"]
    object_mask: Bool[np.ndarray, "b o"]
    image_feature: Float[np.ndarray, "b d"]


class FeatureStore:
    """An opened, read-only store. Arrays are memory-mapped; see the module for their shapes.

    Attributes:
      path: its folder.
      manifest: the content of manifest.json.
      features, boxes, offsets, whole_image, image_ids: the arrays.
      counts: int32[images], boxes of each image.
    """

    def __init__(self, path: pathlib.Path, manifest: dict[str, Any], arrays: dict[str, np.ndarray]):
        self.path = path
        self.manifest = manifest
        self.features = arrays["features"]
        self.boxes = arrays["boxes"]
        self.offsets = arrays["offsets"]
        self.whole_image = arrays["whole_image"]
        self.image_ids = arrays["image_ids"]
        self.counts: Int[np.ndarray, " images"] = np.diff(self.offsets).astype(np.int32)

    @classmethod
    def open(cls, path: str | pathlib.Path, verify: bool = False) -> "FeatureStore":
        """Open the store in `path`.

        Args:
          path: its folder.
          verify: also read every byte: checksums, finite features, boxes inside [0, 1].

        Raises:
          UserError: no finished store, or a file that is missing, damaged, of a wrong shape or
            dtype; with `verify` also a wrong checksum, NaN, infinity or box.
        """
        root = pathlib.Path(path)
        manifest = read_manifest(root)
        arrays = {name: open_array(root, name, manifest) for name in ARRAYS}
        check_shapes(root, arrays)
        store = cls(root, manifest, arrays)
        if verify:
            store.verify()
        return store

    def __len__(self) -> int:
        """Number of images."""
        return len(self.image_ids)

    @property
    def dim(self) -> int:
        """Width of a feature."""
        return self.features.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """float16 or float32."""
        return self.features.dtype

    def gather(self, rows: Int[np.ndarray, " b"], max_objects: int) -> Gathered:
        """Regions and whole-image features of `rows`, padded or cut to `max_objects` slots.

        Args:
          rows: rows of the store; negative ones give an empty image.
          max_objects: slots; further boxes of an image are left out, the last ones first.

        Raises:
          IndexError: a row beyond the store.
        """
        rows = np.asarray(rows)
        known = np.where(rows < 0, 0, rows)
        mask = self.object_mask(rows, max_objects)
        boxes_of_slots = self.offsets[known][:, None] + np.arange(max_objects)
        source = np.where(mask, boxes_of_slots, 0).ravel()
        shape = mask.shape
        image_feature = self.whole_image[known]
        image_feature[rows < 0] = 0
        return Gathered(
            _take(self.features, source, mask).reshape(*shape, self.dim),
            _take(self.boxes, source, mask).reshape(*shape, 4),
            mask,
            image_feature,
        )

    def object_mask(self, rows: Int[np.ndarray, " b"], max_objects: int) -> Bool[np.ndarray, "b o"]:
        """Which slots hold an object; negative rows have none."""
        counts = np.where(rows < 0, 0, self.counts[rows])
        return np.arange(max_objects) < counts[:, None]

    @functools.cached_property
    def _sorted_ids(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.image_ids, kind="stable")
        return order, np.asarray(self.image_ids)[order]

    def rows_of(self, image_ids: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Rows of the images with these source ids, int32.

        Raises:
          UserError: an image is not in the store; the first such id is named.
        """
        wanted = np.asarray(image_ids, np.int64)
        order, known = self._sorted_ids
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        missing = np.unique(wanted[known[at] != wanted])
        if len(missing):
            raise UserError(
                f"the feature store {self.path} has no image {missing[0]} ({len(missing):,} images "
                "are missing): import features of all images, or train with :text_only"
            )
        return order[at].astype(np.int32)

    def verify(self) -> None:
        """Read every byte; see `open`."""
        for file in FILES:
            if file_sha256(self.path / file) != self.manifest["sha256"][file]:
                raise damaged(self.path / file, "its checksum is not the manifest's")
        self._verify_finite("features")
        self._verify_finite("whole_image")
        bad = np.flatnonzero(~boxes_valid(self.boxes))
        if len(bad):
            raise damaged(
                self.path / "boxes.npy",
                f"image {self._image_of_box(bad[0])} has the box {self.boxes[bad[0]].tolist()}, "
                "expected 0 <= x1 <= x2 <= 1 and 0 <= y1 <= y2 <= 1",
            )

    def _image_of_box(self, box: int) -> int:
        return int(self.image_ids[np.searchsorted(self.offsets, box, side="right") - 1])

    def _verify_finite(self, name: str) -> None:
        values = self.features if name == "features" else self.whole_image
        for start in range(0, len(values), CHUNK):
            bad = np.flatnonzero(~np.isfinite(values[start : start + CHUNK]).all(1))
            if len(bad):
                row = start + int(bad[0])
                image = self._image_of_box(row) if name == "features" else self.image_ids[row]
                raise damaged(
                    self.path / f"{name}.npy",
                    f"image {image} has a value that is NaN or infinite",
                )


def _take(values: np.ndarray, source: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Rows `source` of `values`, zero where `mask` is False."""
    if len(values) == 0:
        return np.zeros((len(source), values.shape[1]), values.dtype)
    # Padded slots read row 0, which stays in the cache: one pass, no scatter.
    taken = values.take(source, axis=0)
    taken[~mask.ravel()] = 0
    return taken


def write_feature_store(
    path: str | pathlib.Path, items: Iterable[FeatureItem], manifest: dict[str, Any]
) -> dict[str, Any]:
    """Write a feature store and return its complete manifest.

    Built in a temporary sibling folder and renamed at the end; on any failure nothing stays.

    Args:
      path: folder to write; it must not exist.
      items: images in the order of their rows. Features are float16 or float32, all of one dtype
        and width; an image may have no box.
      manifest: facts of origin: `extractor`, `trained_on` and `box_convention` (of the source;
        stored boxes are always x1, y1, x2, y2 in [0, 1]), and any others.

    Raises:
      UserError: the folder exists, there is no image, an image comes twice, or an image has a
        wrong shape, dtype, box, NaN or infinity; or the disk is full.
      ValueError: a required fact is missing.
    """
    missing = [key for key in REQUIRED if key not in manifest]
    if missing:
        raise ValueError(f"the manifest of a feature store needs {', '.join(missing)}")
    with new_folder(pathlib.Path(path)) as folder:
        shapes, dtype = _write_arrays(folder, items)
        complete = {
            **manifest,
            "dtype": dtype.name,
            "shapes": shapes,
            "sha256": {file: file_sha256(folder / file) for file in FILES},
        }
        text = json.dumps(complete, indent=2, sort_keys=True) + "\n"
        (folder / MANIFEST).write_text(text, encoding="utf-8")
    return complete


def _write_arrays(
    folder: pathlib.Path, items: Iterable[FeatureItem]
) -> tuple[dict[str, list[int]], np.dtype]:
    offsets, image_ids = [0], []
    seen: set[int] = set()
    with contextlib.ExitStack() as stack:
        files: dict[str, NpyWriter] = {}
        for image_id, features, boxes, whole in items:
            if not files:
                dim, dtype = _first_format(image_id, features)
                for name, width, kind in (
                    ("features", dim, dtype),
                    ("boxes", 4, np.dtype(np.float32)),
                    ("whole_image", dim, dtype),
                ):
                    writer = NpyWriter(folder / f"{name}.npy", (width,), kind)
                    files[name] = stack.enter_context(writer)
            _check_item(image_id, features, boxes, whole, dim, dtype)
            if image_id in seen:
                raise UserError(f"image {image_id} comes twice in the source of the features")
            seen.add(image_id)
            files["features"].append(features)
            files["boxes"].append(boxes.astype(np.float32, copy=False))
            files["whole_image"].append(whole[None])
            offsets.append(offsets[-1] + len(features))
            image_ids.append(image_id)
        if not files:
            raise UserError("the source of the features has no image")
    for name, values in (("offsets", offsets), ("image_ids", image_ids)):
        np.save(folder / f"{name}.npy", np.array(values, np.int64))
    boxes_total, images = offsets[-1], len(image_ids)
    shapes = {
        "features": [boxes_total, dim],
        "boxes": [boxes_total, 4],
        "offsets": [images + 1],
        "whole_image": [images, dim],
        "image_ids": [images],
    }
    return shapes, dtype


def _first_format(image_id: int, features: np.ndarray) -> tuple[int, np.dtype]:
    if features.ndim != 2 or features.dtype not in FEATURE_DTYPES:
        raise UserError(
            f"image {image_id}: features are {features.dtype}{list(features.shape)}, expected "
            "float16 or float32 [boxes, d]"
        )
    return features.shape[1], features.dtype


def _check_item(
    image_id: int,
    features: np.ndarray,
    boxes: np.ndarray,
    whole: np.ndarray,
    dim: int,
    dtype: np.dtype,
) -> None:
    if features.ndim != 2 or features.shape[1] != dim or features.dtype != dtype:
        raise UserError(
            f"image {image_id}: features are {features.dtype}{list(features.shape)}, those of the "
            f"first image are {dtype}[boxes, {dim}]"
        )
    if boxes.shape != (len(features), 4):
        raise UserError(
            f"image {image_id}: boxes have shape {list(boxes.shape)}, expected [{len(features)}, 4]"
        )
    if whole.shape != (dim,) or whole.dtype != dtype:
        raise UserError(
            f"image {image_id}: the whole-image feature is {whole.dtype}{list(whole.shape)}, "
            f"expected {dtype}[{dim}]"
        )
    if not (np.isfinite(features).all() and np.isfinite(whole).all()):
        raise UserError(
            f"image {image_id}: a feature is NaN, infinite or too large for {dtype}: extract it "
            "again, or store float32"
        )
    valid = boxes_valid(boxes.astype(np.float32, copy=False))
    if not valid.all():
        raise UserError(
            f"image {image_id}: box {boxes[~valid][0].tolist()} is not x1 <= x2, y1 <= y2 within "
            "[0, 1]: check the box convention and the image size"
        )
