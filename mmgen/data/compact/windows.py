"""Windows of four clips: which are consecutive, different and about a noun that was mentioned.

The paper (A.1) states two filters without saying on what they work: "repeated utterances that
represent a continuation of the same action" are dropped, and "the noun mentioned in the target
description also appears in the source text". `WindowRules` holds every reading; the default is the
one whose trivial scores are the published ones.
"""

import functools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from mmgen.data.compact.epic_csv import Clip
from mmgen.errors import UserError

SIZE = 4
TARGET = SIZE - 1
"""Clips of a window, and which of them is the target."""

PAPER_WINDOWS = 22_136

CHOICES: dict[str, tuple[str, ...]] = {
    "order": ("start_frame", "narration_id"),
    "distinct": ("pair", "narration", "class_pair", "none"),
    "shared": ("all_nouns", "noun", "noun_class", "none"),
    "guessed": ("keep", "drop"),
}
"""What each rule may be."""


class WindowRules(NamedTuple):
    """Which windows are instances.

    Attributes:
      order: clips follow each other by start frame (then stop frame) or by narration id.
      distinct: the four clips differ in (verb, noun), in the narration, in the classes of verb and
        noun, or need not differ.
      shared: the noun of the target is one of all nouns of an input, or its first noun, or of the
        class of its first noun, or need not be.
      guessed: keep or drop windows with a clip whose text is a guess.
    """

    order: str = "start_frame"
    distinct: str = "pair"
    shared: str = "all_nouns"
    guessed: str = "keep"

    def check(self) -> None:
        """UserError for a rule that is none."""
        for name, value in self._asdict().items():
            if value not in CHOICES[name]:
                raise UserError(f"--{name}={value}: choose one of {', '.join(CHOICES[name])}")


class Windows(NamedTuple):
    """Instances as rows of a clip table.

    Attributes:
      clips: rows of the four clips, in their order.
      funnel: what was asked -> windows left, in the order of asking.
    """

    clips: Int[np.ndarray, "n 4"]
    funnel: dict[str, int]

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.clips)

    @property
    def target(self) -> Int[np.ndarray, " n"]:
        """Rows of the target clips."""
        return self.clips[:, TARGET]


class ClipTable:
    """Clips with their strings as numbers, so that windows can be filtered all at once.

    Attributes:
      clips: the clips, by video and start frame.
      video: number of the video.
      narration: number of the narration.
      pair: number of the (verb, noun) strings.
      class_pair: number of the (verb, noun) classes.
      verb: number of the verb string.
      noun: number of the noun string.
      verb_class: class of the verb.
      noun_class: class of the noun.
      all_nouns: numbers of all noun strings, filled with -1.
    """

    def __init__(self, clips: Sequence[Clip]):
        self.clips = tuple(clips)
        self.video = _numbers(clip.video_id for clip in clips)
        self.narration = _numbers(clip.narration for clip in clips)
        self.verb = _numbers(clip.verb for clip in clips)
        self.pair = _numbers((clip.verb, clip.noun) for clip in clips)
        self.class_pair = _numbers((clip.verb_class, clip.noun_class) for clip in clips)
        self.verb_class = np.array([clip.verb_class for clip in clips], np.int64)
        self.noun_class = np.array([clip.noun_class for clip in clips], np.int64)
        nouns: dict[str, int] = {}
        self.noun = np.array([nouns.setdefault(c.noun, len(nouns)) for c in clips], np.int64)
        most = max((len(clip.all_nouns) for clip in clips), default=0)
        self.all_nouns = np.full((len(clips), most), -1)
        for row, clip in enumerate(clips):
            numbers = [nouns.setdefault(noun, len(nouns)) for noun in clip.all_nouns]
            self.all_nouns[row, : len(numbers)] = numbers

    @functools.cached_property
    def usable(self) -> Bool[np.ndarray, " n"]:
        """False for the place of a skipped row."""
        return np.array([clip.usable for clip in self.clips], bool)

    @functools.cached_property
    def guessed(self) -> Bool[np.ndarray, " n"]:
        """Whether the text is a guess."""
        return np.array([clip.guessed for clip in self.clips], bool)

    @functools.cached_property
    def short_videos(self) -> list[str]:
        """Videos with fewer clips than a window."""
        counts = Counter(clip.video_id for clip in self.clips if clip.usable)
        return sorted(
            name for name in {clip.video_id for clip in self.clips} if counts[name] < SIZE
        )


def find_windows(table: ClipTable, rules: WindowRules) -> Windows:
    """The windows that `rules` allow, by video and place."""
    order = np.arange(len(table.clips))
    if rules.order == "narration_id":
        numbers = np.array([clip.number for clip in table.clips])
        order = np.lexsort((numbers, table.video))
    windows = (
        np.lib.stride_tricks.sliding_window_view(order, SIZE)
        if len(order) >= SIZE
        else (np.empty((0, SIZE), np.int64))
    )
    video = table.video[windows]
    windows = windows[(video == video[:, :1]).all(axis=1) & table.usable[windows].all(axis=1)]
    funnel = {"four consecutive clips of a video": len(windows)}
    windows = windows[_different(table, windows, rules.distinct)]
    funnel[_DISTINCT[rules.distinct]] = len(windows)
    windows = windows[_mentioned(table, windows, rules.shared)]
    funnel[_SHARED[rules.shared]] = len(windows)
    if rules.guessed == "drop":
        windows = windows[~table.guessed[windows].any(axis=1)]
        funnel["no clip whose text is a guess"] = len(windows)
    return Windows(windows, funnel)


_DISTINCT = {
    "pair": "four different (verb, noun) pairs",
    "narration": "four different narrations",
    "class_pair": "four different pairs of classes",
    "none": "no rule on repetition",
}
_SHARED = {
    "all_nouns": "target noun among all nouns of the inputs",
    "noun": "target noun among the first nouns of the inputs",
    "noun_class": "target noun class among those of the inputs",
    "none": "no rule on the noun",
}


def _different(table: ClipTable, windows: Int[np.ndarray, "n 4"], rule: str) -> np.ndarray:
    if rule == "none":
        return np.ones(len(windows), bool)
    value = np.sort(getattr(table, rule)[windows], axis=1)
    return (value[:, 1:] != value[:, :-1]).all(axis=1)


def _mentioned(table: ClipTable, windows: Int[np.ndarray, "n 4"], rule: str) -> np.ndarray:
    if rule == "none":
        return np.ones(len(windows), bool)
    value = table.noun_class if rule == "noun_class" else table.noun
    target = value[windows[:, TARGET]]
    inputs = windows[:, :TARGET]
    if rule == "all_nouns":
        return (table.all_nouns[inputs] == target[:, None, None]).any(axis=(1, 2))
    return (value[inputs] == target[:, None]).any(axis=1)


def _numbers(values: Iterable[Hashable]) -> Int[np.ndarray, " n"]:
    ids: dict[Hashable, int] = {}
    return np.array([ids.setdefault(value, len(ids)) for value in values], np.int64)
