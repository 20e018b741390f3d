"""Tables 2 to 6 of the CoBSAT paper in its layout, ours and the published values together."""

from collections.abc import Sequence
from typing import NamedTuple

from mmgen.report.cobsat_cells import TASK_NAMES, Accuracies, Key
from mmgen.report.tables import Cell, Column, Table


class Comparison(NamedTuple):
    """A published table: two ways of asking, side by side.

    Attributes:
      title: of the table.
      head: of the column that names the way.
      ways: (prompt type, training, its name) in their order.
      only_with: prompt type or training without which a system is not shown.
    """

    title: str
    head: str
    ways: tuple[tuple[str, str, str], ...]
    only_with: tuple[str, str]


COMPARISONS = (
    Comparison(
        "Table 2: T2I-ICL against T-ICL",
        "method",
        (("default", "", "T2I-ICL"), ("caption", "", "T-ICL")),
        ("caption", ""),
    ),
    Comparison(
        "Table 3: precise textual inputs",
        "precise",
        (("default", "", "no"), ("exact", "", "yes")),
        ("exact", ""),
    ),
    Comparison(
        "Table 4: fine-tuning",
        "method",
        (("default", "none", "T2I-ICL"), ("default", "finetuned", "FT + T2I-ICL")),
        ("default", "finetuned"),
    ),
    Comparison(
        "Table 5: chain of thought",
        "method",
        (("default", "", "T2I-ICL"), ("cot", "", "CoT + T2I-ICL")),
        ("cot", ""),
    ),
    Comparison(
        "Table 6: explicit instruction",
        "explicit",
        (("default", "", "no"), ("instruct", "", "yes")),
        ("instruct", ""),
    ),
    Comparison(
        "Misleading inputs (Fig. 8)",
        "misleading",
        (("default", "", "no"), ("misleading", "", "yes")),
        ("misleading", ""),
    ),
)


def comparison_table(comparison: Comparison, found: Accuracies) -> Table:
    """One of the tables; no row where no system was asked in the second way."""
    systems = sorted(
        {_system(key) for key in found if (key.prompt, key.training) == comparison.only_with},
        key=lambda system: (system[0] == "published", system),
    )
    columns = (
        *(Column(name) for name in ("from", "model", "output", "shots", comparison.head)),
        *(Column(task, better="high") for task in TASK_NAMES),
    )
    rows: list[Sequence[Cell]] = []
    for system in systems:
        shots = sorted({key.shots for key in found if _system(key) == system})
        for count in shots:
            for prompt, training, name in comparison.ways:
                source, model, output = system
                tasks = found.get(Key(source, model, output, prompt, count, training))
                if tasks is not None and _is_shown(comparison, found, system, count):
                    values = [tasks.get(task) for task in TASK_NAMES]
                    rows.append([source, model, output, str(count), name, *values])
    return Table(comparison.title, columns, rows)


def overview_table(found: Accuracies) -> Table:
    """The numbers behind Fig. 4: every system and number of shots with default prompts."""
    columns = (
        *(Column(name) for name in ("from", "model", "output", "shots")),
        *(Column(task, better="high") for task in TASK_NAMES),
    )
    rows: list[Sequence[Cell]] = [
        [
            key.source,
            key.model,
            key.output,
            str(key.shots),
            *(tasks.get(task) for task in TASK_NAMES),
        ]
        for key, tasks in sorted(found.items())
        if key.prompt == "default" and not key.training
    ]
    return Table("Fig. 4: accuracy by number of demonstrations", columns, rows)


def _system(key: Key) -> tuple[str, str, str]:
    return key.source, key.model, key.output


def _is_shown(
    comparison: Comparison, found: Accuracies, system: tuple[str, str, str], shots: int
) -> bool:
    """Was the system asked in the second way with so many demonstrations?"""
    prompt, training = comparison.only_with
    return Key(*system, prompt, shots, training) in found
