"""Windows that the paper and its project page show: a rebuilt data set must contain them all."""

from typing import NamedTuple

from mmgen.data.compact.splits import Division
from mmgen.data.compact.windows import ClipTable, Windows


class Golden(NamedTuple):
    """One shown window.

    Attributes:
      shown: where.
      video: video id.
      numbers: numbers of its four narrations.
      side: "train", or "heldout" for validation and test.
    """

    shown: str
    video: str
    numbers: tuple[int, int, int, int]
    side: str

    @property
    def key(self) -> str:
        """Its name, as in the published instances."""
        return f"{self.video}+{'_'.join(map(str, self.numbers))}"


def _golden(shown: str, side: str, video: str, first: int) -> Golden:
    return Golden(shown, video, (first, first + 1, first + 2, first + 3), side)


GOLDEN = (
    _golden("Fig. 1", "train", "P01_01", 67),
    _golden("Fig. 1", "train", "P04_02", 230),
    _golden("Fig. 6", "train", "P20_04", 326),
    _golden("Fig. 6", "train", "P22_111", 116),
    _golden("Fig. 6", "train", "P22_107", 152),
    _golden("Fig. 6", "train", "P01_106", 69),
    _golden("Fig. 6", "train", "P20_04", 303),
    _golden("project page", "train", "P06_101", 145),
    _golden("project page", "train", "P23_102", 493),
    _golden("project page", "train", "P35_104", 531),
    _golden("Fig. 1", "heldout", "P01_01", 60),
    _golden("Fig. 3", "heldout", "P08_06", 36),
    _golden("Fig. 3", "heldout", "P02_131", 100),
    _golden("Fig. 3", "heldout", "P28_04", 62),
    _golden("Fig. 5", "heldout", "P02_118", 282),
    # Neighbours by start frame alone: narration 7 starts later than narration 8.
    Golden("Fig. 5", "P02_130", (4, 5, 6, 8), "heldout"),
    _golden("Fig. 6, the query", "heldout", "P29_03", 164),
)


class Found(NamedTuple):
    """What became of a shown window.

    Attributes:
      golden: the window.
      present: whether the rules let it through.
      split: split it fell into, None if it was not selected.
      heldout: whether that split is held out.
    """

    golden: Golden
    present: bool
    split: str | None
    heldout: bool

    @property
    def agrees(self) -> bool:
        """Whether it lies on the published side."""
        side = "heldout" if self.heldout else "train"
        return self.split is not None and side == self.golden.side


def find_golden(table: ClipTable, windows: Windows, division: Division) -> list[Found]:
    """Every shown window whose four clips are in the table, with its split."""
    place = {(clip.video_id, clip.number): n for n, clip in enumerate(table.clips) if clip.usable}
    row_of = {tuple(clips): row for row, clips in enumerate(windows.clips.tolist())}
    split_of = {int(row): name for name, part in division.rows.items() for row in part}
    found = []
    for golden in GOLDEN:
        clips = tuple(place.get((golden.video, number), -1) for number in golden.numbers)
        if -1 not in clips:
            row = row_of.get(clips)
            split = None if row is None else split_of.get(row)
            found.append(Found(golden, row is not None, split, split in division.heldout_splits))
    return found
