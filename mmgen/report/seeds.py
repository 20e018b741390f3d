"""What several seeds of one experiment say together: `seeds.json` and `seeds.md`."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from mmgen.core.workdir import Workdir
from mmgen.metrics.stats import summarise
from mmgen.report.tables import Cell, Column, Table, markdown

SEEDS_JSON, SEEDS_TABLE = "seeds.json", "seeds.md"


def write_seeds(
    folder: Workdir, summaries: Sequence[dict[str, Any]], shown: Collection[str]
) -> str:
    """Writes values, mean, standard deviation and standard error of every metric; the table.

    Args:
      folder: where to.
      summaries: summary.json of runs that differ in their seed alone.
      shown: metrics in the table, by their names behind the split or group.
    """
    metrics = {
        name: _over_seeds([one["metrics"][name] for one in summaries])
        for name in summaries[0]["metrics"]
        if all(name in one["metrics"] for one in summaries)
    }
    seeds = [one["seed"] for one in summaries]
    folder.write_json(SEEDS_JSON, {"seeds": seeds, "metrics": metrics})
    rows: list[list[Cell]] = [
        [name, *(found[key] for key in ("mean", "sd", "se"))]
        for name, found in metrics.items()
        if name.split("/", 1)[1] in shown
    ]
    columns = (Column("metric"), *(Column(key, decimals=4) for key in ("mean", "sd", "se")))
    first = summaries[0]
    title = f"{first['name']} on {first['dataset']}, seeds {', '.join(map(str, seeds))}"
    text = markdown(Table(title, columns, rows))
    folder.write_text(SEEDS_TABLE, text)
    return text


def _over_seeds(values: list[float]) -> dict[str, Any]:
    found = summarise(values)._asdict()
    # A single run has neither.
    finite = {key: value if math.isfinite(value) else None for key, value in found.items()}
    return {"values": values, **finite}
