"""Narrated clips from csv files in the columns of EPIC-KITCHENS-100."""

import pathlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from mmgen.data.builders.rawfiles import read_table
from mmgen.data.compact.classes import ClassList, literal_list
from mmgen.data.compact.reserved import RESERVED
from mmgen.errors import UserError

COLUMNS = (
    "narration_id",
    "video_id",
    "start_timestamp",
    "stop_timestamp",
    "start_frame",
    "stop_frame",
    "narration",
    "verb",
    "verb_class",
    "noun",
    "noun_class",
    "all_nouns",
    "all_noun_classes",
)
"""Columns that are read; others may be there."""

TIME = re.compile(r"(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)")

GUESSED = "unverified"
"""A csv with this in its name holds rows whose text is guessed."""

CORRECTED = {
    "P02_118_282": ("take off gloves", "take-off", "glove"),
    "P22_111_118": ("pick up egg", "pick-up", "egg"),
}
"""Guessed rows whose narration the paper prints (Figs. 5 and 6): narration, verb and noun."""

FOREIGN_SHARE = 0.01
"""More strings than this outside the class that the csv gives them: the lists are others."""


class Clip(NamedTuple):
    """One narrated clip.

    Attributes:
      narration_id: its name, `video_id` and `number` joined by "_".
      video_id: name of the video.
      number: position among the narrations of the video as they were spoken.
      start_time: as in the csv, "HH:MM:SS.ss".
      stop_time: likewise.
      start_frame: first frame, native.
      stop_frame: last frame, native.
      narration: what was said.
      verb: its verb, words joined by "-".
      verb_class: class of the verb.
      noun: its first noun, head first, words joined by ":".
      noun_class: class of the noun.
      all_nouns: every noun.
      guessed: its text is a guess.
      usable: False marks the place of a row that was skipped.
    """

    narration_id: str
    video_id: str
    number: int
    start_time: str
    stop_time: str
    start_frame: int
    stop_frame: int
    narration: str
    verb: str
    verb_class: int
    noun: str
    noun_class: int
    all_nouns: tuple[str, ...]
    guessed: bool
    usable: bool = True


class Annotations(NamedTuple):
    """All clips of some files.

    Attributes:
      clips: by video, in it by start frame, stop frame and number.
      verbs: verb classes.
      nouns: noun classes.
      rows: rows read.
      skipped: kind of fault -> rows that were skipped for it.
      faults: kind of fault -> the sentence about the first of them.
      foreign: "verb" and "noun" -> rows whose string the lists have in another class or in none.
    """

    clips: tuple[Clip, ...]
    verbs: ClassList
    nouns: ClassList
    rows: int
    skipped: dict[str, int]
    faults: dict[str, str]
    foreign: dict[str, int]


class _Fault(Exception):
    """A row that cannot be used: the kind of fault, and what is wrong with this row."""

    def __init__(self, kind: str, what: str):
        super().__init__(what)
        self.kind = kind


def read_annotations(
    paths: Sequence[pathlib.Path], verbs: ClassList, nouns: ClassList, *, strict: bool
) -> Annotations:
    """Read and check csv files, gzipped or not.

    Without `strict` a faulty row is skipped and counted; no window reaches across its place, see
    `_gaps`.

    Raises:
      UserError: a missing column or a record of several lines; with `strict` the first faulty row,
        with file and line; class lists that are not those of the csv.
    """
    clips: list[Clip] = []
    places: dict[str, tuple[str, int]] = {}
    lost: list[_Lost] = []
    skipped: Counter[str] = Counter()
    faults: dict[str, str] = {}
    rows = 0
    for path in paths:
        for line, row in _rows(path):
            rows += 1
            try:
                clip = _clip(row, GUESSED in path.name, verbs, nouns)
                here = f"{path.name}:{line}", clip.start_frame
                first = places.setdefault(clip.narration_id, here)
                if first[0] != here[0]:
                    what = f"narration_id {clip.narration_id} stands in {first[0]} already"
                    raise _Fault("duplicate narration ids", what)
                clips.append(clip)
            except _Fault as fault:
                sentence = f"{path}:{line}: {fault}"
                if strict:
                    raise UserError(
                        f"{sentence}: mend the row, or skip and count such rows with --strict=false"
                    ) from None
                skipped[fault.kind] += 1
                faults.setdefault(fault.kind, sentence)
                lost += _lost(row, len(clips), places)
    clips = _in_order([*map(_Placed, clips), *_gaps(clips, lost)])
    annotations = Annotations(
        tuple(clips), verbs, nouns, rows, dict(skipped), faults, _foreign(clips, verbs, nouns)
    )
    _check(annotations, paths)
    return annotations


def _rows(path: pathlib.Path) -> Iterator[tuple[int, dict[Any, Any]]]:
    names, rows = read_table(path)
    missing = [column for column in COLUMNS if column not in names]
    if missing:
        raise UserError(
            f"{path}:1: column {', '.join(missing)} is missing: the csv needs the columns of "
            "EPIC_100_train.csv"
        )
    return rows


def _clip(row: dict[Any, Any], guessed: bool, verbs: ClassList, nouns: ClassList) -> Clip:
    if None in row or None in row.values():
        raise _Fault(
            "rows with too few or too many fields", "the number of fields is not the header's"
        )
    video, number = _identity(row)
    start, stop = _times(row)
    first, last = _integer(row, "start_frame"), _integer(row, "stop_frame")
    if not 0 <= first < last:
        raise _Fault("bad frames", f"start_frame {first} is not before stop_frame {last}")
    clip = Clip(
        row["narration_id"],
        video,
        number,
        start,
        stop,
        first,
        last,
        row["narration"].strip(),
        row["verb"],
        _class(row, "verb_class", len(verbs)),
        row["noun"],
        _class(row, "noun_class", len(nouns)),
        _nouns(row, len(nouns)),
        guessed,
    )
    if not clip.narration or not clip.verb:
        empty = "verb" if clip.narration else "narration"
        raise _Fault("empty narrations or verbs", f"{empty} is empty")
    for word in clip.narration.split():
        if word in RESERVED:
            raise _Fault(
                "reserved words",
                f"narration {clip.narration!r} holds {word!r}, which means something else in an "
                "input",
            )
    if guessed and clip.narration_id in CORRECTED:
        return _corrected(clip)
    return clip


def _corrected(clip: Clip) -> Clip:
    narration, verb, noun = CORRECTED[clip.narration_id]
    if clip.noun != noun:
        return clip
    return clip._replace(narration=narration, verb=verb)


def _identity(row: dict[str, str]) -> tuple[str, int]:
    video, _, number = row["narration_id"].rpartition("_")
    if not row["video_id"] or video != row["video_id"] or not number.isdecimal():
        raise _Fault(
            "bad narration ids",
            f"narration_id {row['narration_id']!r} is not video_id {row['video_id']!r}, '_' and a "
            "number",
        )
    return video, int(number)


def _times(row: dict[str, str]) -> tuple[str, str]:
    seconds = []
    for column in ("start_timestamp", "stop_timestamp"):
        match = TIME.fullmatch(row[column])
        if not match:
            raise _Fault("bad timestamps", f"{column} {row[column]!r} is not HH:MM:SS.ss")
        hours, minutes, rest = match.groups()
        seconds.append(int(hours) * 3600 + int(minutes) * 60 + float(rest))
    if seconds[0] >= seconds[1]:
        raise _Fault(
            "bad timestamps",
            f"start_timestamp {row['start_timestamp']} is not before stop_timestamp "
            f"{row['stop_timestamp']}",
        )
    return row["start_timestamp"], row["stop_timestamp"]


def _integer(row: dict[str, str], column: str) -> int:
    try:
        return int(row[column])
    except ValueError:
        kind = "bad frames" if "frame" in column else "unknown classes"
        raise _Fault(kind, f"{column} {row[column]!r} is no integer") from None


def _class(row: dict[str, str], column: str, count: int) -> int:
    value = _integer(row, column)
    if not 0 <= value < count:
        raise _Fault("unknown classes", f"{column} {value} is not in the list of {count} classes")
    return value


def _nouns(row: dict[str, str], count: int) -> tuple[str, ...]:
    nouns, classes = literal_list(row["all_nouns"]), literal_list(row["all_noun_classes"])
    if not row["noun"] or not nouns or not classes:
        empty = "noun" if not row["noun"] else "all_nouns" if not nouns else "all_noun_classes"
        raise _Fault("empty nouns", f"{empty} is empty or no list: {row[empty]!r}")
    if len(nouns) != len(classes) or row["noun"] not in nouns:
        raise _Fault(
            "empty nouns",
            f"all_nouns {row['all_nouns']} do not fit noun {row['noun']!r} and all_noun_classes "
            f"{row['all_noun_classes']}",
        )
    for value in classes:
        if not isinstance(value, int) or not 0 <= value < count:
            raise _Fault(
                "unknown classes",
                f"all_noun_classes {value!r} is not in the list of {count} classes",
            )
    return tuple(map(str, nouns))


class _Lost(NamedTuple):
    """What a skipped row tells of its place; None for what it does not.

    Attributes:
      position: clips that stand before it in the files.
      video: a video that it may be of.
      number: its number in that video.
      frame: its first frame.
    """

    position: int
    video: str | None
    number: int | None
    frame: int | None


class _Placed(NamedTuple):
    """A clip in its place, or (`side` -1 or 1) a gap right before or after such a place."""

    clip: Clip
    side: int = 0


def _lost(row: dict[Any, Any], position: int, places: Mapping[str, tuple[str, int]]) -> list[_Lost]:
    """What a skipped row tells of its place, for every video that it names."""
    name, video = row["narration_id"] or "", row["video_id"] or ""
    own, _, last = name.rpartition("_")
    number = int(last) if last.isdecimal() else None
    start = row["start_frame"] or ""
    frame = int(start) if start.isdecimal() else None
    if name in places:
        # The same clip once more leaves no gap; another one has lost its number.
        if places[name][1] == frame:
            return []
        number = None
    videos = [one for one in dict.fromkeys((video, own)) if one] or [None]
    return [_Lost(position, one, number if one == own else None, frame) for one in videos]


def _gaps(clips: Sequence[Clip], lost: Sequence[_Lost]) -> Iterator[_Placed]:
    """The places of skipped rows, by number and by start frame.

    Where a row tells but one of them, the gap lies beside its neighbours of that order, both of
    which may be apart in the other one; where it tells none, or no video, beside its neighbours in
    the file.
    """
    of_video: dict[str, list[tuple[int, Clip]]] = defaultdict(list)
    for row, clip in enumerate(clips):
        of_video[clip.video_id].append((row, clip))
    for position, video, number, frame in lost:
        if video is not None and number is not None and frame is not None:
            yield _Placed(_gap(video, frame, frame, number))
            continue
        if video is None:
            start = max(position - 1, 0)
            near = list(enumerate(clips[start : position + 1], start))
        else:
            near = of_video[video]
        if video is not None and number is not None:
            found = _neighbours([(clip.number, clip) for _, clip in near], number)
        elif video is not None and frame is not None:
            found = _neighbours([(clip.start_frame, clip) for _, clip in near], frame)
        else:
            found = _neighbours(near, position)
        for side, clip in found:
            place = clip.video_id, clip.start_frame, clip.stop_frame, clip.number
            yield _Placed(_gap(*place), side)


def _neighbours(keyed: Sequence[tuple[int, Clip]], key: int) -> list[tuple[int, Clip]]:
    """The clip below `key` with side 1 (a gap is right after it), the one from it up with -1."""
    below = max((one for one in keyed if one[0] < key), default=None, key=itemgetter(0))
    above = min((one for one in keyed if one[0] >= key), default=None, key=itemgetter(0))
    return [(side, one[1]) for side, one in ((1, below), (-1, above)) if one]


def _gap(video: str, first: int, last: int, number: int) -> Clip:
    return Clip("", video, number, "", "", first, last, "", "", 0, "", 0, (), False, False)


def _in_order(placed: Iterable[_Placed]) -> list[Clip]:
    """By video, start frame, stop frame and number."""

    def place(one: _Placed) -> tuple[str, int, int, int, int]:
        clip = one.clip
        return clip.video_id, clip.start_frame, clip.stop_frame, clip.number, one.side

    return [one.clip for one in sorted(placed, key=place)]


def _foreign(clips: Sequence[Clip], verbs: ClassList, nouns: ClassList) -> dict[str, int]:
    usable = [clip for clip in clips if clip.usable]
    of: dict[str, Callable[[Clip], bool]] = {
        "verb": lambda clip: verbs.class_of.get(clip.verb) != clip.verb_class,
        "noun": lambda clip: nouns.class_of.get(clip.noun) != clip.noun_class,
    }
    return {name: sum(map(test, usable)) for name, test in of.items()}


def _check(annotations: Annotations, paths: Sequence[pathlib.Path]) -> None:
    usable = sum(clip.usable for clip in annotations.clips)
    names = ", ".join(str(path) for path in paths)
    if not usable:
        raise UserError(f"{names}: there is no row to use")
    for name, count in annotations.foreign.items():
        if count > FOREIGN_SHARE * usable:
            raise UserError(
                f"{names}: the {name}s of {count:,} of {usable:,} rows are not in the class that "
                f"the list of {name} classes gives them: take the lists that belong to the csv"
            )
