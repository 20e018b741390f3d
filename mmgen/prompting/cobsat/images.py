"""The 500 images of CoBSAT, or a part of them, from a folder in the official layout.

    color_object.csv               columns image, caption: one row per image of the theme
    color_car/red_car.jpg          `<attribute kind>_<object>/<attribute>_<object>.jpg`, raw words

Files may end in .png, .jpeg or .webp, too: some official files named .jpg hold another format.
"""

import csv
import hashlib
import io
import pathlib
from collections.abc import Iterable, Sequence

from mmgen.errors import UserError
from mmgen.prompting.cobsat.lists import Cell, Theme
from mmgen.prompting.requests import Picture

SUFFIXES = (".jpg", ".png", ".jpeg", ".webp")

FOLDERS = (".", "datasets", "images")
"""Where the folders of images may lie below the given one."""


class ImageFolder:
    """Images and captions of themes; files are looked for when they are asked for.

    Attributes:
      root: the folder that holds the folders of images.
    """

    def __init__(self, root: pathlib.Path, themes: Sequence[Theme]):
        """Find the images below `root`.

        Raises:
          UserError: there is not one image of the themes.
        """
        self._themes = tuple(themes)
        candidates = [root / folder for folder in FOLDERS]
        found = [folder for folder in candidates if any(_cells(folder, self._themes))]
        if not found:
            raise UserError(
                f"{root} holds no image in CoBSAT's layout, such as color_car/red_car.jpg: give "
                "the folder that holds color_car, or build shape_world."
            )
        self.root = found[0]
        self._captions: dict[str, dict[str, str]] = {}

    def present(self, theme: Theme) -> list[Cell]:
        """Cells of which there is an image, in their order."""
        return [cell for other, cell in _cells(self.root, (theme,)) if other is theme]

    def path(self, theme: Theme, cell: Cell) -> pathlib.Path:
        """The file of an image; UserError if there is none."""
        path = _find(self.root, theme, cell)
        if path is None:
            raise UserError(
                f"{self.root / image_name(theme, cell)} is missing: get the image, or choose tasks "
                "and records that do not show it."
            )
        return path

    def picture(self, theme: Theme, cell: Cell) -> Picture:
        """An image for a prompt."""
        return Picture(path=str(self.path(theme, cell)))

    def captions(self, theme: Theme) -> dict[str, str]:
        """Image stem -> caption of the images there are; empty without a captions file."""
        if theme.folder not in self._captions:
            path = self.root / f"{theme.folder}.csv"
            self._captions[theme.folder] = read_captions(path) if path.is_file() else {}
        return self._captions[theme.folder]

    def caption(self, theme: Theme, cell: Cell) -> str:
        """The caption of an image; UserError if there is none."""
        stem = pathlib.PurePath(image_name(theme, cell)).stem
        try:
            return self.captions(theme)[stem]
        except KeyError:
            raise UserError(
                f"{self.root / theme.folder}.csv is missing or has no caption of {stem}.jpg, which "
                "prompt=caption needs; its columns are image and caption."
            ) from None

    def verify(self, needed: Iterable[tuple[Theme, Cell]]) -> str:
        """Decode the images needed; hex checksum over their names and bytes.

        Raises:
          UserError: an image is missing or does not decode.
        """
        digest = hashlib.sha256()
        for theme, cell in sorted(set(needed), key=lambda key: image_name(*key)):
            path = self.path(theme, cell)
            data = path.read_bytes()
            decode(data, str(path))
            digest.update(image_name(theme, cell).encode() + hashlib.sha256(data).digest())
        return digest.hexdigest()


def image_name(theme: Theme, cell: Cell) -> str:
    """Official name of an image below the folder of data, such as `color_car/red_car.jpg`."""
    attribute, kind = theme.attributes[cell.attribute], theme.objects[cell.object]
    return f"{theme.attribute}_{kind}/{attribute}_{kind}.jpg"


def read_captions(path: pathlib.Path) -> dict[str, str]:
    """Image stem -> caption from a csv with the columns image and caption.

    Raises:
      UserError: the file is damaged, or lacks the columns.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {pathlib.PurePath(row["image"]).stem: row["caption"].strip() for row in rows}
    except (OSError, KeyError, AttributeError, ValueError, csv.Error) as error:
        raise UserError(
            f"{path} is no captions file ({error!r}): give a csv with the columns image and "
            "caption."
        ) from None


def decode(data: bytes, name: str):
    """An encoded image as RGB; UserError with its name if it does not decode."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(
            f"{name} is no image that can be decoded ({error}): get it again."
        ) from None


def _find(root: pathlib.Path, theme: Theme, cell: Cell) -> pathlib.Path | None:
    official = root / image_name(theme, cell)
    candidates = (official.with_suffix(suffix) for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def _cells(root: pathlib.Path, themes: Sequence[Theme]) -> Iterable[tuple[Theme, Cell]]:
    for theme in themes:
        for attribute in range(len(theme.attributes)):
            for kind in range(len(theme.objects)):
                cell = Cell(attribute, kind)
                if _find(root, theme, cell):
                    yield theme, cell
