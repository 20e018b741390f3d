"""Bottom-up-attention TSV files: one image a line, arrays in base64.

Columns of peteanderson80/bottom-up-attention and airsplay/py-bottom-up-attention (6), or of the
features that airsplay/lxmert distributes (10). No header; boxes are x1, y1, x2, y2 in pixels. The
files hold no whole-image feature: the mean of an image's regions stands for it.
"""

import base64
import binascii
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np

from mmgen.data.features import FeatureItem
from mmgen.data.importers.boxes import to_unit_corners
from mmgen.errors import UserError

COLUMNS = {
    6: ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features"),
    10: (
        "image_id",
        "image_h",
        "image_w",
        "objects_id",
        "objects_conf",
        "attrs_id",
        "attrs_conf",
        "num_boxes",
        "boxes",
        "features",
    ),
}

FACTS = {
    "source_format": "bottom-up-attention TSV",
    "box_convention": "xyxy_pixels",
    "whole_image": "mean of the image's regions",
}


def read_bottom_up(files: Iterable[pathlib.Path], dtype: str) -> Iterator[FeatureItem]:
    """Store items of the lines of `files`, in order.

    Args:
      files: TSV files.
      dtype: "float16" or "float32" of the store.

    Raises:
      UserError: a file cannot be read, or a line is damaged; file and line are named.
    """
    for path in files:
        try:
            with path.open(encoding="ascii") as file:
                for number, line in enumerate(file, 1):
                    yield _read_line(line, f"{path}:{number}", dtype)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"{path} cannot be read as a bottom-up-attention TSV file: {error}"
            ) from error


def _read_line(line: str, where: str, dtype: str) -> FeatureItem:
    fields = line.rstrip("\n").split("\t")
    if len(fields) not in COLUMNS:
        raise UserError(
            f"{where} has {len(fields)} tab-separated columns, expected "
            f"{' or '.join(map(str, COLUMNS))}: is the file whole and a bottom-up-attention TSV?"
        )
    row = dict(zip(COLUMNS[len(fields)], fields, strict=True))
    try:
        image_id = parse_image_id(row["image_id"])
        size = (float(row["image_w"]), float(row["image_h"]))
        count = int(row["num_boxes"])
    except ValueError as error:
        raise UserError(f"{where} has a column that is not a number: {error}") from error
    boxes = _decode(row["boxes"], count, where, "boxes")
    if count < 1 or boxes.shape[1] != 4:
        raise UserError(f"{where}: {boxes.size} box numbers for {count} boxes, expected 4 each")
    features = _decode(row["features"], count, where, "features")
    # The mean before rounding to float16.
    whole = features.mean(0)
    with np.errstate(over="ignore"):
        return (
            image_id,
            features.astype(dtype),
            to_unit_corners(boxes, FACTS["box_convention"], size, where),
            whole.astype(dtype),
        )


def parse_image_id(text: str) -> int:
    """The number in an image id such as 150367 or COCO_train2014_000000150367."""
    return int(text.rsplit("_", 1)[-1])


def _decode(text: str, count: int, where: str, name: str) -> np.ndarray:
    """float32[count, width] of a base64 column."""
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), np.float32)
        return values.reshape(count, -1)
    except (binascii.Error, ValueError) as error:
        raise UserError(
            f"{where}: column {name} does not decode to {count} rows of float32 numbers"
        ) from error
