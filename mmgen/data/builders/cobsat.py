"""CoBSAT from its official folder, `shape_world` in the same layout, and the prompt files.

A built folder is in the official layout itself, with `dataset.json` beside the images: counts and
a fingerprint over names, bytes and captions.
"""

import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

from mmgen.core.workdir import Workdir
from mmgen.data.builders.request import BuildRequest
from mmgen.data.folder import FolderWriter
from mmgen.errors import UserError
from mmgen.prompting.cobsat.dataset import KIND, LICENCE, find_themes, image_facts
from mmgen.prompting.cobsat.images import ImageFolder, image_name
from mmgen.prompting.cobsat.lists import Theme
from mmgen.prompting.cobsat.records import SEED, prompt_file
from mmgen.prompting.cobsat.tasks import THEME_FILE

DEFAULTS: dict[str, Any] = {
    # Name of the data set: another one for a theme of one's own.
    "name": "cobsat",
    # Stated in every output that the data set appears in.
    "licence": LICENCE,
}


class CobsatWriter(FolderWriter):
    """Writes images and captions; the manifest's counts and fingerprint come from the files."""

    def __init__(
        self,
        root: pathlib.Path,
        themes: tuple[Theme, ...],
        info: Mapping[str, Any],
        *,
        force: bool = False,
    ):
        """`info` holds the facts that the files do not tell."""
        super().__init__(root, force=force)
        self._themes = themes
        self._info = dict(info)

    def complete(self) -> dict[str, Any]:
        """Decode every image; the manifest."""
        images = ImageFolder(self.folder, self._themes)
        return self._info | {"kind": KIND} | image_facts(images, self._themes)


def build_cobsat(request: BuildRequest) -> pathlib.Path:
    """Copy a folder in the official layout, whole or in part, after a check of every image.

    A folder with a `theme.json` is a theme of one's own, see `mmgen.prompting.cobsat.tasks`.

    Raises:
      UserError: no image is there, one does not decode, or an argument has no meaning here.
    """
    raw = request.raw_folder()
    _refuse(request, "train_from", "features", "tokenizer", "pairs")
    choice = request.chosen(DEFAULTS)
    themes = find_themes(raw)
    images = ImageFolder(raw, themes)
    info = {
        "name": choice["name"],
        "builder": f"{__name__}:{build_cobsat.__name__}",
        "settings": {},
        "licences": [choice["licence"]],
        "world": False,
    }
    with CobsatWriter(request.out / choice["name"], themes, info, force=request.force) as writer:
        for theme in themes:
            for cell in images.present(theme):
                source = images.path(theme, cell)
                target = (writer.folder / image_name(theme, cell)).with_suffix(source.suffix)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            captions = images.root / f"{theme.folder}.csv"
            if captions.is_file():
                shutil.copyfile(captions, writer.folder / captions.name)
        if (raw / THEME_FILE).is_file():
            shutil.copyfile(raw / THEME_FILE, writer.folder / THEME_FILE)
    return writer.root


def build_shape(request: BuildRequest) -> pathlib.Path:
    """Draw `shape_world`; returns its folder, where runs look for it."""
    from mmgen.data.builders.world import build_with
    from mmgen.data.worlds.shape_world import ShapeWorldSettings, build_shape_world

    return build_with(request, ShapeWorldSettings, build_shape_world)


def write_prompts(request: BuildRequest) -> str:
    """Write a prompt file of CoBSAT to the file `request.out`; returns a sentence about it.

    Raises:
      UserError: another data set, an unknown mode, or a file that cannot be written.
    """
    if request.name != "cobsat":
        raise UserError(f"--prompts-only has no meaning for {request.name}: only cobsat has it")
    _refuse(request, "raw", "train_from", "features", "tokenizer", "pairs")
    if request.out.is_dir():
        raise UserError(f"--out {request.out} is a folder: --prompts-only writes one file")
    choice = request.chosen({"mode": "default"})
    text = prompt_file(choice["mode"], request.data_seed)
    Workdir(request.out.parent).write_text(request.out.name, text)
    hint = "" if request.data_seed == SEED else f" (those of the release have seed {SEED})"
    return f"{request.out}: prompts {choice['mode']} of seed {request.data_seed}{hint}"


def _refuse(request: BuildRequest, *options: str) -> None:
    for option in options:
        if getattr(request, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} has no meaning for {request.name}")
