"""Finding runs, and putting repetitions of one experiment together.

Repetitions differ in `seed` alone. Whatever else differs makes another experiment, and runs on
other data (another fingerprint or `data_seed`) are never averaged: that is refused, not ignored.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from etils import epath

from mmgen.core.workdir import CONFIG, Workdir
from mmgen.errors import UserError
from mmgen.metrics.stats import Summary, summarise

NOT_COMPARED = ("seed", "data_seed", "dataset.fingerprint")
"""Identity keys in which repetitions may differ (`seed`) or must not (the other two)."""


class Run(NamedTuple):
    """A finished run.

    Attributes:
      path: its workdir.
      summary: its summary.json.
    """

    path: str
    summary: dict[str, Any]


class Missing(NamedTuple):
    """A run that cannot be reported, and why."""

    path: str
    reason: str


class Place(Protocol):
    """The cell of a paper's tables that a run belongs to: a named tuple of facts."""

    @property
    def label(self) -> str:
        """Short name for figures."""

    def _asdict(self) -> dict[str, Any]: ...


class Group(NamedTuple):
    """Repetitions of one experiment.

    Attributes:
      method: its cell, a `Method` for instance.
      settings: what sets it apart from the cell's own experiment, or from others of the same cell;
        "" if nothing does.
      runs: by seed.
    """

    method: Any
    settings: str
    runs: tuple[Run, ...]

    def summary_of(self, metric: str) -> Summary | None:
        """Mean, sd and SE over the runs that have the metric; None if none has."""
        values = [run.summary["metrics"].get(metric) for run in self.runs]
        known = [value for value in values if value is not None]
        return summarise(known) if known else None

    @property
    def label(self) -> str:
        """Method and settings."""
        return f"{self.method.label} ({self.settings})" if self.settings else self.method.label


def load(paths: Iterable[epath.PathLike]) -> tuple[list[Run], list[Missing]]:
    """Finished runs in or below `paths`, and the others with the reason."""
    runs: list[Run] = []
    missing: list[Missing] = []
    for path in paths:
        found = find_workdirs(path)
        if not found:
            missing.append(Missing(str(path), "no workdir of a run there"))
        for workdir in found:
            if workdir.file("summary.json").exists():
                runs.append(Run(str(workdir.root), workdir.read_json("summary.json")))
            else:
                missing.append(Missing(str(workdir.root), "not finished: it has no summary.json"))
    return runs, missing


def find_workdirs(path: epath.PathLike) -> list[Workdir]:
    """`path` itself if it is a workdir, else the workdirs up to three folders below it."""
    root = epath.Path(path)
    if (root / CONFIG).exists():
        return [Workdir(root)]
    # A bucket has no cheap search of any depth; runs/<config>/<run> is two below runs/.
    patterns = ["/".join(["*"] * depth + [CONFIG]) for depth in (1, 2, 3)]
    found = sorted(file for pattern in patterns for file in root.glob(pattern))
    return [Workdir(file.parent) for file in found]


Keys = Callable[[Run], Collection[str]]
"""Some keys of a run's config, as summary.json holds it."""


def no_keys(run: Run) -> Collection[str]:
    """None of them."""
    del run
    return ()


def group_runs(
    runs: Iterable[Run],
    cell_of: Callable[[Run], Place],
    unusual: Keys = no_keys,
) -> list[Group]:
    """Repetitions together, in the order in which their first run was given.

    Args:
      runs: of one kind.
      cell_of: the cell of each.
      unusual: keys that make a run another experiment than its cell's; its group names them.

    Raises:
      UserError: repetitions were made on different data, or a seed occurs twice.
    """
    same: dict[tuple[Place, str], list[Run]] = defaultdict(list)
    for run in runs:
        same[cell_of(run), repr(_compared(run))].append(run)
    for repetitions in same.values():
        _check_repetitions(repetitions)
    configs: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    for (method, _), repetitions in same.items():
        configs[method].append(_compared(repetitions[0]))
    return [
        Group(
            method,
            _settings(_compared(repetitions[0]), configs[method], unusual(repetitions[0])),
            tuple(sorted(repetitions, key=lambda run: run.summary["seed"])),
        )
        for (method, _), repetitions in same.items()
    ]


def paired_values(group: Group, other: Group, metric: str) -> list[tuple[float, float]]:
    """Values of runs with the same seed; none for runs on different data."""
    if group.runs[0].summary["fingerprint"] != other.runs[0].summary["fingerprint"]:
        return []
    values = {run.summary["seed"]: run.summary["metrics"].get(metric) for run in other.runs}
    pairs = [
        (run.summary["metrics"].get(metric), values.get(run.summary["seed"])) for run in group.runs
    ]
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def mean_hours(runs: Sequence[Run]) -> float:
    """Mean wall time of a run, hours.

    Seeds trained side by side each hold the wall time of all of them; each counts its share.
    """
    seconds = [run.summary["wall_seconds"] / run.summary.get("side_by_side", 1) for run in runs]
    return sum(seconds) / len(runs) / 3600


def hardware(runs: Sequence[Run]) -> str:
    """Devices of the runs; several kinds are all named."""
    kinds = {
        f"{run.summary['device']['devices']} x {run.summary['device']['kind']}"
        for run in runs
        if run.summary.get("device")
    }
    return ", ".join(sorted(kinds)) or "unknown"


def finite(value: float | None) -> float | None:
    """None instead of NaN, for cells of tables."""
    return None if value is None or math.isnan(value) else value


def _compared(run: Run) -> dict[str, Any]:
    """Identity keys that make another experiment, in a fixed order."""
    config = run.summary["config"]
    return {key: config[key] for key in sorted(config) if key not in NOT_COMPARED}


def _check_repetitions(runs: Sequence[Run]) -> None:
    first = runs[0]
    seeds: dict[int, str] = {}
    for run in runs:
        for key in ("fingerprint", "data_seed"):
            if run.summary[key] != first.summary[key]:
                raise UserError(
                    f"{first.path} and {run.path} are the same experiment on different data "
                    f"({key} {first.summary[key]} and {run.summary[key]}) and cannot be averaged: "
                    "report them separately"
                )
        seed = run.summary["seed"]
        if seed in seeds:
            raise UserError(
                f"{seeds[seed]} and {run.path} are the same run (seed {seed}): give only one"
            )
        seeds[seed] = run.path


def _settings(
    config: dict[str, Any],
    others: list[dict[str, Any]],
    unusual: Collection[str],
) -> str:
    """Keys in which experiments of one cell differ, and unusual ones, with this one's values."""
    keys = {key for other in others for key in other}
    differing = {key for key in keys if len({repr(other.get(key)) for other in others}) > 1}
    named = sorted(differing | set(unusual))
    return ", ".join(f"{key}={config.get(key)}" for key in named)
