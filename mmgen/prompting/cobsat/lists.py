"""The word lists of CoBSAT and the themes made of them (paper, Table 1).

Order matters: the options that a judge is shown are numbered by position, and prompts are stored as
positions.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

ITEMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        kind: tuple(words.split())
        for kind, words in {
            "color": "yellow white red purple pink orange green brown blue black",
            "background": "beach desert glacier volcano park gym waterfall space cave seafloor",
            "style": "watercolor sketch pixel origami lego icon graffiti futuristic 3d old",
            "action": "swim sleep sing run read fly eat drink cry angry",
            "texture": "wood wicker sequined plastic paper metal leather lace denim ceramic",
            "object": "leaf hat cup chair car box book ball bag apple",
            "animal": "zebra tiger sheep pig monkey lion dog cow cat bird",
        }.items()
    }
)
"""Kind -> its ten raw words, those of the file names."""

DISPLAY = (("3d", "wireframe"), ("park", "amusement park"))
"""Raw words and what prompts and judges show instead; every other word shows itself."""


class Theme(NamedTuple):
    """Attributes of one kind on objects of one kind, an image for each pair.

    Attributes:
      name: "color", or any other word for a theme of one's own.
      attribute: kind of the attributes, the word that the judge's question asks for.
      object: kind of the objects, "object" or "animal".
      attributes: raw words.
      objects: raw words, as many as attributes.
      display: raw word and shown word, where they differ.
    """

    name: str
    attribute: str
    object: str
    attributes: tuple[str, ...]
    objects: tuple[str, ...]
    display: tuple[tuple[str, str], ...] = DISPLAY

    @property
    def folder(self) -> str:
        """Stem of the folders of images and of the captions file, such as `color_object`."""
        return f"{self.attribute}_{self.object}"

    def items(self, kind: str) -> tuple[str, ...]:
        """Raw words of "attribute" or "object"."""
        return self.attributes if kind == "attribute" else self.objects

    def shown(self, kind: str) -> tuple[str, ...]:
        """Shown words of "attribute" or "object"."""
        shown = dict(self.display)
        return tuple(shown.get(word, word) for word in self.items(kind))


class Cell(NamedTuple):
    """One image of a theme: positions in its two lists."""

    attribute: int
    object: int


def _theme(attribute: str, kind: str) -> Theme:
    return Theme(attribute, attribute, kind, ITEMS[attribute], ITEMS[kind])


THEMES = (
    _theme("color", "object"),
    _theme("background", "animal"),
    _theme("style", "object"),
    _theme("action", "animal"),
    _theme("texture", "object"),
)
"""The paper's five themes, in the order of its tasks."""
