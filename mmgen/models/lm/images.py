"""Pixels as an image tower wants them: the folder's own image processor in Pillow and numpy."""

import io
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from PIL import Image, UnidentifiedImageError

from mmgen.errors import UserError

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
"""The first that exists counts; the second is transformers 5's, with the image part inside."""

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class ImageRule(NamedTuple):
    """What an image processor's config asks for, in this order.

    Attributes:
      to_rgb: convert to three channels.
      square: pad to a square with the mean colour (LLaVA-1.5's `image_aspect_ratio = "pad"`).
      resize: (height, width), a number for the shorter edge, or None.
      resample: Pillow's number of the filter; 3 is bicubic.
      crop: (height, width) cut from the centre, black where the image ends; None for none.
      scale: what pixels of 0 to 255 are multiplied by.
      mean, std: of the three channels, subtracted and divided by after scaling.
    """

    to_rgb: bool = True
    square: bool = False
    resize: tuple[int, int] | int | None = 224
    resample: int = 3
    crop: tuple[int, int] | None = (224, 224)
    scale: float = 1 / 255
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD


def read_image_rule(folder: pathlib.Path) -> ImageRule:
    """The rule in a Hugging Face folder; what its config leaves out is CLIP's default.

    Raises:
      UserError: there is no processor config, it is not JSON, or asks for what is not supported.
    """
    for name in PROCESSOR_FILES:
        path = folder / name
        if not path.exists():
            continue
        try:
            config = json.loads(path.read_text())
        except ValueError as error:
            raise UserError(f"{path} is not JSON ({error}); download it again.") from None
        return image_rule(config.get("image_processor", config), path)
    raise UserError(
        f"{folder} holds no {' or '.join(PROCESSOR_FILES)}, so it cannot be told how images are "
        "prepared; download the model's processor files too."
    )


def image_rule(config: Mapping[str, Any], path: pathlib.Path) -> ImageRule:
    """The rule that a processor's JSON object stands for; `path` is for the error."""
    default = ImageRule()
    scale = config.get("rescale_factor", default.scale) if config.get("do_rescale", True) else 1.0
    normalise = config.get("do_normalize", True)
    return ImageRule(
        to_rgb=config.get("do_convert_rgb", True),
        square=bool(config.get("do_pad")) or config.get("image_aspect_ratio") == "pad",
        resize=_resize(config.get("size", 224), path) if config.get("do_resize", True) else None,
        resample=config.get("resample", default.resample),
        crop=_edges(config.get("crop_size", 224)) if config.get("do_center_crop", True) else None,
        scale=scale,
        mean=tuple(config.get("image_mean", CLIP_MEAN)) if normalise else (0.0,) * 3,
        std=tuple(config.get("image_std", CLIP_STD)) if normalise else (1.0,) * 3,
    )


def check_edge(rule: ImageRule, edge: int, folder: pathlib.Path) -> None:
    """Refuses a rule whose images are not `edge` x `edge`; UserError says so."""
    made = rule.crop or rule.resize
    if made not in (edge, (edge, edge)):
        raise UserError(
            f"the image processor of {folder} makes images of {made}, but the model takes {edge} x "
            f"{edge}; they are of two models."
        )


def _resize(size: Any, path: pathlib.Path) -> tuple[int, int] | int:
    if isinstance(size, int):
        return size
    if set(size) == {"shortest_edge"}:
        return int(size["shortest_edge"])
    if {"height", "width"} <= set(size):
        return _edges(size)
    raise UserError(
        f"{path} resizes images by {', '.join(sorted(size))}; only shortest_edge, or height and "
        "width, are supported."
    )


def _edges(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    return int(size["height"]), int(size["width"])


def decode_image(data: bytes, name: str) -> Image.Image:
    """The picture in `data`, wholly decoded.

    Raises:
      UserError: it is no picture, or a broken one; `name` says which.
    """
    try:
        image = Image.open(io.BytesIO(data))
        image.load()
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise UserError(
            f"the image {name} cannot be decoded ({error}); replace it by a whole PNG or JPEG."
        ) from None
    return image


def preprocess(image: Image.Image, rule: ImageRule) -> Float[np.ndarray, "height width channels"]:
    """Pixels for the tower, equal to transformers' Pillow processors.

    Args:
      image: any mode and size, sides not zero.
    """
    if rule.to_rgb:
        image = _to_rgb(image)
    if rule.square:
        image = _pad_to_square(image, tuple(int(255 * channel) for channel in rule.mean))
    if rule.resize is not None:
        height, width = _target_size(image.size, rule.resize)
        image = image.resize((width, height), resample=rule.resample)
    if rule.crop is not None:
        height, width = rule.crop
        # Rounded down also below zero, where Pillow fills in black, as the processors do.
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
    pixels = (np.asarray(image, np.float64) * rule.scale).astype(np.float32)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    return (pixels - np.asarray(rule.mean, np.float32)) / np.asarray(rule.std, np.float32)


def _to_rgb(image: Image.Image) -> Image.Image:
    """Three channels; what is transparent shows white (transformers 4 showed what lay under it)."""
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image).convert("RGB")


def _target_size(size: tuple[int, int], wanted: tuple[int, int] | int) -> tuple[int, int]:
    """(height, width) after the resize; the longer edge is rounded down."""
    if not isinstance(wanted, int):
        return wanted
    width, height = size
    if width <= height:
        return int(wanted * height / width), wanted
    return wanted, int(wanted * width / height)


def _pad_to_square(image: Image.Image, colour: tuple[int, ...]) -> Image.Image:
    side = max(image.size)
    if image.size == (side, side):
        return image
    square = Image.new(image.mode, (side, side), colour if image.mode == "RGB" else colour[0])
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return square
