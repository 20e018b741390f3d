"""Box conventions of other projects, turned into the store's."""

import json
import pathlib

import numpy as np
from jaxtyping import Float

from mmgen.errors import UserError

CONVENTIONS = ("xyxy_unit", "xyxy_pixels", "xywh_unit", "xywh_pixels")
"""Corners or corner and size, in shares of the image or in pixels."""

SLACK_PIXELS = 1.0
"""Detectors place corners up to one pixel outside the image; those are moved to its border."""


def needs_sizes(convention: str) -> bool:
    """Whether the image's size is needed to scale boxes of this convention."""
    return convention.endswith("_pixels")


def to_unit_corners(
    boxes: Float[np.ndarray, "k 4"],
    convention: str,
    size: tuple[float, float] | None,
    where: str,
) -> Float[np.ndarray, "k 4"]:
    """Boxes as x1, y1, x2, y2 in [0, 1], float32.

    Args:
      boxes: in `convention`.
      convention: one of `CONVENTIONS`.
      size: width and height of the image in pixels; also tells how far one pixel is in unit
        conventions, where None allows no slack.
      where: names the image in errors.

    Raises:
      UserError: the size is missing, or a box lies outside its image.
    """
    if convention not in CONVENTIONS:
        raise UserError(f"--boxes {convention}: choose one of {', '.join(CONVENTIONS)}")
    boxes = np.array(boxes, np.float64).reshape(-1, 4)
    if convention.startswith("xywh"):
        boxes[:, 2:] += boxes[:, :2]
    slack = np.zeros(4)
    if size is not None:
        if min(size) <= 0:
            raise UserError(f"{where}: the image size is {size[0]} x {size[1]}")
        slack = SLACK_PIXELS / np.tile(size, 2)
    if needs_sizes(convention):
        if size is None:
            raise UserError(f"{where}: boxes in pixels need the image's size; give --sizes FILE")
        boxes /= np.tile(size, 2)
    if not np.all((boxes >= -slack) & (boxes <= 1 + slack)):
        outside = boxes[~np.all((boxes >= -slack) & (boxes <= 1 + slack), axis=1)][0]
        raise UserError(
            f"{where}: read as {convention}, a box has the corners {outside.round(4).tolist()} "
            "in shares of the image, outside [0, 1]: check --boxes and the image sizes"
        )
    return np.clip(boxes, 0, 1).astype(np.float32)


def read_sizes(path: pathlib.Path) -> dict[int, tuple[float, float]]:
    """Width and height of images by id.

    Args:
      path: JSON, either {"image id": [width, height]} or COCO's {"images": [{"id": ..., "width":
        ..., "height": ...}]}.

    Raises:
      UserError: the file is missing, damaged or of another form.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content.get("images"), list):
            return {int(i["id"]): (i["width"], i["height"]) for i in content["images"]}
        return {int(key): (float(size[0]), float(size[1])) for key, size in content.items()}
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserError(
            f'--sizes {path} cannot be read ({error!r}): give {{"image id": [width, height]}} or '
            "COCO's images list"
        ) from error
