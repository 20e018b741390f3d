"""Attributes of `shape_world` around a dark animal: backgrounds, and marks that tell an action.

Backgrounds are scenes of the whole canvas. Marks belong to the animal: polygons in the square of
its silhouette, behind it. Neither has a colour as dark as the animal, and each its own colours.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

INK = (28, 28, 28)
"""Colour of animals."""

Color = tuple[int, int, int]
Plane = Float[np.ndarray, "s s"]
Scene = Callable[[Plane, Plane], Float[np.ndarray, "s s 3"]]


def _layers(x: Plane, base: Color, *layers: tuple[np.ndarray, Color]) -> np.ndarray:
    """Areas of one colour on a ground, each over those before it."""
    colors = np.broadcast_to(np.asarray(base, np.float64), (*x.shape, 3))
    for inside, color in layers:
        colors = np.where(inside[..., None], np.asarray(color, np.float64), colors)
    return colors


def _disc(x: Plane, y: Plane, cx: float, cy: float, r: float) -> np.ndarray:
    return (x - cx) ** 2 + (y - cy) ** 2 < r * r


def _beach(x: Plane, y: Plane) -> np.ndarray:
    return _layers(
        x,
        (130, 205, 250),
        (_disc(x, y, 0.6, -0.7, 0.2), (255, 235, 60)),
        (y > -0.25, (25, 110, 200)),
        (y > 0.25 + 0.05 * np.sin(6 * x), (245, 222, 150)),
    )


def _desert(x: Plane, y: Plane) -> np.ndarray:
    return _layers(
        x,
        (255, 205, 140),
        (_disc(x, y, -0.6, -0.65, 0.18), (255, 250, 220)),
        (y > -0.1 + 0.2 * np.sin(3 * x), (225, 150, 65)),
        (y > 0.4 + 0.15 * np.sin(4 * x + 2), (200, 120, 45)),
    )


def _glacier(x: Plane, y: Plane) -> np.ndarray:
    peaks = y > -0.7 + 0.9 * np.abs(np.mod(x + 1, 0.8) - 0.4)
    return _layers(x, (165, 205, 235), (peaks, (240, 248, 255)), (y > 0.5, (175, 225, 240)))


def _volcano(x: Plane, y: Plane) -> np.ndarray:
    cone = y > -0.6 + 1.1 * np.abs(x)
    lava = (np.abs(x - 0.1 * np.sin(5 * y)) < 0.12 + 0.15 * (y + 0.6)) & cone
    return _layers(x, (150, 95, 105), (cone, (110, 85, 85)), (lava, (255, 85, 10)))


def _park(x: Plane, y: Plane) -> np.ndarray:
    crowns = _disc(x, y, -0.7, -0.4, 0.35) | _disc(x, y, 0.7, -0.35, 0.4)
    return _layers(
        x, (175, 225, 255), (y > 0.0, (95, 190, 70)), (crowns, (40, 125, 50))
    )  # fmt: skip


def _gym(x: Plane, y: Plane) -> np.ndarray:
    boards = np.mod(x * (1.6 - y), 0.4) < 0.04
    wall = (np.mod(x, 0.5) < 0.08) & (y < 0.1)
    return _layers(
        x,
        (200, 185, 225),
        (wall, (150, 120, 195)),
        (y > 0.1, (215, 165, 110)),
        ((y > 0.1) & boards, (165, 110, 60)),
    )


def _waterfall(x: Plane, y: Plane) -> np.ndarray:
    fall = np.abs(x) < 0.55
    return _layers(
        x,
        (110, 125, 95),
        (fall, (90, 170, 235)),
        (fall & (np.mod(x, 0.22) < 0.1), (225, 245, 255)),
        (y > 0.7, (60, 140, 215)),
    )


def _space(x: Plane, y: Plane) -> np.ndarray:
    stars = np.sin(23 * x + 5 * np.sin(7 * y)) * np.sin(19 * y) > 0.93
    ring = _disc(x, y / 0.3 * 0.5 + 0.4, 0.55, -0.6, 0.45)
    return _layers(
        x,
        (62, 38, 125),
        (stars, (255, 255, 230)),
        (ring, (190, 120, 220)),
        (_disc(x, y, 0.55, -0.6, 0.24), (240, 180, 80)),
    )


def _cave(x: Plane, y: Plane) -> np.ndarray:
    mouth = (x / 0.75) ** 2 + ((y + 0.05) / 0.7) ** 2 < 1
    teeth = y < -0.55 + 0.3 * np.abs(np.mod(x, 0.3) - 0.15) / 0.15
    return _layers(
        x,
        (118, 82, 62),
        (mouth, (235, 225, 175)),
        (teeth, (95, 62, 48)),
        (y > 0.65, (140, 105, 85)),
    )


def _seafloor(x: Plane, y: Plane) -> np.ndarray:
    coral = (np.abs(np.mod(x, 0.6) - 0.3) < 0.06 + 0.04 * np.sin(12 * y)) & (y > 0.15)
    return _layers(
        x,
        (0, 120, 130),
        (np.mod(y + 0.1 * np.sin(5 * x), 0.4) < 0.08, (40, 165, 165)),
        (coral, (250, 110, 130)),
        (y > 0.75, (150, 155, 95)),
    )


SCENES: Mapping[str, Scene] = MappingProxyType(
    {
        "beach": _beach,
        "desert": _desert,
        "glacier": _glacier,
        "volcano": _volcano,
        "park": _park,
        "gym": _gym,
        "waterfall": _waterfall,
        "space": _space,
        "cave": _cave,
        "seafloor": _seafloor,
    }
)
"""Raw word of a background -> its scene over the canvas."""


class Mark(NamedTuple):
    """What tells an action: areas of one colour in the silhouette's square, and a second colour."""

    area: Callable[[Plane, Plane], np.ndarray]
    color: Color
    inner: Callable[[Plane, Plane], np.ndarray] | None = None
    inner_color: Color = (0, 0, 0)


def _waves(u: Plane, v: Plane) -> np.ndarray:
    return (v > 0.45) & (np.sin(9 * v + 2 * np.sin(5 * u)) > -0.3) & (np.abs(u) < 1.5) & (v < 1.4)


def _moon(u: Plane, v: Plane) -> np.ndarray:
    return _disc(u, v, -0.75, -0.95, 0.5) & ~_disc(u, v, -0.5, -1.1, 0.38)


def _notes(u: Plane, v: Plane) -> np.ndarray:
    heads = _disc(u, v, -0.95, -0.55, 0.2) | _disc(u, v, -0.3, -0.75, 0.2)
    stems = ((np.abs(u + 0.8) < 0.07) | (np.abs(u + 0.15) < 0.07)) & (v < -0.55) & (v > -1.35)
    return heads | stems | ((v < -1.2) & (v > -1.38) & (u > -0.87) & (u < -0.08))


def _speed(u: Plane, v: Plane) -> np.ndarray:
    return (u < -0.6) & (u > -1.4) & (np.mod(v + 0.1, 0.45) < 0.2) & (np.abs(v) < 0.9)


def _open_book(u: Plane, v: Plane) -> np.ndarray:
    return (u > 0.5) & (u < 1.35) & (v > 0.2) & (v < 0.95)


def _pages(u: Plane, v: Plane) -> np.ndarray:
    return (np.abs(u - 0.92) > 0.06) & (np.abs(u - 0.92) < 0.3) & (v > 0.3) & (v < 0.85)


def _wings(u: Plane, v: Plane) -> np.ndarray:
    return (v < -0.1) & (v > -1.3) & (np.abs(u) > 0.25 - 0.4 * (v + 0.1)) & (np.abs(u) < 1.15)


def _bowl(u: Plane, v: Plane) -> np.ndarray:
    return _disc(u, v, 1.0, 0.35, 0.45) & (v > 0.3) | _disc(u, v, 1.0, 0.15, 0.25)


def _glass(u: Plane, v: Plane) -> np.ndarray:
    return (v > 0.15) & (v < 0.95) & (np.abs(u - 1.0) < 0.38 - 0.15 * v) | (
        (np.abs(u - 1.15 - 0.2 * (0.15 - v)) < 0.06) & (v < 0.2) & (v > -0.3)
    )


def _tears(u: Plane, v: Plane) -> np.ndarray:
    def drop(cu: float, cv: float) -> np.ndarray:
        tip = (v > cv - 0.45) & (v < cv) & (np.abs(u - cu) < 0.45 * (v - cv + 0.45))
        return _disc(u, v, cu, cv, 0.2) | tip

    return drop(1.05, 0.25) | drop(0.75, 0.75) | drop(1.2, 0.9)


def _bolt(u: Plane, v: Plane) -> np.ndarray:
    zigzag = 0.3 * (2 * np.abs(np.mod(1.6 * v, 1) - 0.5) - 0.5)
    return (np.abs(u + 0.85 - zigzag) < 0.16) & (v < 0.3) & (v > -1.3)


MARKS: Mapping[str, Mark] = MappingProxyType(
    {
        "swim": Mark(_waves, (30, 95, 235)),
        "sleep": Mark(_moon, (130, 60, 205)),
        "sing": Mark(_notes, (255, 140, 15)),
        "run": Mark(_speed, (150, 85, 40)),
        "read": Mark(_open_book, (220, 25, 30), _pages, (255, 250, 235)),
        "fly": Mark(_wings, (150, 215, 255)),
        "eat": Mark(_bowl, (45, 165, 55)),
        "drink": Mark(_glass, (0, 215, 205)),
        "cry": Mark(_tears, (25, 35, 150)),
        "angry": Mark(_bolt, (240, 25, 150)),
    }
)
"""Raw word of an action -> its mark."""


def draw_mark(mark: Mark, u: Plane, v: Plane, ground: Color) -> Float[np.ndarray, "s s 3"]:
    """A mark on a plain ground, in the coordinates of the silhouette's square."""
    layers = [(mark.area(u, v), mark.color)]
    if mark.inner is not None:
        layers.append((mark.inner(u, v), mark.inner_color))
    return _layers(u, ground, *layers)
