"""Finding and reading raw files; every complaint names the file."""

import csv
import gzip
import json
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any

from mmgen.data.columns import file_sha256
from mmgen.data.unpickle import load_plain_pickle
from mmgen.errors import UserError

FOLDERS = (".", "pickles", "coco_buffer", "flickr_buffer", "coco", "flickr30k")
"""Where a file may lie below `--raw`: the folder itself, or as in the released `datasets/`."""


def find_raw(raw: pathlib.Path, *names: str) -> pathlib.Path | None:
    """The first of `names` that exists below `raw`, or None."""
    for name in names:
        for folder in FOLDERS:
            path = raw / folder / name
            if path.is_file():
                return path
    return None


def require_raw(raw: pathlib.Path, *names: str) -> pathlib.Path:
    """The first of `names` that exists below `raw`; UserError if none does."""
    path = find_raw(raw, *names)
    if path is None:
        raise UserError(
            f"{' or '.join(names)} is missing below {raw}: see data/ for where the files come from"
        )
    return path


def read_json(path: pathlib.Path) -> Any:
    """The value of a .json or .json.gz file; UserError if it is missing or damaged."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{path} is no readable JSON file ({error}): get it again") from error


def read_lines(path: pathlib.Path) -> Iterator[str]:
    """Lines of a text file, gzipped if it ends in .gz; UserError if it is missing or damaged."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                yield line.decode("utf-8").rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): get it again") from error


def read_jsonl(path: pathlib.Path) -> Iterator[tuple[int, Any]]:
    """Line numbers (from 1) and values of a .jsonl or .jsonl.gz file."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield number, json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}:{number} is no JSON ({error})") from error


def read_table(path: pathlib.Path) -> tuple[list[str], Iterator[tuple[int, dict[Any, Any]]]]:
    """Column names of a csv or csv.gz file, and its records with their line numbers, from 2.

    A record is one line: a text with a line break in it would take the lines behind it along where
    its closing quote is lost. Empty lines are passed over; a byte order mark is no part of the
    first name. As `csv.DictReader` has it, a field too many is below the key None, and one too few
    is None.

    Raises:
      UserError: the file is missing or damaged, or a quote is still open at the end of its line;
        for records when they are read.
    """
    records = _records(path)
    _, names = next(records, (1, []))

    def rows() -> Iterator[tuple[int, dict[Any, Any]]]:
        for line, fields in records:
            row: dict[Any, Any] = dict(zip(names, fields, strict=False))
            row |= dict.fromkeys(names[len(fields) :])
            if len(fields) > len(names):
                row[None] = fields[len(names) :]
            yield line, row

    return names, rows()


def _records(path: pathlib.Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        # Behind an open quote the reader goes on with what follows.
        reader = csv.reader([line.removeprefix("\ufeff"), ""])
        try:
            fields = next(reader)
        except csv.Error as error:
            raise UserError(f"{path}:{number} is no csv ({error}): get it again") from error
        if reader.line_num > 1:
            raise UserError(
                f"{path}:{number}: a quote that is not closed on its line: close it, or write the "
                "record on one line"
            )
        if fields:
            yield number, fields


def read_rows(path: pathlib.Path) -> list[Any]:
    """Rows of a stream: a pickled plain list, or one JSON value per line."""
    if path.suffix != ".pkl":
        return [row for _, row in read_jsonl(path)]
    rows = load_plain_pickle(path)
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path} holds {type(rows).__name__}, expected a list of rows")
    return rows


def source_of(path: pathlib.Path) -> str:
    """The manifest's record of a source file: its name and checksum, not its place."""
    return f"{path.name} sha256:{file_sha256(path)}"
