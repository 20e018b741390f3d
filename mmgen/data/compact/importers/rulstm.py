"""Features per frame in LMDB, as fpv-iplab/rulstm publishes them, reduced to one per clip.

Key of a frame: `P01_01_frame_0000000123.jpg`, frames at 30 per second; value: the bytes of a
float32 vector (RULSTM/dataset.py: SequenceDataset and read_data).
"""

import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mmgen.data.compact.clip_features import ClipItem
from mmgen.data.compact.epic_csv import Clip
from mmgen.data.compact.keyframes import (
    RULSTM_RATE,
    Span,
    clip_span,
    most_proposals,
    nearest,
    read_proposals,
)
from mmgen.errors import UserError


class Reader(Protocol):
    """What is asked of a database: values by key, as a dict or an LMDB transaction has them."""

    def get(self, key: bytes) -> bytes | None:
        """The value, None if there is none."""


def frame_key(video: str, frame: int) -> bytes:
    """Key of a frame."""
    return f"{video}_frame_{frame:010d}.jpg".encode()


def read_rulstm(
    reader: Reader,
    clips: Sequence[Clip],
    *,
    rule: str,
    missing: list[str],
    proposals: Callable[[str], Mapping[int, int]] | None = None,
    rate: float = RULSTM_RATE,
    where: str = "LMDB",
) -> Iterator[ClipItem]:
    """One feature per clip from features per frame.

    Args:
      reader: the database.
      clips: the clips.
      rule: one of `keyframes.RULES`: "middle" takes the frame nearest to the middle that the
        database has, "all" the mean of all that it has.
      missing: gets the narration ids of clips without any frame in the database.
      proposals: video -> object proposals by frame, for "proposals".
      rate: frames per second of the keys.
      where: names the database in errors.

    Raises:
      UserError: a value is no float32 vector, or of another length than the first.
    """
    size: int | None = None
    for clip in clips:
        span = clip_span(clip, rate)
        values = []
        for frame in _frames(reader, clip, span, rule, proposals):
            value = reader.get(frame_key(clip.video_id, frame))
            if value is not None:
                values.append(_vector(value, size, f"{where}: {clip.video_id}, frame {frame}"))
                size = len(values[-1])
        if values:
            yield clip.narration_id, np.stack(values).mean(axis=0)
        else:
            missing.append(clip.narration_id)


def _frames(
    reader: Reader,
    clip: Clip,
    span: Span,
    rule: str,
    proposals: Callable[[str], Mapping[int, int]] | None,
) -> Sequence[int]:
    if rule == "all":
        return range(span.first, span.last + 1)
    if rule == "proposals":
        if proposals is None:
            raise UserError("the rule 'proposals' needs --detections")
        frame = most_proposals(span, proposals(clip.video_id))
    else:
        frame = nearest(span, lambda f: reader.get(frame_key(clip.video_id, f)) is not None)
    return [] if frame is None else [frame]


def _vector(value: bytes, size: int | None, where: str) -> np.ndarray:
    if not value or len(value) % 4:
        raise UserError(f"{where}: {len(value)} bytes are no float32 vector")
    vector = np.frombuffer(value, "<f4")
    if size is not None and len(vector) != size:
        raise UserError(f"{where}: {len(vector)} numbers, those before it have {size}")
    return vector


def proposals_of(folder: pathlib.Path, threshold: float) -> Callable[[str], Mapping[int, int]]:
    """Object proposals of videos from `FOLDER/VIDEO_detections.jsonl`.

    Threads may share it. Two videos are in memory: clips are read in order, a few at a time.
    """

    @functools.lru_cache(maxsize=2)
    def of(video: str) -> Mapping[int, int]:
        path = folder / f"{video}_detections.jsonl"
        return read_proposals(path, threshold) if path.is_file() else {}

    return of


def open_lmdb(path: pathlib.Path) -> Any:
    """A transaction of the LMDB in the folder `path`, read-only; it has `get`.

    Raises:
      UserError: lmdb is not installed, or there is no such database.
    """
    try:
        import lmdb
    except ImportError as error:
        raise UserError("reading LMDB needs lmdb: pip install lmdb") from error
    if not path.exists():
        raise UserError(f"{path} is missing: give the folder that holds data.mdb")
    try:
        return lmdb.open(str(path), readonly=True, lock=False, subdir=path.is_dir()).begin()
    except lmdb.Error as error:
        raise UserError(f"{path} is no LMDB ({error})") from error
