"""The pixel judge of `shape_world`: what is drawn, read from the pixels, or no answer.

The form of the figure is compared with all silhouettes of the theme, over shifts, scales and
rotations; the mix of colours, of the figure or around it, with every attribute of the theme. Where
nothing fits, or two things fit alike, the judge abstains: forced choices credit noise.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mmgen.data.worlds.shape_drawing import Nuisance, draw_image
from mmgen.data.worlds.shape_masks import Pose, draw_mask
from mmgen.prompting.cobsat.lists import Cell, Theme
from mmgen.prompting.judges.pixel_features import (
    BINS,
    CANVAS,
    FRAME,
    Figure,
    Image,
    color_mix,
    colored_outside,
    find_figure,
    form,
)

ABSTAINED = -1

ANGLES = range(-12, 13, 3)
"""Rotations of the templates, degrees."""

SCALES = (0.94, 1.0, 1.06)
"""Scales of the templates around the spread of the figure."""

SHIFTS = (-1, 0, 1)
"""Shifts of the templates around the centre of the figure, pixels of the frame."""

MIN_OVERLAP = 0.78
"""Intersection over union of the best template, below which no object is seen."""

MIN_LEAD = 0.08
"""By how much the best object must overlap more than the second."""

AREA = (0.03, 0.5)
"""Share of the canvas that a figure covers."""

MAX_DISTANCE = 0.6
"""Hellinger distance of the best attribute, above which none is seen."""

MIN_NEARER = 0.02
"""By how much the best attribute must be nearer than the second."""

MIN_COLORED = 0.004
"""Share of the canvas that an action's mark covers at least."""

BRIGHTNESS = (0.92, 1.0, 1.08)
"""Prototypes of the mixes are made at these."""

STRIDE = 3
"""Every third object serves for the prototypes, whose mixes hardly depend on it."""


class Verdict(NamedTuple):
    """What is seen.

    Attributes:
      attribute, object: positions in the theme's lists, `ABSTAINED` where nothing is seen.
      overlap: intersection over union of the best silhouette.
      distance: Hellinger distance of the best mix.
    """

    attribute: int
    object: int
    overlap: float
    distance: float


def judge_images(theme: Theme, images: Sequence[Image]) -> list[Verdict]:
    """Verdicts on canvases of 128 x 128 pixels, see `pixel_features.to_canvas`."""
    if not len(images):
        return []
    figures = [find_figure(image, inked=is_inked(theme)) for image in images]
    overlap = _overlaps(np.stack([form(figure) for figure in figures]), theme)
    mixes = np.stack([_mix(theme, image, f) for image, f in zip(images, figures, strict=True)])
    distance = _distances(mixes, theme)
    verdicts = []
    for figure, overlaps, distances in zip(figures, overlap, distance, strict=True):
        best, second = np.sort(overlaps)[::-1][:2]
        sound = AREA[0] < figure.mean() < AREA[1]
        seen = sound and best >= MIN_OVERLAP and best - second >= MIN_LEAD
        near, next_near = np.sort(distances)[:2]
        # The colours of a figure that is no object of the world tell nothing.
        fits = seen and near <= MAX_DISTANCE and next_near - near >= MIN_NEARER
        verdicts.append(
            Verdict(
                int(distances.argmin()) if fits else ABSTAINED,
                int(overlaps.argmax()) if seen else ABSTAINED,
                float(best),
                float(near),
            )
        )
    return verdicts


def is_inked(theme: Theme) -> bool:
    """Are the objects drawn in ink, their surroundings telling the attribute?"""
    return theme.name in ("background", "action")


def _mix(theme: Theme, image: Image, figure: Figure) -> Float[np.ndarray, " c"]:
    if not is_inked(theme):
        return color_mix(image, figure)
    where = colored_outside(image, figure, saturated=theme.name == "action")
    return color_mix(image, where) if where.mean() >= MIN_COLORED else np.zeros(BINS**3)


def _overlaps(forms: Float[np.ndarray, "n p"], theme: Theme) -> Float[np.ndarray, "n k"]:
    """Best intersection over union of each form with the templates of each object."""
    bank = _bank(theme.objects)
    common = forms @ bank.T
    union = forms.sum(axis=1)[:, None] + bank.sum(axis=1)[None] - common
    return (common / np.maximum(union, 1e-6)).reshape(len(forms), len(theme.objects), -1).max(2)


def _distances(mixes: Float[np.ndarray, "n c"], theme: Theme) -> Float[np.ndarray, "n k"]:
    """Smallest Hellinger distance of each mix to the prototypes of each attribute."""
    likeness = mixes @ _prototypes(theme).T
    distance = np.sqrt(np.clip(1 - likeness, 0, 1))
    return distance.reshape(len(mixes), len(theme.attributes), -1).min(axis=2)


@functools.cache
def _bank(objects: tuple[str, ...]) -> Float[np.ndarray, "m p"]:
    """Templates of all objects in the normalised frame, those of one object together."""
    return np.stack([t for name in objects for t in _templates(name)])


def _templates(name: str) -> Iterator[Float[np.ndarray, " p"]]:
    for angle in ANGLES:
        figure = draw_mask(name, Pose(scale=0.6, angle=angle), CANVAS) > 0.5
        upright = _filled(figure)
        middle = form(upright).reshape(FRAME, FRAME)
        for scale in SCALES:
            scaled = _zoomed(middle, scale)
            for down in SHIFTS:
                for right in SHIFTS:
                    yield np.roll(scaled, (down, right), axis=(0, 1)).ravel()


def _filled(figure: Figure) -> Figure:
    from scipy.ndimage import binary_fill_holes

    return binary_fill_holes(figure)


def _zoomed(frame: Float[np.ndarray, "f f"], scale: float) -> Float[np.ndarray, "f f"]:
    from scipy.ndimage import affine_transform

    middle = (FRAME - 1) / 2
    return affine_transform(
        frame, np.full(2, 1 / scale), offset=middle * (1 - 1 / scale), order=1
    ).astype(np.float32)


@functools.cache
def _prototypes(theme: Theme) -> Float[np.ndarray, "m c"]:
    """Mixes of every attribute at several brightnesses, the mean over some objects."""
    rows = []
    for attribute in range(len(theme.attributes)):
        cells = [Cell(attribute, kind) for kind in range(0, len(theme.objects), STRIDE)]
        images = [draw_image(theme, cell, Nuisance(), CANVAS) for cell in cells]
        figures = [find_figure(image, inked=is_inked(theme)) for image in images]
        for brightness in BRIGHTNESS:
            lit = [np.minimum(image * brightness, 255) for image in images]
            mixes = [_mix(theme, i, figure) for i, figure in zip(lit, figures, strict=True)]
            shares = np.mean(np.square(mixes), axis=0)
            rows.append(np.sqrt(shares / shares.sum()))
    return np.stack(rows)
