"""Small pictures by formula, the same for the peers and for the tests."""

import numpy as np
from PIL import Image


def pictures() -> list[Image.Image]:
    """A wide, a tall with alpha, a grey and a tiny one; every edge other than the tower's."""
    return [
        _picture(13, 20, 3),
        _picture(19, 11, 4),
        _picture(16, 16, 1),
        _picture(5, 7, 3),
    ]


def _picture(height: int, width: int, channels: int) -> Image.Image:
    row, column, channel = np.ogrid[:height, :width, :channels]
    waves = np.sin(0.9 * row + channel) * np.cos(0.5 * column - 0.7 * channel)
    pixels = np.rint(127.5 * (1 + waves)).astype(np.uint8)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
