"""Attributes of `shape_world` that fill a silhouette: colours, textures and styles.

A fill maps the coordinates of the silhouette's square to colours, so that its pattern turns and
grows with it. Fills of one theme differ in their mix of colours, which survives what blurs a
pattern: small images, JPEG, other scales.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

PLAIN = (168, 168, 168)
"""Background of every image but those of the background theme."""

EDGE = 0.07
"""Width of an outline, in half squares."""


class Surface(NamedTuple):
    """What a fill may look at.

    Attributes:
      u, v: of each pixel in the silhouette's square.
      edge: is it on the outline?
    """

    u: Float[np.ndarray, "s s"]
    v: Float[np.ndarray, "s s"]
    edge: Bool[np.ndarray, "s s"]


Color = tuple[int, int, int]
Fill = Callable[[Surface], Float[np.ndarray, "s s 3"]]


def _flat(color: Color) -> Fill:
    return lambda s: np.broadcast_to(np.asarray(color, np.float64), (*s.u.shape, 3)).copy()


def _where(condition: np.ndarray, yes: Color, no: Color | np.ndarray) -> np.ndarray:
    return np.where(condition[..., None], np.asarray(yes, np.float64), np.asarray(no, np.float64))


def _mix(weight: np.ndarray, one: Color, other: Color) -> np.ndarray:
    share = weight[..., None]
    return share * np.asarray(one, np.float64) + (1 - share) * np.asarray(other, np.float64)


def _outlined(s: Surface, color: Color, inside: np.ndarray) -> np.ndarray:
    return _where(s.edge, color, inside)


def _cells(s: Surface, size: float) -> tuple[np.ndarray, np.ndarray]:
    return np.floor(s.u / size).astype(np.int64), np.floor(s.v / size).astype(np.int64)


def _hash(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """A number in [0, 1) for each cell of a grid, without order but always the same."""
    return ((i * 73_856_093) ^ (j * 19_349_663)) % 1009 / 1009


def _wood(s: Surface) -> np.ndarray:
    grain = np.sin(14 * s.v + 2 * np.sin(3 * s.u)) > 0
    return _where(grain, (150, 95, 45), (105, 60, 22))


def _wicker(s: Surface) -> np.ndarray:
    i, j = _cells(s, 0.16)
    return _where((i + j) % 2 == 0, (228, 195, 125), (190, 140, 70))


def _sequined(s: Surface) -> np.ndarray:
    i, j = _cells(s, 0.14)
    return _where(_hash(i, j) > 0.7, (255, 190, 230), (222, 40, 140))


def _plastic(s: Surface) -> np.ndarray:
    return _where(np.abs(s.u - s.v + 0.5) < 0.12, (225, 250, 255), (0, 190, 215))


def _paper(s: Surface) -> np.ndarray:
    return _where(np.sin(20 * s.v) > 0.8, (185, 200, 240), (250, 248, 240))


def _metal(s: Surface) -> np.ndarray:
    return _mix(0.5 + 0.5 * np.sin(5 * s.u), (125, 135, 155), (62, 70, 92))


def _leather(s: Surface) -> np.ndarray:
    inside = _where(_hash(*_cells(s, 0.1)) > 0.5, (92, 30, 24), (75, 20, 18))
    return _outlined(s, (215, 165, 110), inside)


def _lace(s: Surface) -> np.ndarray:
    holes = np.sin(16 * s.u) * np.sin(16 * s.v) > 0.2
    return _where(holes, (70, 20, 85), (250, 250, 252))


def _denim(s: Surface) -> np.ndarray:
    inside = _where(np.sin(24 * (s.u + s.v)) > 0.3, (70, 105, 175), (38, 62, 125))
    return _outlined(s, (235, 150, 60), inside)


def _ceramic(s: Surface) -> np.ndarray:
    return _where(np.abs(np.sin(3.5 * s.v)) < 0.45, (240, 252, 246), (120, 215, 170))


def _watercolor(s: Surface) -> np.ndarray:
    wash = 0.5 + 0.5 * np.sin(2.5 * s.u + 1.5 * np.sin(2 * s.v))
    return _mix(wash, (205, 165, 240), (252, 205, 180))


def _sketch(s: Surface) -> np.ndarray:
    hatched = np.sin(18 * (s.u - s.v)) > 0.85
    return _outlined(s, (25, 25, 25), _where(hatched, (60, 60, 60), (246, 246, 244)))


def _pixel(s: Surface) -> np.ndarray:
    return _where(_hash(*_cells(s, 0.25)) > 0.5, (130, 225, 60), (30, 130, 45))


def _origami(s: Surface) -> np.ndarray:
    facet = np.floor((np.arctan2(s.v, s.u) + np.pi) / (np.pi / 4)).astype(np.int64) % 3
    return np.asarray(((240, 75, 60), (190, 30, 35), (255, 140, 120)), np.float64)[facet]


def _lego(s: Surface) -> np.ndarray:
    du, dv = (np.mod(x, 0.35) - 0.175 for x in (s.u, s.v))
    return _where(du**2 + dv**2 < 0.011, (205, 140, 5), (252, 205, 25))


def _icon(s: Surface) -> np.ndarray:
    return _outlined(s, (90, 120, 255), _flat((18, 18, 18))(s))


def _graffiti(s: Surface) -> np.ndarray:
    spray = np.sin(5 * s.u + 3 * np.sin(4 * s.v)) + np.sin(6 * s.v - 2 * s.u)
    return _where(spray > 0.5, (70, 255, 215), _where(spray < -0.5, (255, 225, 0), (255, 50, 175)))


def _futuristic(s: Surface) -> np.ndarray:
    circuit = (np.mod(s.u, 0.4) < 0.07) | (np.mod(s.v + s.u, 0.55) < 0.08)
    return _outlined(s, (40, 235, 255), _where(circuit, (40, 235, 255), (18, 22, 80)))


def _wireframe(s: Surface) -> np.ndarray:
    wires = (np.mod(s.u, 0.3) < 0.07) | (np.mod(s.v, 0.3) < 0.07)
    return _outlined(s, (0, 140, 50), _where(wires, (0, 140, 50), PLAIN))


def _old(s: Surface) -> np.ndarray:
    scratched = _hash(np.floor(s.u / 0.06).astype(np.int64), np.zeros((), np.int64)) > 0.8
    return _where(scratched, (205, 180, 140), (128, 95, 60))


FILLS: Mapping[str, Mapping[str, Fill]] = MappingProxyType(
    {
        "color": {
            "yellow": _flat((250, 225, 20)),
            "white": _flat((252, 252, 252)),
            "red": _flat((225, 20, 25)),
            "purple": _flat((125, 35, 170)),
            "pink": _flat((255, 150, 195)),
            "orange": _flat((255, 135, 5)),
            "green": _flat((30, 150, 45)),
            "brown": _flat((115, 65, 25)),
            "blue": _flat((25, 70, 225)),
            "black": _flat((18, 18, 18)),
        },
        "texture": {
            "wood": _wood,
            "wicker": _wicker,
            "sequined": _sequined,
            "plastic": _plastic,
            "paper": _paper,
            "metal": _metal,
            "leather": _leather,
            "lace": _lace,
            "denim": _denim,
            "ceramic": _ceramic,
        },
        "style": {
            "watercolor": _watercolor,
            "sketch": _sketch,
            "pixel": _pixel,
            "origami": _origami,
            "lego": _lego,
            "icon": _icon,
            "graffiti": _graffiti,
            "futuristic": _futuristic,
            "3d": _wireframe,
            "old": _old,
        },
    }
)
"""Theme -> raw word of an attribute -> fill."""
