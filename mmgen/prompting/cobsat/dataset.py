"""A CoBSAT data set: a prepared folder, or any folder of images in the official layout."""

import hashlib
import json
import pathlib
from typing import Any, NamedTuple

from mmgen.data.folder import MANIFEST
from mmgen.errors import UserError
from mmgen.prompting.cobsat.images import ImageFolder, image_name
from mmgen.prompting.cobsat.lists import THEMES, Theme
from mmgen.prompting.cobsat.tasks import TASKS, THEME_FILE, Task, make_tasks, read_theme

KIND = "cobsat"

LICENCE = "CoBSAT: MIT by its data card, none stated in its repository; images from the web"


class CobsatDataset(NamedTuple):
    """Images, captions and the tasks that they allow.

    Attributes:
      root: its folder.
      info: facts for every output: name, fingerprint, licences, world, images, themes.
      images: the files.
      tasks: the ten published ones and those of a theme of one's own, as far as there are images.
    """

    root: pathlib.Path
    info: dict[str, Any]
    images: ImageFolder
    tasks: tuple[Task, ...]


def open_cobsat(root: pathlib.Path) -> CobsatDataset:
    """Open a prepared data set, or a bare folder of images, whose facts are then gathered anew.

    Raises:
      UserError: there is no such data set, or one of its files is damaged.
    """
    manifest = root / MANIFEST
    if not manifest.is_file():
        themes = find_themes(root)
        images = ImageFolder(root, themes)
        info = {
            "name": "cobsat",
            "kind": KIND,
            "world": False,
            "licences": [LICENCE],
            **image_facts(images, themes),
        }
        return CobsatDataset(root, info, images, _tasks(themes, images))
    try:
        info = json.loads(manifest.read_text(encoding="utf-8"))
        themes = tuple(_theme(value) for value in info["themes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{manifest} is damaged ({error!r}): build the data set again.") from None
    images = ImageFolder(root, themes)
    return CobsatDataset(root, info, images, _tasks(themes, images))


def verify_cobsat(dataset: CobsatDataset) -> None:
    """Compare the files with the manifest; UserError says what differs."""
    themes = tuple(_theme(value) for value in dataset.info["themes"])
    facts = image_facts(dataset.images, themes)
    for key, value in facts.items():
        if dataset.info.get(key) != value:
            raise UserError(
                f"{dataset.root}: {key} of its files is not what {MANIFEST} says: build the data "
                "set again."
            )


def find_themes(root: pathlib.Path) -> tuple[Theme, ...]:
    """The theme of one's own if `root` has a theme.json, else the published five."""
    return (read_theme(root),) if (root / THEME_FILE).is_file() else THEMES


def image_facts(images: ImageFolder, themes: tuple[Theme, ...]) -> dict[str, Any]:
    """Counts and fingerprint of the images and captions there are; every image is decoded.

    Raises:
      UserError: an image does not decode, or a captions file is damaged.
    """
    digest = hashlib.sha256()
    described = []
    for theme in themes:
        cells = images.present(theme)
        digest.update(images.verify((theme, cell) for cell in cells).encode())
        captions = images.captions(theme)
        digest.update(json.dumps(captions, sort_keys=True).encode())
        facts = theme._asdict() | {"images": len(cells), "captions": len(captions)}
        described.append(json.loads(json.dumps(facts)))
    return {
        "images": sum(theme["images"] for theme in described),
        "themes": described,
        "fingerprint": digest.hexdigest(),
    }


def summary(dataset: CobsatDataset) -> str:
    """Name, counts and fingerprint, as text."""
    info = dataset.info
    lines = [f"data set {info['name']} in {dataset.root}", "", "theme         images  captions"]
    lines += [f"{t['name']:<12}  {t['images']:>6}  {t['captions']:>8}" for t in info["themes"]]
    cell = next(iter(dataset.images.present(dataset.tasks[0].theme)))
    lines += [
        "",
        f"first image  {image_name(dataset.tasks[0].theme, cell)}",
        f"licences     {'; '.join(info['licences'])}",
        f"fingerprint  {info['fingerprint']}",
    ]
    return "\n".join(lines)


def _tasks(themes: tuple[Theme, ...], images: ImageFolder) -> tuple[Task, ...]:
    tasks = TASKS if themes == THEMES else make_tasks(themes, first=len(TASKS) + 1)
    return tuple(task for task in tasks if images.present(task.theme))


def _theme(value: dict[str, Any]) -> Theme:
    return Theme(
        value["name"],
        value["attribute"],
        value["object"],
        tuple(value["attributes"]),
        tuple(value["objects"]),
        tuple((raw, shown) for raw, shown in value["display"]),
    )
