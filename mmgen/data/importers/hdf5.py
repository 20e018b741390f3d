"""The feature files that the released VisCOLL code reads (viscoll.md section 1.4).

One HDF5 file with `bbox_features` (rows, slots, d), `bboxes` (rows, slots, 4) and `num_boxes`
(rows, 1); a JSON map names the image of every row. A slot is an object if its coordinates do not
sum to zero (nets/mlmcaption.py:201). Slot 0 is the whole image; it is also one of the objects that
the released models attend, and stays one unless asked otherwise.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from mmgen.data.features import FeatureItem
from mmgen.data.importers.boxes import to_unit_corners
from mmgen.errors import UserError

VALID_SUM = 1e-6

FACTS = {
    "source_format": "VisCOLL HDF5",
    "whole_image": "slot 0 of the source",
}


def read_hdf5(
    path: pathlib.Path,
    id_map: pathlib.Path,
    *,
    boxes: str,
    dtype: str,
    sizes: dict[int, tuple[float, float]] | None = None,
    drop_whole: bool = False,
) -> Iterator[FeatureItem]:
    """Store items of the rows of an HDF5 file, in order.

    Args:
      path: the HDF5 file.
      id_map: JSON {"row": image id}, such as coco_train_map.json.
      boxes: convention of `bboxes`, one of `boxes.CONVENTIONS`; the file does not say it.
      dtype: "float16" or "float32" of the store.
      sizes: width and height by image id, for boxes in pixels.
      drop_whole: leave slot 0 out of the objects.

    Raises:
      UserError: file, map and rows do not fit, or h5py is not installed.
    """
    image_ids = read_id_map(id_map)
    with open_hdf5(path) as file:
        data = _datasets(file, path, len(image_ids))
        for row, image_id in enumerate(image_ids):
            where = f"{path}, row {row} (image {image_id})"
            corners, stated, slots = _read_row(data, row, where)
            count = _count_valid(corners, stated, where)
            with np.errstate(over="ignore"):
                slots = slots.astype(dtype)
            first = 1 if drop_whole else 0
            size = (sizes or {}).get(image_id)
            unit = to_unit_corners(corners[first:count], boxes, size, where)
            yield image_id, slots[first:count], unit, slots[0]


def read_id_map(path: pathlib.Path) -> list[int]:
    """Image id of row 0, 1, ...; UserError unless the rows are exactly 0 to n - 1."""
    try:
        rows = {int(key): int(value) for key, value in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"--map {path} is not a JSON map of row to image id: {error}") from error
    if sorted(rows) != list(range(len(rows))):
        raise UserError(f"--map {path}: the rows are not 0 to {len(rows) - 1}")
    return [rows[row] for row in range(len(rows))]


def open_hdf5(path: pathlib.Path) -> Any:
    """The file, open for reading; UserError if it is none, or h5py is not installed."""
    try:
        import h5py
    except ImportError as error:
        raise UserError("reading HDF5 needs h5py: pip install 'mmgen[h5]'") from error
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise UserError(f"{path} is missing or not an HDF5 file: {error}") from error


def _datasets(file: Any, path: pathlib.Path, rows: int) -> dict[str, Any]:
    data = {name: file.get(name) for name in ("bbox_features", "bboxes", "num_boxes")}
    for name, values in data.items():
        if values is None:
            raise UserError(f"{path} has no data set {name!r}, only {', '.join(sorted(file))}")
        if len(values) != rows:
            raise UserError(f"{path}: {name} has {len(values):,} rows, the map {rows:,}")
    features, boxes = data["bbox_features"], data["bboxes"]
    if features.ndim != 3 or boxes.shape != (*features.shape[:2], 4):
        raise UserError(
            f"{path}: bbox_features {features.shape} and bboxes {boxes.shape} do not fit; expected "
            "(rows, slots, d) and (rows, slots, 4)"
        )
    return data


def _read_row(data: dict[str, Any], row: int, where: str) -> tuple[np.ndarray, int, np.ndarray]:
    try:
        stated = int(np.ravel(data["num_boxes"][row])[0])
        return np.asarray(data["bboxes"][row], np.float64), stated, data["bbox_features"][row]
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error}") from error


def _count_valid(boxes: np.ndarray, stated: int, where: str) -> int:
    """Number of slots in use, which come first; `stated` may leave out the whole image."""
    valid = boxes.sum(1) > VALID_SUM
    count = int(valid.sum())
    if not valid[:count].all():
        raise UserError(f"{where}: an empty box stands before a used one")
    if stated not in (count, count - 1):
        raise UserError(f"{where}: {count} boxes are not zero, num_boxes says {stated}")
    return count
