"""A table once, rendered as aligned Markdown, CSV, JSON records or LaTeX (booktabs).

Cells are text, numbers or None; None is printed as a dash, never as zero. A column of numbers may
say which end is better; LaTeX then sets the best value in bold and underlines the second.
"""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

Cell = str | float | int | None

DASH = "-"


class Column(NamedTuple):
    """A column of a table.

    Attributes:
      name: its head.
      decimals: of its numbers in Markdown and LaTeX; CSV and JSON hold them in full.
      better: "low" or "high" to mark the best values, "" for none.
    """

    name: str
    decimals: int = 3
    better: str = ""


class Table(NamedTuple):
    """A titled table.

    Attributes:
      title: printed above it.
      columns: heads and formats.
      rows: one cell per column each.
      notes: sentences printed below it.
      unranked: number of last rows that are bounds or baselines, never marked as the best.
    """

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    notes: tuple[str, ...] = ()
    unranked: int = 0


def markdown(table: Table) -> str:
    """GitHub-flavoured Markdown that also reads well in a terminal."""
    heads = [column.name for column in table.columns]
    body = [
        [shown(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    numeric = [
        any(isinstance(row[i], int | float) for row in table.rows) for i in range(len(heads))
    ]
    width = [max(3, *(len(line[i]) for line in (heads, *body))) for i in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(w) if right else cell.ljust(w)
            for cell, w, right in zip(cells, width, numeric, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [("-" * (w - 1) + ":") if right else "-" * w for w, right in zip(width, numeric)]  # noqa: B905
    lines = [f"### {table.title}", "", line(heads), line(rule), *map(line, body)]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def as_csv(table: Table) -> str:
    """Comma-separated values, numbers in full, missing cells empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    writer.writerows([["" if cell is None else cell for cell in row] for row in table.rows])
    return out.getvalue()


def records(table: Table) -> list[dict[str, Any]]:
    """One dict per row, missing cells None."""
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def as_json(table: Table) -> str:
    """The table as one JSON object: title, rows as records, notes."""
    value = {"title": table.title, "rows": records(table), "notes": list(table.notes)}
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def latex(table: Table) -> str:
    """A booktabs table; best value of a column bold, second best underlined."""
    marks = [_marks(table, i) for i in range(len(table.columns))]
    align = "".join("r" if _is_numeric(table, i) else "l" for i in range(len(table.columns)))
    lines = [
        "\\begin{tabular}{" + align + "}",
        "\\toprule",
        " & ".join(_escape(column.name) for column in table.columns) + " \\\\",
        "\\midrule",
    ]
    for number, row in enumerate(table.rows):
        cells = []
        for i, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            text = _escape(shown(cell, column))
            mark = marks[i].get(number)
            cells.append(f"\\{mark}{{{text}}}" if mark else text)
        lines.append(" & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def without_published(table: Table) -> Table:
    """The table of a data set for which nothing was published."""
    keep = [i for i, column in enumerate(table.columns) if "published" not in column.name]
    columns = tuple(table.columns[i] for i in keep)
    return table._replace(columns=columns, rows=[[row[i] for i in keep] for row in table.rows])


def file_name(title: str) -> str:
    """A title as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


def shown(cell: Cell, column: Column) -> str:
    """A cell as text."""
    if cell is None:
        return DASH
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.{column.decimals}f}" if math.isfinite(cell) else DASH


def _is_numeric(table: Table, column: int) -> bool:
    return any(isinstance(row[column], int | float) for row in table.rows)


def _marks(table: Table, column: int) -> dict[int, str]:
    """Row -> LaTeX command of the best and second best values; ties share a mark."""
    better = table.columns[column].better
    values = {
        number: float(row[column])  # type: ignore[arg-type]
        for number, row in enumerate(table.rows[: len(table.rows) - table.unranked])
        if isinstance(row[column], int | float)
    }
    if not better or len(values) < 2:
        return {}
    ranked = sorted(set(values.values()), reverse=better == "high")
    commands = dict(zip(ranked, ("textbf", "underline"), strict=False))
    return {number: commands[value] for number, value in values.items() if value in commands}


def _escape(text: str) -> str:
    for plain, escaped in (
        ("\\", "\\textbackslash{}"),
        ("&", "\\&"),
        ("%", "\\%"),
        ("_", "\\_"),
        ("#", "\\#"),
        ("$", "\\$"),
        ("±", "$\\pm$"),
    ):
        text = text.replace(plain, escaped)
    return text
