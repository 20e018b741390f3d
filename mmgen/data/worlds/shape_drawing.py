"""Drawing one image of `shape_world`: an object with an attribute, and nuisances of its own."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from mmgen.core.rng import numpy_generator
from mmgen.data.worlds.shape_fills import EDGE, FILLS, PLAIN, Surface
from mmgen.data.worlds.shape_masks import Pose, canvas, coordinates, draw_mask
from mmgen.data.worlds.shape_scenes import INK, MARKS, SCENES, draw_mark
from mmgen.prompting.cobsat.lists import Cell, Theme

HALO = (250, 250, 250)
"""Outline of an animal before a scene."""

DOT = (120, 120, 120)


class Nuisance(NamedTuple):
    """What tells nothing.

    Attributes:
      pose: shift of at most .1 of the canvas, scale .8 to 1.2 of the usual, -10 to 10 degrees.
      brightness: factor of every pixel, .9 to 1.1.
      dots: x, y and radius of distracting dots, in half canvases.
    """

    pose: Pose = Pose()
    brightness: float = 1.0
    dots: Float[np.ndarray, "n 3"] = np.zeros((0, 3))


def draw_nuisance(name: str, seed: int) -> Nuisance:
    """The nuisances of the file `name` of a world with this data seed."""
    generator = numpy_generator(seed, f"shape_world/{name}")
    shift = generator.uniform(-0.2, 0.2, 2)  # half canvases: a tenth of the canvas
    scale, angle = generator.uniform(0.8, 1.2), generator.uniform(-10, 10)
    count = generator.integers(4, 9)
    places = generator.uniform(-1, 1, (count, 2))
    dots = np.column_stack([places, generator.uniform(0.015, 0.035, count)])
    pose = Pose(float(shift[0]), float(shift[1]), Pose().scale * float(scale), float(angle))
    return Nuisance(pose, float(generator.uniform(0.9, 1.1)), dots)


def draw_image(
    theme: Theme, cell: Cell, nuisance: Nuisance, size: int
) -> UInt8[np.ndarray, "s s 3"]:
    """The image of a cell on a canvas of `size` pixels.

    Raises:
      KeyError: the theme is none of the five that this world draws.
    """
    attribute, name = theme.attributes[cell.attribute], theme.objects[cell.object]
    pose = nuisance.pose
    mask = draw_mask(name, pose, size)[..., None]
    u, v = coordinates(pose, size)
    ground = _plain(size)
    if theme.name == "background":
        ground = SCENES[attribute](*canvas(size))
    elif theme.name == "action":
        ground = draw_mark(MARKS[attribute], u, v, PLAIN)
    colors = _with_dots(ground, nuisance.dots, size)
    if theme.name == "background":
        halo = _grown(mask[..., 0], EDGE * pose.scale * size / 2)[..., None]
        colors = halo * HALO + (1 - halo) * colors
    if theme.name in FILLS:
        edge = _inner_edge(mask[..., 0], EDGE * pose.scale * size / 2)
        paint = FILLS[theme.name][attribute](Surface(u, v, edge))
    else:
        paint = np.asarray(INK, np.float64)
    colors = mask * paint + (1 - mask) * colors
    return np.clip(np.rint(colors * nuisance.brightness), 0, 255).astype(np.uint8)


def _plain(size: int) -> Float[np.ndarray, "s s 3"]:
    return np.broadcast_to(np.asarray(PLAIN, np.float64), (size, size, 3))


def _with_dots(colors: np.ndarray, dots: np.ndarray, size: int) -> np.ndarray:
    x, y = canvas(size)
    for cx, cy, radius in dots:
        inside = (x - cx) ** 2 + (y - cy) ** 2 < radius**2
        colors = np.where(inside[..., None], np.asarray(DOT, np.float64), colors)
    return colors


def _inner_edge(mask: np.ndarray, width: float) -> np.ndarray:
    """Pixels of the mask within `width` pixels of its edge, two at least."""
    from scipy.ndimage import distance_transform_edt

    return distance_transform_edt(mask > 0.5) <= max(width, 2.0)


def _grown(mask: np.ndarray, width: float) -> np.ndarray:
    """The mask and what lies within `width` pixels of it, soft at its edge."""
    from scipy.ndimage import distance_transform_edt

    return np.clip(1 + max(width, 2.0) - distance_transform_edt(mask < 0.5), 0, 1)
