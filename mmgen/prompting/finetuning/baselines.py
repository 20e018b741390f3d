"""What can be answered without learning anything: copy the caption of a demonstration.

A tuned model counts only above these (the demonstrations' captions name the latent, so a copy gets
that half right; with the given word exchanged it may get all of it).
"""

import re
from collections.abc import Callable

import numpy as np

from mmgen.data.worlds.shape_captions import named
from mmgen.prompting.cobsat.lists import Cell, Theme
from mmgen.prompting.cobsat.samples import Sample, trigram_counts
from mmgen.prompting.thoughts import without_thinking

Caption = Callable[[Theme, Cell], str]


def nearest_demonstration(sample: Sample) -> int:
    """Which demonstration's word looks most like the query's (letter triples); the last of equals.

    Raises:
      ValueError: there is none.
    """
    if not sample.shots:
        raise ValueError("a prompt without demonstrations has no nearest one")
    shown = sample.task.theme.shown(sample.task.given)
    counts = trigram_counts([shown[text] for text in sample.texts])
    unit = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    likeness = unit[:-1] @ unit[-1]
    return int(len(likeness) - 1 - np.argmax(likeness[::-1]))


def copy_nearest(sample: Sample, caption: Caption) -> str:
    """The caption of the nearest demonstration; empty without one."""
    if not sample.shots:
        return ""
    return caption(sample.task.theme, sample.demonstrations[nearest_demonstration(sample)])


def substitute(sample: Sample, caption: Caption) -> str:
    """That caption with its demonstration's word replaced by the query's."""
    copied = copy_nearest(sample, caption)
    if not copied:
        return ""
    shown = sample.task.theme.shown(sample.task.given)
    old, new = shown[sample.texts[nearest_demonstration(sample)]], shown[sample.query]
    return re.sub(rf"\b{re.escape(old)}\b", new, copied, flags=re.IGNORECASE)


def judge_words(sample: Sample, text: str | None) -> tuple[bool, bool]:
    """Does a text name the right attribute, and the right object, and no other of their lists?"""
    if text is None:
        return False, False
    theme, target = sample.task.theme, sample.target
    text = without_thinking(text)
    return (
        named(theme.shown("attribute"), text) == target.attribute,
        named(theme.shown("object"), text) == target.object,
    )
