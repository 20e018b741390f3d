"""One .npz file per image, named by the image's id.

Arrays `features` [k, d] and `boxes` [k, 4], or `x` and `bbox` as MILVLG/bottom-up-attention.pytorch
writes them (`x` may be [d, k]); optional `whole_image` [d] and `image_w`, `image_h`. Without
`whole_image` the mean of the regions stands for it.
"""

import pathlib
from collections.abc import Iterator

import numpy as np

from mmgen.data.features import FeatureItem
from mmgen.data.importers.bottom_up import parse_image_id
from mmgen.data.importers.boxes import to_unit_corners
from mmgen.data.store_files import BAD_ARRAY
from mmgen.errors import UserError

FACTS = {
    "source_format": "npz per image",
    "whole_image": "array whole_image, else mean of the image's regions",
}


def read_npz(
    folder: pathlib.Path,
    *,
    boxes: str,
    dtype: str,
    sizes: dict[int, tuple[float, float]] | None = None,
) -> Iterator[FeatureItem]:
    """Store items of the .npz files in `folder`, by rising image id.

    Args:
      folder: holds IMAGE_ID.npz files (or NAME_IMAGE_ID.npz).
      boxes: convention of the boxes, one of `boxes.CONVENTIONS`; the files do not say it.
      dtype: "float16" or "float32" of the store.
      sizes: width and height by image id; overrides the files'.

    Raises:
      UserError: no file, a file name without an id, or a damaged or incomplete file.
    """
    files = {}
    for path in sorted(folder.glob("*.npz")):
        try:
            files[path] = parse_image_id(path.stem)
        except ValueError:
            raise UserError(f"{path}: the file's name does not end in an image id") from None
    if not files:
        raise UserError(f"{folder} holds no .npz file")
    for path, image_id in sorted(files.items(), key=lambda item: item[1]):
        yield _read_file(path, image_id, boxes, dtype, (sizes or {}).get(image_id))


def _read_file(
    path: pathlib.Path,
    image_id: int,
    convention: str,
    dtype: str,
    size: tuple[float, float] | None,
) -> FeatureItem:
    arrays = _load(path)
    names = ("x", "bbox") if "x" in arrays else ("features", "boxes")
    for name in names:
        if name not in arrays:
            raise UserError(f"{path} has no array {name!r}, only {', '.join(sorted(arrays))}")
    features, boxes = (arrays[name] for name in names)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise UserError(f"{path}: {names[1]} has shape {list(boxes.shape)}, expected [k, 4]")
    if features.ndim == 2 and len(features) != len(boxes) == features.shape[1]:
        features = features.T
    if features.ndim != 2 or len(features) != len(boxes) or features.dtype.kind != "f":
        raise UserError(
            f"{path}: {names[0]} is {features.dtype}{list(features.shape)}, expected floating "
            f"numbers [{len(boxes)}, d]"
        )
    if size is None and {"image_w", "image_h"} <= set(arrays):
        size = (float(arrays["image_w"]), float(arrays["image_h"]))
    whole = arrays.get("whole_image")
    if whole is None:
        if len(features) == 0:
            raise UserError(f"{path} has neither a region nor a whole_image feature")
        whole = features.mean(0, dtype=np.float32)
    with np.errstate(over="ignore"):
        return (
            image_id,
            features.astype(dtype),
            to_unit_corners(boxes, convention, size, str(path)),
            np.ravel(whole).astype(dtype),
        )


def _load(path: pathlib.Path) -> dict[str, np.ndarray]:
    wanted = {"features", "boxes", "x", "bbox", "whole_image", "image_w", "image_h"}
    try:
        with np.load(path, allow_pickle=False) as archive:
            # Other arrays, some of them pickled, are not touched.
            return {name: archive[name] for name in wanted & set(archive.files)}
    except (*BAD_ARRAY, AttributeError) as error:
        raise UserError(f"{path} is damaged or not an .npz file: {error}") from error
