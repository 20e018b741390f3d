"""Which frames of a clip stand for it: the one with the most object proposals (A.3.1), the middle
one (as for ImageBind), or all of them.

Frames are numbered as the source numbers them, from 1 up, at its own rate; a clip covers the frames
of its time stamps. Source of the numbering: RULSTM and EPIC-KITCHENS take max(1, int(seconds x
rate)).
"""

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mmgen.data.builders.rawfiles import read_jsonl
from mmgen.data.compact.epic_csv import TIME, Clip
from mmgen.errors import UserError

RULSTM_RATE = 30.0
"""Frames per second of the frames that RULSTM extracts, whatever the video's own rate is."""

RULES = ("proposals", "middle", "all")


class Span(NamedTuple):
    """First and last frame of a clip, both part of it."""

    first: int
    last: int

    @property
    def middle(self) -> float:
        """The frame in the middle, or the point between two."""
        return (self.first + self.last) / 2


def clip_span(clip: Clip, rate: float) -> Span:
    """Frames of a clip at `rate` frames per second.

    Raises:
      UserError: a time stamp that is none.
    """
    first, last = (
        max(1, int(_seconds(text, clip) * rate)) for text in (clip.start_time, clip.stop_time)
    )
    return Span(first, last)


def _seconds(text: str, clip: Clip) -> float:
    match = TIME.fullmatch(text)
    if not match:
        raise UserError(f"clip {clip.narration_id}: time stamp {text!r} is not HH:MM:SS.ss")
    hours, minutes, seconds = match.groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def nearest(span: Span, exists: Callable[[int], bool]) -> int | None:
    """The frame nearest to the middle that exists, the earlier of two; None if none does."""
    frames = sorted(range(span.first, span.last + 1), key=lambda frame: _away(span, frame))
    return next((frame for frame in frames if exists(frame)), None)


def most_proposals(span: Span, counts: Mapping[int, int]) -> int | None:
    """The frame with the most object proposals (A.3.1); None where no frame has any.

    The paper does not say which of several: the one nearest to the middle, the earlier of two.

    Args:
      span: frames of the clip.
      counts: frame -> proposals; frames without an entry have none.
    """
    frames = [f for f in range(span.first, span.last + 1) if counts.get(f, 0) > 0]
    return min(frames, key=lambda f: (-counts[f], *_away(span, f)), default=None)


def _away(span: Span, frame: int) -> tuple[float, int]:
    return abs(frame - span.middle), frame


def read_proposals(path: pathlib.Path, threshold: float = 0.0) -> dict[int, int]:
    """Proposals of every frame of a video.

    Args:
      path: JSON lines {"frame": n, "detections": [[class, x1, y1, x2, y2, score], ...]}.
      threshold: detections with a lower score do not count.

    Raises:
      UserError: with file and line for what is no such line, or a frame that comes twice.
    """
    counts: dict[int, int] = {}
    for line, row in read_jsonl(path):
        try:
            frame = row["frame"]
            count = sum(len(one) == 6 and one[5] >= threshold for one in row["detections"])
            sized = all(len(one) == 6 for one in row["detections"])
        except (KeyError, TypeError, IndexError) as error:
            raise UserError(f"{path}:{line} is no frame with detections ({error!r})") from error
        if type(frame) is not int or not sized:
            raise UserError(
                f"{path}:{line}: expected a frame number and detections of class, box and score, "
                f"not {json.dumps(row)[:80]}"
            )
        if frame in counts:
            raise UserError(f"{path}:{line}: frame {frame} comes twice")
        counts[frame] = count
    return counts
