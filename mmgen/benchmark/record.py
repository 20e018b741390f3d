"""Results that are on disk the moment they are known, and tables of them."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any


class Record:
    """A JSON object that grows; the file is whole after every addition."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.values: dict[str, Any] = {}

    def add(self, **values: Any) -> None:
        """Add or replace entries, and write."""
        self.values |= values
        self._write()

    def append(self, name: str, value: Any) -> None:
        """Add one more to the list called `name`, and write."""
        self.values.setdefault(name, []).append(value)
        self._write()

    def _write(self) -> None:
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.values, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """A recorded object, empty if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Aligned columns of text, the first one to the left; numbers to three digits, None as -."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        padded = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)
