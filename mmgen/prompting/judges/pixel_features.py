"""What the pixel judge measures in an image: where its figure is, its form, its mix of colours."""

import numpy as np
from jaxtyping import Bool, Float, UInt8

CANVAS = 128
"""Every image is judged at this size."""

FRAME = 48
"""Pixels of the normalised frame of a figure's form."""

REACH = 2.2
"""Half a frame, in root-mean-square radii of the figure."""

BINS = 5
"""Levels of each colour channel in a mix."""

FIGURE = 26
"""A pixel belongs to the figure if a channel differs so much from the ground."""

INK = 70
"""A pixel belongs to an animal if no channel is brighter."""

SATURATED = 60
"""Difference between channels from which a pixel has a colour."""

Image = UInt8[np.ndarray, "s s 3"]
Figure = Bool[np.ndarray, "s s"]


def to_canvas(data: bytes, name: str) -> Image:
    """An encoded image as a canvas; UserError with its name if it does not decode."""
    from PIL import Image as Pillow

    from mmgen.prompting.cobsat.images import decode

    image = decode(data, name)
    if image.size != (CANVAS, CANVAS):
        image = image.resize(
            (CANVAS, CANVAS),
            Pillow.Resampling.BOX if min(image.size) > CANVAS else Pillow.Resampling.BICUBIC,
        )
    return np.asarray(image)


def find_figure(image: Image, *, inked: bool) -> Figure:
    """The largest connected area that stands out, holes filled; nothing if none does.

    Args:
      inked: look for an animal's ink instead of what differs from the colour of the border.
    """
    from scipy import ndimage

    if inked:
        standing_out = image.max(axis=2) < INK
    else:
        border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
        ground = np.median(border, axis=0)
        standing_out = np.abs(image - ground).max(axis=2) > FIGURE
        # Outlines may be a pixel or two wide and broken by compression.
        standing_out = ndimage.binary_closing(standing_out, iterations=1)
    labels, count = ndimage.label(standing_out)
    if not count:
        return np.zeros(standing_out.shape, bool)
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    figure = labels == sizes.argmax()
    return figure if inked else ndimage.binary_fill_holes(figure)


def form(figure: Figure) -> Float[np.ndarray, " p"]:
    """A figure moved to its centre and scaled by its spread, as `FRAME` x `FRAME` values.

    Zeros for an empty figure.
    """
    from scipy.ndimage import map_coordinates

    rows, columns = np.nonzero(figure)
    if len(rows) < 2:
        return np.zeros(FRAME * FRAME, np.float32)
    centre = rows.mean(), columns.mean()
    spread = np.sqrt(rows.var() + columns.var())
    line = ((np.arange(FRAME) + 0.5) * (2 / FRAME) - 1) * REACH * spread
    y, x = np.meshgrid(line + centre[0], line + centre[1], indexing="ij")
    warped = map_coordinates(figure.astype(np.float32), [y.ravel(), x.ravel()], order=1)
    return warped.astype(np.float32)


def color_mix(image: Image, inside: Figure) -> Float[np.ndarray, " c"]:
    """Square roots of the shares of `BINS`^3 colours, each pixel spread over its neighbours.

    The distance of two mixes is then Hellinger's, times the root of two. Zeros for no pixel.
    """
    pixels = image[inside] * ((BINS - 1) / 255)
    if not len(pixels):
        return np.zeros(BINS**3)
    low = np.minimum(pixels.astype(np.int64), BINS - 2)
    above = pixels - low
    counts = np.zeros(BINS**3)
    for corner in range(8):
        step = np.array([corner >> 2, corner >> 1 & 1, corner & 1])
        weight = np.where(step, above, 1 - above).prod(axis=1)
        place = (low + step) @ np.array([BINS * BINS, BINS, 1])
        counts += np.bincount(place, weights=weight, minlength=BINS**3)
    return np.sqrt(counts / counts.sum())


def colored_outside(image: Image, figure: Figure, *, saturated: bool) -> Figure:
    """What is not the figure nor close to it; with `saturated` only what has a colour."""
    from scipy.ndimage import binary_dilation

    outside = ~binary_dilation(figure, iterations=2)
    if not saturated:
        return outside
    channels = image.astype(np.int64)
    return outside & (channels.max(axis=2) - channels.min(axis=2) > SATURATED)
