"""Captions of `shape_world`: what an image shows, and in half of them a word that misleads.

The misleading word is an attribute of another theme, so that a caption's first known word is not
always the right one. Every caption names the object and the attribute of its theme exactly once.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from mmgen.core.rng import numpy_generator
from mmgen.prompting.cobsat.lists import THEMES, Cell, Theme

SENTENCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "color": (
            "The image shows a {object} painted {attribute} all over.",
            "A single {object} in {attribute} stands before a plain wall.",
        ),
        "background": (
            "A dark {object} is seen in front of a {attribute}.",
            "The image shows the outline of a {object} with a {attribute} behind it.",
        ),
        "style": (
            "The image shows a {object}, drawn in {attribute} style.",
            "A {object} in the manner of {attribute} art.",
        ),
        "action": (
            "The image tells of a {object} whose action or mood is {attribute}.",
            "A dark {object}, with the sign for {attribute} beside it.",
        ),
        "texture": (
            "The image shows a {object} with the texture of {attribute}.",
            "A {object} covered in {attribute} stands before a plain wall.",
        ),
    }
)
"""Theme -> ways to put it."""

ASIDES = (
    "The frame reminds of {word}.",
    "Somebody has noted the word {word} below it.",
)


def write_caption(theme: Theme, cell: Cell, name: str, seed: int) -> str:
    """The caption of the image `name` in a world of this data seed."""
    generator = numpy_generator(seed, f"shape_world/caption/{name}")
    sentences = SENTENCES[theme.name]
    sentence = sentences[generator.integers(len(sentences))].format(
        attribute=theme.shown("attribute")[cell.attribute],
        object=theme.shown("object")[cell.object],
    )
    if generator.random() < 0.5:
        return sentence
    words = [word for word in _other_words(theme) if word not in sentence.lower()]
    aside = ASIDES[generator.integers(len(ASIDES))]
    aside = aside.format(word=words[generator.integers(len(words))])
    return f"{aside} {sentence}" if generator.random() < 0.5 else f"{sentence} {aside}"


def named(words: tuple[str, ...], text: str) -> int | None:
    """Position of the one of `words` that a text names; None where it names none or several."""
    places = [
        place
        for place, word in enumerate(words)
        if re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
    ]
    return places[0] if len(places) == 1 else None


def _other_words(theme: Theme) -> list[str]:
    """Attributes of the other themes that are no word of this one."""
    own = {*theme.shown("attribute"), *theme.shown("object")}
    return [
        word
        for other in THEMES
        if other.name != theme.name
        for word in other.shown("attribute")
        if word not in own
    ]
