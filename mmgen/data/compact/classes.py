"""Verb and noun classes of EPIC-KITCHENS: a csv of id, key and the strings of each class."""

import ast
import functools
import pathlib
from typing import NamedTuple

from mmgen.data.builders.rawfiles import read_table
from mmgen.errors import UserError

COLUMNS = ("id", "key", "instances")


class ClassList(NamedTuple):
    """Classes of verbs or of nouns.

    Attributes:
      keys: name of every class; the id is the position.
      class_of: string -> class id; a name is a string of its own class.
    """

    keys: tuple[str, ...]
    class_of: dict[str, int]

    def __len__(self) -> int:
        """Number of classes."""
        return len(self.keys)


def read_classes(path: pathlib.Path) -> ClassList:
    """Read `EPIC_100_verb_classes.csv` or `EPIC_100_noun_classes.csv`, gzipped or not.

    Raises:
      UserError: with file and line for a missing column, an id out of order, an instance list
        that is none, or a string in two classes.
    """
    names, rows = read_table(path)
    missing = [column for column in COLUMNS if column not in names]
    if missing:
        raise UserError(f"{path}:1: column {missing[0]} is missing, a class list has {COLUMNS}")
    keys: list[str] = []
    class_of: dict[str, int] = {}
    for line, row in rows:
        where = f"{path}:{line}"
        if row["id"] != str(len(keys)):
            raise UserError(
                f"{where}: class id {row['id']!r}, expected {len(keys)}: ids count from 0"
            )
        for name in dict.fromkeys((row["key"], *_instances(row["instances"], where))):
            other = class_of.setdefault(name, len(keys))
            if other != len(keys):
                raise UserError(
                    f"{where}: {name!r} is in class {other}, too: keep it in one of them"
                )
        keys.append(row["key"])
    if not keys:
        raise UserError(f"{path} has no class")
    return ClassList(tuple(keys), class_of)


def _instances(text: str | None, where: str) -> tuple[str, ...]:
    names = literal_list(text)
    if names is None or not all(isinstance(name, str) for name in names):
        raise UserError(f"{where}: instances are {text!r}, expected a list such as ['tap', 'tab']")
    return names


@functools.lru_cache(maxsize=1 << 16)
def literal_list(text: str | None) -> tuple | None:
    """The values of a Python list literal such as "['tap', 'cup']", None if `text` is none."""
    try:
        value = ast.literal_eval(text or "")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return tuple(value) if isinstance(value, list) else None
