"""Reading and writing groups in the published columns: id, s1, v1, ..., s4, v4, intruder.

Sentences of further languages stand in `s1_en` to `s4_en`; `s1` to `s4` are the language "it".
What is known besides may stand in the same file or in an annotation file with the same ids:
`verb1` to `verb4` (lemmas), `concept1` to `concept4`, `distance` ("high", "medium" or "low"
similarity of the intruder's action to the others').

The intruder is 1 to 4 here as in the published data. The task description that circulates with
lm-evaluation-harness reads an integer as an index from 0: a perfect model gets 0.0 there.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mmgen.data.builders.rawfiles import read_table
from mmgen.errors import UserError
from mmgen.settings.suggest import closest

PLACES = (1, 2, 3, 4)
DEFAULT_LANGUAGE = "it"
DISTANCES = ("high", "medium", "low")
"""Similarity of the intruder's action concept to that of the other three."""

PUBLISHED_COLUMNS = ("id", "s1", "v1", "s2", "v2", "s3", "v3", "s4", "v4", "intruder")

TELLING = 20
"""So many groups or more must have the extreme number of the declared index base among them."""


class Group(NamedTuple):
    """Four sentences and which of them is the intruder.

    Attributes:
      id: of the group.
      sentences: language -> the four sentences in their order.
      videos: the four video ids, "" where there is none.
      intruder: place of the intruder, 1 to 4.
      verbs: lemma of each main verb, None where not annotated.
      concepts: action concept of each sentence, None where not annotated.
      distance: one of `DISTANCES`, None where not given.
    """

    id: str
    sentences: Mapping[str, tuple[str, ...]]
    videos: tuple[str, ...]
    intruder: int
    verbs: tuple[str, ...] | None = None
    concepts: tuple[str, ...] | None = None
    distance: str | None = None


def read_groups(path: Path, *, index_base: int = 1, annotations: Path | None = None) -> list[Group]:
    """Groups of a csv file.

    Args:
      path: the file.
      index_base: what the file's `intruder` counts from: 1 (as published) or 0.
      annotations: a second csv file with the same ids and further columns.

    Raises:
      UserError: with file and line for a missing column, an empty or repeated sentence, an id
        given twice, an intruder that the index base does not allow; and for numbers that leave
        open what they count from.
    """
    if index_base not in (0, 1):
        raise UserError(f"index_base is {index_base}; the intruder counts from 1 or from 0.")
    rows = _read_rows(path, PUBLISHED_COLUMNS)
    extra = {row["id"]: row for _, row in _read_rows(annotations, ("id",))} if annotations else {}
    numbers = _intruders(path, rows, index_base)
    groups: list[Group] = []
    seen: dict[str, int] = {}
    for (line, row), number in zip(rows, numbers, strict=True):
        where = f"{path}:{line}"
        if row["id"] in seen:
            raise UserError(f"{where}: group {row['id']!r} stands in line {seen[row['id']]}, too.")
        seen[row["id"]] = line
        groups.append(_group(where, row | extra.get(row["id"], {}), number))
    return groups


def write_groups(path: Path, groups: Sequence[Group], *, index_base: int = 1) -> None:
    """Write groups in the published columns, further languages behind them.

    `index_base` is what `intruder` counts from; anything but 1 is for tests of other readers.
    """
    numbers = [group.intruder - 1 + index_base for group in groups]
    path.write_text(groups_csv(groups, numbers), encoding="utf-8")


def groups_csv(groups: Sequence[Group], numbers: Sequence[int]) -> str:
    """The csv of groups whose column `intruder` holds `numbers`."""
    languages = list(groups[0].sentences)
    columns = [*PUBLISHED_COLUMNS, *(f"s{i}_{name}" for name in languages for i in PLACES)]
    rows = []
    for group, number in zip(groups, numbers, strict=True):
        main = group.sentences[languages[0]]
        pairs = [text for both in zip(main, group.videos, strict=True) for text in both]
        texts = [text for name in languages for text in group.sentences[name]]
        rows.append([group.id, *pairs, str(number), *texts])
    return csv_text(columns, rows)


def write_annotations(path: Path, groups: Sequence[Group]) -> None:
    """Write verbs, concepts and distances, by id."""
    columns = [*(f"verb{i}" for i in PLACES), *(f"concept{i}" for i in PLACES), "distance"]
    rows = [
        [g.id, *(g.verbs or [""] * 4), *(g.concepts or [""] * 4), g.distance or ""] for g in groups
    ]
    path.write_text(csv_text(["id", *columns], rows), encoding="utf-8")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A csv file as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def read_csv(path: Path, required: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Rows of a csv file with their line numbers; see `read_groups` for errors."""
    return _read_rows(path, required)


def _read_rows(path: Path, required: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    there, found = read_table(path)
    for column in required:
        if column not in there:
            raise UserError(
                f"{path}:1: there is no column {column!r}{closest(column, there)}; it needs "
                f"{', '.join(required)}."
            )
    rows = []
    for line, row in found:
        if None in row or None in row.values():
            raise UserError(f"{path}:{line}: not as many fields as there are columns.")
        rows.append((line, {key: value.strip() for key, value in row.items()}))
    if not rows:
        raise UserError(f"{path} has no row.")
    return rows


def _intruders(path: Path, rows: list[tuple[int, dict[str, str]]], base: int) -> list[int]:
    """The intruders, counted from 1."""
    allowed = {str(place - 1 + base): place for place in PLACES}
    values = {row["intruder"] for _, row in rows}
    if {"0", "4"} <= values:
        raise UserError(
            f"{path}: some intruders are 0 and some are 4, so they count from 0 in one part and "
            "from 1 in another; mend the column."
        )
    for line, row in rows:
        if row["intruder"] not in allowed:
            other = 1 - base
            fits = values <= {str(place - 1 + other) for place in PLACES}
            hint = f"; if they count from {other}, give index_base={other}" if fits else ""
            raise UserError(
                f"{path}:{line}: intruder is {row['intruder']!r}, expected one of "
                f"{', '.join(allowed)} (index_base={base}){hint}."
            )
    if len(rows) >= TELLING and values <= {"1", "2", "3"}:
        raise UserError(
            f"{path}: all intruders of {len(rows)} groups are 1, 2 or 3, so it cannot be told "
            "whether they count from 0 or from 1; look at some of them and mend the column."
        )
    return [allowed[row["intruder"]] for _, row in rows]


def _group(where: str, row: Mapping[str, str], intruder: int) -> Group:
    languages = {DEFAULT_LANGUAGE: _four(row, "s{}")}
    for column in row:
        match = re.fullmatch(r"s1_(\w+)", column)
        if match:
            languages[match[1]] = _four(row, f"s{{}}_{match[1]}")
    for name, sentences in languages.items():
        if not all(sentences):
            raise UserError(f"{where}: a sentence of language {name!r} is missing.")
        if len(set(sentences)) < len(sentences):
            raise UserError(f"{where}: two sentences of language {name!r} are the same.")
    distance = row.get("distance") or None
    if distance is not None and distance not in DISTANCES:
        raise UserError(
            f"{where}: distance is {distance!r}, expected one of {', '.join(DISTANCES)}."
        )
    verbs, concepts = _four(row, "verb{}"), _four(row, "concept{}")
    return Group(
        id=row["id"],
        sentences=languages,
        videos=_four(row, "v{}"),
        intruder=intruder,
        verbs=verbs if all(verbs) else None,
        concepts=concepts if all(concepts) else None,
        distance=distance,
    )


def _four(row: Mapping[str, str], column: str) -> tuple[str, ...]:
    return tuple(row.get(column.format(place), "") for place in PLACES)
