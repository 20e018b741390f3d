"""Silhouettes of `shape_world`: ten objects and ten animals, drawn in any pose at any size.

A silhouette is a list of parts in a square of [-1, 1], y downwards; a part is a polygon, or an
ellipse that is made one. "-" parts are cut out of what was drawn before them.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

SUPERSAMPLING = 4
"""Masks are drawn so many times larger and averaged down, for soft edges."""

Points = tuple[tuple[float, float], ...]


class Part(NamedTuple):
    """A polygon that is filled, or cut out."""

    points: Points
    cut: bool = False


class Pose(NamedTuple):
    """Where a silhouette stands.

    Attributes:
      x, y: of its centre, in half canvases from the middle.
      scale: half its square over half the canvas.
      angle: degrees, clockwise on the screen.
    """

    x: float = 0.0
    y: float = 0.0
    scale: float = 0.6
    angle: float = 0.0


def _polygon(*numbers: float, cut: bool = False) -> Part:
    return Part(tuple(zip(numbers[::2], numbers[1::2], strict=True)), cut)


def _ellipse(x: float, y: float, rx: float, ry: float, tilt: float = 0, cut: bool = False) -> Part:
    turn = math.radians(tilt)
    points = []
    for step in range(40):
        angle = 2 * math.pi * step / 40
        a, b = rx * math.cos(angle), ry * math.sin(angle)
        points.append(
            (
                x + a * math.cos(turn) - b * math.sin(turn),
                y + a * math.sin(turn) + b * math.cos(turn),
            )
        )
    return Part(tuple(points), cut)


def _box(left: float, top: float, right: float, bottom: float, cut: bool = False) -> Part:
    return _polygon(left, top, right, top, right, bottom, left, bottom, cut=cut)


SILHOUETTES: Mapping[str, Sequence[Part]] = MappingProxyType(
    {
        "leaf": (
            _polygon(-0.75, 0.55, -0.7, -0.05, -0.3, -0.55, 0.3, -0.85, 0.95, -0.95,
                     0.85, -0.3, 0.55, 0.3, 0.05, 0.7, -0.55, 0.75),
            _polygon(-0.6, 0.5, -0.5, 0.65, -0.9, 1.0, -1.0, 0.9),
        ),
        "hat": (
            _ellipse(0, 0.45, 1.0, 0.25),
            _polygon(-0.5, 0.45, -0.42, -0.7, 0.42, -0.7, 0.5, 0.45),
        ),
        "cup": (
            _ellipse(0.55, -0.05, 0.42, 0.45),
            _ellipse(0.55, -0.05, 0.2, 0.22, cut=True),
            _polygon(-0.85, -0.8, 0.5, -0.8, 0.3, 0.85, -0.65, 0.85),
        ),
        "chair": (
            _box(-0.7, -1.0, -0.32, 1.0),
            _box(-0.7, -0.1, 0.75, 0.28),
            _box(0.4, 0.1, 0.75, 1.0),
        ),
        "car": (
            _box(-1.0, -0.05, 1.0, 0.4),
            _polygon(-0.6, 0.0, -0.35, -0.5, 0.35, -0.5, 0.65, 0.0),
            _ellipse(-0.55, 0.42, 0.27, 0.27),
            _ellipse(0.55, 0.42, 0.27, 0.27),
        ),
        "box": (
            _box(-0.62, -0.25, 0.62, 0.85),
            _polygon(-0.62, -0.25, -1.0, -0.75, -0.62, -0.9, -0.1, -0.25),
            _polygon(0.62, -0.25, 1.0, -0.75, 0.62, -0.9, 0.1, -0.25),
        ),
        "book": (
            _polygon(0, -0.35, -1.0, -0.75, -1.0, 0.4, 0, 0.8),
            _polygon(0, -0.35, 1.0, -0.75, 1.0, 0.4, 0, 0.8),
        ),
        "ball": (_ellipse(0, 0, 0.85, 0.85),),
        "bag": (
            _ellipse(0, -0.4, 0.5, 0.6),
            _ellipse(0, -0.4, 0.3, 0.4, cut=True),
            _polygon(-0.6, -0.3, 0.6, -0.3, 0.95, 0.95, -0.95, 0.95),
        ),
        "apple": (
            _ellipse(-0.3, 0.2, 0.5, 0.6, 12),
            _ellipse(0.3, 0.2, 0.5, 0.6, -12),
            _polygon(-0.3, -0.5, 0, -0.1, 0.3, -0.5, cut=True),
            _polygon(-0.08, 0.0, 0.0, -0.9, 0.14, -0.9, 0.08, 0.0),
            _ellipse(0.5, -0.75, 0.42, 0.2, -20),
        ),
        "zebra": (
            _ellipse(-0.1, 0.0, 0.6, 0.27),
            _polygon(0.2, 0.0, 0.55, -0.85, 0.78, -0.8, 0.5, 0.15),
            _polygon(0.5, -0.9, 0.75, -1.0, 1.0, -0.6, 0.9, -0.5, 0.6, -0.65),
            _polygon(-0.65, 0.0, -0.3, 0.1, -0.38, 1.0, -0.63, 1.0),
            _polygon(0.15, 0.1, 0.5, 0.0, 0.47, 1.0, 0.22, 1.0),
            _polygon(-0.6, -0.15, -0.95, 0.4, -0.85, 0.5, -0.55, 0.1),
        ),
        "tiger": (
            _ellipse(-0.05, 0.2, 0.7, 0.3),
            _ellipse(0.7, -0.05, 0.3, 0.27),
            _polygon(0.45, -0.2, 0.48, -0.48, 0.65, -0.25),
            _polygon(0.75, -0.25, 0.92, -0.48, 0.95, -0.2),
            _box(-0.6, 0.3, -0.38, 0.75),
            _box(0.25, 0.3, 0.47, 0.75),
            _polygon(-0.7, 0.2, -1.0, -0.2, -0.9, -0.9, -0.5, -0.95, -0.5, -0.78, -0.75, -0.72,
                     -0.82, -0.25, -0.55, 0.05),
        ),
        "sheep": (
            *(_ellipse(-0.1 + 0.55 * math.cos(a), -0.1 + 0.32 * math.sin(a), 0.34, 0.34)
              for a in np.linspace(0, 2 * math.pi, 8, endpoint=False)),
            _ellipse(-0.1, -0.1, 0.5, 0.4),
            _ellipse(0.8, -0.35, 0.2, 0.28, 20),
            _box(-0.5, 0.3, -0.35, 0.95),
            _box(0.15, 0.3, 0.3, 0.95),
        ),
        "pig": (
            _ellipse(-0.1, 0.05, 0.75, 0.52),
            _ellipse(0.6, -0.05, 0.33, 0.33),
            _box(0.75, -0.1, 1.0, 0.2),
            _polygon(0.4, -0.25, 0.5, -0.65, 0.75, -0.3),
            _box(-0.6, 0.3, -0.3, 0.8),
            _box(0.15, 0.3, 0.45, 0.8),
            _ellipse(-0.9, -0.15, 0.12, 0.12),
        ),
        "monkey": (
            _ellipse(0.1, -0.6, 0.38, 0.36),
            _ellipse(-0.35, -0.6, 0.2, 0.2),
            _ellipse(0.55, -0.6, 0.2, 0.2),
            _ellipse(0.1, 0.25, 0.38, 0.6),
            _ellipse(-0.1, 0.85, 0.4, 0.15),
            _ellipse(0.4, 0.85, 0.4, 0.15),
            _polygon(0.3, -0.2, 0.95, 0.2, 0.85, 0.4, 0.3, 0.1),
            _polygon(-0.1, 0.95, -0.8, 0.9, -1.0, 0.5, -0.9, 0.15, -0.65, 0.15, -0.72, 0.5,
                     -0.6, 0.65, -0.1, 0.65),
        ),
        "lion": (
            _ellipse(0.45, -0.25, 0.55, 0.58),
            _ellipse(-0.25, 0.2, 0.6, 0.3),
            _box(-0.75, 0.2, -0.53, 0.9),
            _box(0.2, 0.2, 0.42, 0.9),
            _polygon(-0.75, 0.1, -0.97, -0.35, -0.88, -0.4, -0.65, 0.0),
            _ellipse(-0.9, -0.5, 0.16, 0.2),
        ),
        "dog": (
            _polygon(-0.65, -0.1, 0.4, -0.1, 0.4, 0.3, -0.65, 0.35),
            _polygon(0.15, 0.0, 0.3, -0.75, 0.65, -0.75, 1.0, -0.45, 0.95, -0.3, 0.6, -0.25,
                     0.45, 0.2),
            _polygon(0.22, -0.8, 0.42, -0.75, 0.35, -0.1, 0.1, -0.2),
            _polygon(-0.65, -0.1, -1.0, -0.7, -0.85, -0.75, -0.45, -0.05),
            _polygon(-0.65, 0.2, -0.32, 0.3, -0.42, 0.95, -0.7, 0.95),
            _polygon(0.08, 0.2, 0.4, 0.2, 0.38, 0.95, 0.12, 0.95),
        ),
        "cow": (
            _box(-0.75, -0.3, 0.5, 0.3),
            _polygon(0.4, -0.35, 0.65, -0.55, 0.85, -0.5, 1.0, -0.05, 0.85, 0.08, 0.45, 0.05),
            _polygon(0.55, -0.5, 0.45, -0.95, 0.56, -0.95, 0.68, -0.5),
            _polygon(0.75, -0.5, 0.9, -0.95, 1.0, -0.92, 0.85, -0.45),
            _box(-0.75, 0.2, -0.5, 0.9),
            _box(0.2, 0.2, 0.45, 0.9),
            _ellipse(-0.2, 0.35, 0.22, 0.2),
            _polygon(-0.75, -0.3, -0.95, 0.4, -0.85, 0.45, -0.7, -0.1),
        ),
        "cat": (
            _polygon(-0.2, -0.2, 0.4, -0.2, 0.65, 0.95, -0.45, 0.95),
            _ellipse(0.1, -0.4, 0.42, 0.35),
            _polygon(-0.32, -0.4, -0.3, -1.0, 0.05, -0.6),
            _polygon(0.15, -0.6, 0.5, -1.0, 0.52, -0.4),
            _polygon(0.4, 0.95, 0.95, 0.75, 1.0, 0.1, 0.85, 0.1, 0.8, 0.6, 0.5, 0.75),
        ),
        "bird": (
            _ellipse(0, 0.2, 0.6, 0.25, -8),
            _ellipse(0.6, -0.02, 0.24, 0.22),
            _polygon(0.78, -0.12, 1.0, 0.02, 0.78, 0.12),
            _polygon(-0.15, 0.15, -0.55, -0.95, 0.35, 0.1),
            _polygon(-0.45, 0.2, -1.0, 0.05, -1.0, 0.55),
        ),
    }
)  # fmt: skip
"""Raw word -> parts, each of CoBSAT's objects and animals."""


def draw_mask(name: str, pose: Pose, size: int) -> Float[np.ndarray, "s s"]:
    """A silhouette on a canvas of `size` pixels: 1 inside, 0 outside, soft at its edge."""
    from PIL import Image, ImageDraw

    large = size * SUPERSAMPLING
    image = Image.new("L", (large, large), 0)
    pen = ImageDraw.Draw(image)
    for part in SILHOUETTES[name]:
        points = (place(np.asarray(part.points), pose) + 1) * (large / 2)
        pen.polygon([tuple(point) for point in points.tolist()], fill=0 if part.cut else 255)
    return np.asarray(image.reduce(SUPERSAMPLING), np.float64) / 255


def place(points: Float[np.ndarray, "n 2"], pose: Pose) -> Float[np.ndarray, "n 2"]:
    """Points of a silhouette's square on the canvas, whose corners are at -1 and 1."""
    turn = math.radians(pose.angle)
    rotation = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    return pose.scale * points @ rotation + (pose.x, pose.y)


def coordinates(pose: Pose, size: int) -> tuple[Float[np.ndarray, "s s"], Float[np.ndarray, "s s"]]:
    """Where each pixel lies in the silhouette's square: the inverse of `place`."""
    x, y = canvas(size)
    turn = math.radians(pose.angle)
    dx, dy = (x - pose.x) / pose.scale, (y - pose.y) / pose.scale
    return (
        dx * math.cos(turn) + dy * math.sin(turn),
        dy * math.cos(turn) - dx * math.sin(turn),
    )


@functools.cache
def canvas(size: int) -> tuple[Float[np.ndarray, "s s"], Float[np.ndarray, "s s"]]:
    """Centres of the pixels of a canvas between -1 and 1: x of columns, y of rows."""
    line = (np.arange(size) + 0.5) * (2 / size) - 1
    x, y = np.meshgrid(line, line)
    return x, y
