"""`shape_world`: CoBSAT's 500 images, drawn; what they show can be read from the pixels.

The built-in world of CoBSAT (CORRECTIONS F): its lists, its folder layout, its captions files. An
object is one of twenty silhouettes, an attribute one of ten renderings of its theme; shift, scale,
rotation, brightness and distracting dots are drawn from the file's own name, so that any image can
be drawn again, and others of the same cell with other nuisances. The same settings and the same
version of Pillow give the same bytes.
"""

import csv
import dataclasses
import io
import pathlib

from mmgen.core.rng import stream_id
from mmgen.data.worlds.shape_captions import write_caption
from mmgen.data.worlds.shape_drawing import draw_image, draw_nuisance
from mmgen.errors import UserError
from mmgen.prompting.cobsat.images import image_name
from mmgen.prompting.cobsat.lists import THEMES, Cell, Theme

NAME = "shape_world"

QUALITY = 95
"""Of the JPEG files, without colour subsampling."""


@dataclasses.dataclass(frozen=True)
class ShapeWorldSettings:
    """Settings of the world.

    Attributes:
      data_seed: of nuisances and captions.
      size: pixels of an image's side, 32 or more.
    """

    data_seed: int = 0
    size: int = 128

    def __post_init__(self) -> None:
        """UserError for a size at which forms cannot be told apart."""
        if self.size < 32:
            raise UserError(f"shape_world: size={self.size}; at least 32 pixels are needed.")


def build_shape_world(
    root: pathlib.Path, settings: ShapeWorldSettings, *, force: bool = False
) -> None:
    """Draw the world into the folder `root`, which appears only when it is finished.

    Raises:
      UserError: `root` is finished already or is not ours, or the disk is full.
    """
    from mmgen.data.builders.cobsat import CobsatWriter

    chosen = dataclasses.asdict(settings)
    info = {
        "name": NAME,
        "builder": f"{__name__}:{build_shape_world.__name__}",
        "data_seed": chosen.pop("data_seed"),
        "settings": chosen,
        "licences": ["none needed: drawn by mmgen"],
        "world": True,
    }
    with CobsatWriter(root, THEMES, info, force=force) as writer:
        for theme in THEMES:
            rows = []
            for cell in cells(theme):
                name = image_name(theme, cell)
                path = writer.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(encode(draw(theme, cell, name, settings), "JPEG"))
                rows.append((path.name, write_caption(theme, cell, name, settings.data_seed)))
            _write_captions(writer.folder / f"{theme.folder}.csv", rows)


def cells(theme: Theme) -> list[Cell]:
    """Every pair of an attribute and an object, attributes first."""
    return [Cell(a, o) for a in range(len(theme.attributes)) for o in range(len(theme.objects))]


def draw(theme: Theme, cell: Cell, name: str, settings: ShapeWorldSettings):
    """An image of a cell with the nuisances of the file called `name`: uint8[size, size, 3]."""
    return draw_image(theme, cell, draw_nuisance(name, settings.data_seed), settings.size)


def draw_again(theme: Theme, cell: Cell, seed: int, size: int = 128) -> bytes:
    """Another image of a cell, as PNG, with nuisances that depend on `seed` alone."""
    nuisance = draw_nuisance(f"again/{seed}", stream_id(image_name(theme, cell)))
    return encode(draw_image(theme, cell, nuisance, size), "PNG")


def encode(pixels, kind: str) -> bytes:
    """An image file, always the same bytes for the same pixels."""
    from PIL import Image

    out = io.BytesIO()
    options = {"quality": QUALITY, "subsampling": 0} if kind == "JPEG" else {}
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def _write_captions(path: pathlib.Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("image", "caption"))
        writer.writerows(rows)
