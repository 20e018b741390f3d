"""The files of a feature store, and the checks that opening one makes.

The folder:

    features.npy      [total boxes, d] float16 or float32, image after image
    boxes.npy         [total boxes, 4] float32: x1, y1, x2, y2 scaled to [0, 1]
    offsets.npy       [images + 1] int64: image i has boxes offsets[i]:offsets[i + 1]
    whole_image.npy   [images, d], one explicit feature of the whole image
    image_ids.npy     [images] int64, the source's image ids
    manifest.json     extractor, trained_on, box_convention, dtype, shapes, sha256 per file;
                      written last
"""

import json
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from mmgen.data.store_files import BAD_ARRAY
from mmgen.errors import UserError

MANIFEST = "manifest.json"
ARRAYS = ("features", "boxes", "offsets", "whole_image", "image_ids")
FILES = tuple(f"{name}.npy" for name in ARRAYS)
FEATURE_DTYPES = (np.dtype(np.float16), np.dtype(np.float32))


def boxes_valid(boxes: Float[np.ndarray, "n 4"]) -> Bool[np.ndarray, " n"]:
    """Whether each box has 0 <= x1 <= x2 <= 1 and 0 <= y1 <= y2 <= 1."""
    inside = np.all((boxes >= 0) & (boxes <= 1), axis=1)
    return inside & np.all(boxes[:, :2] <= boxes[:, 2:], axis=1)


def damaged(file: pathlib.Path, fault: str) -> UserError:
    """The error of a store whose `file` has the `fault`."""
    return UserError(f"{file}: {fault}; import the features again")


def read_manifest(root: pathlib.Path) -> dict[str, Any]:
    """The manifest of the store in `root`; UserError if there is none or it is damaged."""
    file = root / MANIFEST
    if not file.is_file():
        raise UserError(
            f"{root} holds no finished feature store ({MANIFEST} is missing): import features with "
            "python -m mmgen.data.importers SOURCE --out DIR"
        )
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        complete = manifest["dtype"] and set(ARRAYS) <= set(manifest["shapes"])
        complete = complete and set(FILES) <= set(manifest["sha256"])
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise damaged(file, f"it is damaged ({error!r})") from error
    if not complete:
        raise damaged(file, "it names no shape or checksum of some array")
    return manifest


def open_array(root: pathlib.Path, name: str, manifest: dict[str, Any]) -> np.ndarray:
    """Map one array; UserError unless its shape and dtype are the manifest's."""
    file = root / f"{name}.npy"
    try:
        # A plain view of the map: indexing np.memmap itself costs as much as a small gather. The
        # map refuses arrays without a row, which only an imageless store's boxes have.
        empty = 0 in manifest["shapes"][name]
        array = np.load(file, mmap_mode=None if empty else "r", allow_pickle=False)
        array = np.asarray(array)
    except BAD_ARRAY as error:
        raise damaged(file, f"it is missing or damaged ({error})") from error
    shape = tuple(manifest["shapes"][name])
    expected = {
        "features": np.dtype(manifest["dtype"]),
        "whole_image": np.dtype(manifest["dtype"]),
        "boxes": np.dtype(np.float32),
    }.get(name, np.dtype(np.int64))
    if array.shape != shape or array.dtype != expected:
        raise damaged(
            file,
            f"it is {array.dtype}{list(array.shape)} where the manifest says "
            f"{expected}{list(shape)}",
        )
    return array


def check_shapes(root: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    """Check that the arrays of a store fit one another; UserError names the file."""
    features, offsets = arrays["features"], arrays["offsets"]
    if features.dtype not in FEATURE_DTYPES or features.ndim != 2:
        raise damaged(
            root / "features.npy",
            f"it is {features.dtype}{list(features.shape)}, expected float16 or float32 [boxes, d]",
        )
    images = len(arrays["image_ids"])
    expected = {
        "boxes": (len(features), 4),
        "offsets": (images + 1,),
        "whole_image": (images, features.shape[1]),
        "image_ids": (images,),
    }
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise damaged(
                root / f"{name}.npy",
                f"its shape is {list(arrays[name].shape)}, the other files need {list(shape)}",
            )
    if offsets[0] != 0 or offsets[-1] != len(features) or (np.diff(offsets) < 0).any():
        raise damaged(root / "offsets.npy", f"it does not rise from 0 to the {len(features)} boxes")
    if len(np.unique(arrays["image_ids"])) != images:
        raise damaged(root / "image_ids.npy", "it names an image twice")
