"""The ten tasks of CoBSAT, and those of themes of one's own (paper, Table 1 and section 9)."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from mmgen.errors import UserError
from mmgen.prompting.cobsat.lists import DISPLAY, THEMES, Cell, Theme

THEME_FILE = "theme.json"


class Task(NamedTuple):
    """What the text gives and what the images must tell.

    Attributes:
      number: 1 to 10 in the paper's order; themes of one's own go on from 11.
      name: "Color-I".
      theme: its lists.
      given: the kind that the text names, "attribute" or "object" (x of the paper).
      latent: the kind that the demonstrations share (theta): "object" in object inference (-I).
    """

    number: int
    name: str
    theme: Theme
    given: str
    latent: str

    @property
    def words(self) -> tuple[str, ...]:
        """Raw words of the given kind."""
        return self.theme.items(self.given)

    @property
    def latents(self) -> tuple[str, ...]:
        """Raw words of the latent kind."""
        return self.theme.items(self.latent)

    def cell(self, given: int, latent: int) -> Cell:
        """The image of a text and a latent, by their positions."""
        return Cell(given, latent) if self.given == "attribute" else Cell(latent, given)


def make_tasks(themes: Sequence[Theme], first: int = 1) -> tuple[Task, ...]:
    """Object and attribute inference of every theme, numbered from `first`."""
    tasks = []
    for place, theme in enumerate(themes):
        number, title = first + 2 * place, theme.name[:1].upper() + theme.name[1:]
        tasks.append(Task(number, f"{title}-I", theme, "attribute", "object"))
        tasks.append(Task(number + 1, f"{title}-II", theme, "object", "attribute"))
    return tuple(tasks)


TASKS = make_tasks(THEMES)
"""The ten published tasks: odd numbers infer the object, even ones the attribute."""


def choose_tasks(names: Sequence[str | int], known: Sequence[Task] = TASKS) -> tuple[Task, ...]:
    """Tasks by name or number in their order; "all", "object" and "attribute" name several.

    Raises:
      UserError: there is no such task.
    """
    chosen: set[int] = set()
    for name in names:
        found = [task.number for task in known if _is_called(task, str(name))]
        if not found:
            raise UserError(
                f"there is no CoBSAT task {name!r}: give all, object, attribute, a theme, a number "
                f"or one of {', '.join(task.name for task in known)}."
            )
        chosen.update(found)
    return tuple(task for task in known if task.number in chosen)


def _is_called(task: Task, name: str) -> bool:
    return name.lower() in ("all", task.name.lower(), task.theme.name, task.latent) or name == str(
        task.number
    )


def read_theme(folder: pathlib.Path) -> Theme:
    """A theme of one's own from `theme.json` in its folder of images.

        {"name": "count", "attribute": "count", "object": "object",
         "attributes": ["one", "two", ...], "objects": ["leaf", ...], "display": {"two": "a pair"}}

    Raises:
      UserError: the file is missing or damaged, or its lists do not fit.
    """
    path = folder / THEME_FILE
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        attributes, objects = (tuple(map(str, value[key])) for key in ("attributes", "objects"))
        theme = Theme(
            str(value["name"]).lower(),
            str(value["attribute"]),
            str(value["object"]),
            attributes,
            objects,
            display=(*DISPLAY, *value.get("display", {}).items()),
        )
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: a theme of your own needs it, with the keys name, attribute, "
            "object, attributes and objects."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no theme ({error!r}): give an object with the keys name, attribute, "
            "object, attributes and objects."
        ) from None
    for key, words in (("attributes", attributes), ("objects", objects)):
        if len(set(words)) != len(words) or len(words) < 2:
            raise UserError(f"{path}: {key} needs two words or more, each of them once.")
    if len(theme.attributes) != len(theme.objects):
        raise UserError(
            f"{path} has {len(theme.attributes)} attributes and {len(theme.objects)} objects: "
            "prompts are drawn from lists of one length."
        )
    return theme
