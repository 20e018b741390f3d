"""Cells of the VisCOLL paper's tables, and which one a run belongs to."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mmgen.report.aggregate import Run
from mmgen.settings.command_line import flat_keys
from mmgen.settings.defaults import default_config

ALGORITHMS = {"plain": "vanilla", "mir": "er_mir"}
"""Published names of the algorithms that have another name in configs."""

OF_THE_CELL = (
    "kind",
    "profile",
    "text_only",
    "dataset.name",
    "model.factory",
    "algorithm.name",
    "algorithm.aggregate",
    "algorithm.label_weight",
    "stream.kind",
    "stream.order",
    "memory.policy",
    "memory.size",
    "total.epochs",
)
"""Keys that the cell names itself, or that belong to its method."""

KNOBS = ("dataset.", "total.")
"""Beginnings of keys without a value of their own, which whoever gives one has changed."""


class Method(NamedTuple):
    """The cell of the paper's tables that a run belongs to.

    Attributes:
      dataset: name of the data set that was really used.
      model: "vlbert" or "lxmert", or an import path.
      profile: "paper" or "release".
      method: published name of the method, "er_mir_max" for instance.
      memory: "1k", "10k", "none", or the number of slots.
      order: order of the task centres in the stream.
    """

    dataset: str
    model: str
    profile: str
    method: str
    memory: str
    order: str

    @property
    def label(self) -> str:
        """Short name for figures."""
        return self.method if self.memory == "none" else f"{self.method} {self.memory}"


def method_of(run: Run) -> Method:
    """The cell of a run, read from its config."""
    config = run.summary["config"]
    algorithm, kind = config["algorithm.name"], config["stream.kind"]
    method = ALGORITHMS.get(algorithm, algorithm)
    if algorithm == "mir" and config["algorithm.aggregate"] == "max":
        method = "er_mir_max"
    if algorithm == "der" and config.get("algorithm.label_weight"):
        method = "der++"
    if algorithm == "plain" and kind != "shift":
        method = "offline_one_pass" if kind == "iid" else "offline"
    elif kind != "shift":
        method = f"{method}_{kind}"
    if config["text_only"]:
        method = f"{method}_text_only"
    policy = config["memory.policy"]
    if policy not in ("none", "reservoir"):
        method = f"{method}_{policy}"
    memory = config.get("memory.size") or str(config.get("memory.capacity"))
    return Method(
        dataset=run.summary["dataset"],
        model=config["model.factory"],
        profile=run.summary["profile"],
        method=method,
        memory="none" if policy == "none" else memory,
        order=config["stream.order"],
    )


def unusual_keys(config: Mapping[str, Any]) -> list[str]:
    """Keys of a run's config that make it another experiment than its cell's.

    What the profile, the model or the data set decides is usual; how a run is evaluated is no part
    of the experiment.
    """
    return [
        key
        for key, usual in flat_keys(default_config()).items()
        if key in config
        and key not in OF_THE_CELL
        and not key.startswith("evaluation.")
        and (usual is not None or key.startswith(KNOBS))
        and config[key] != usual
    ]
