"""Cells of the VisCOLL paper's tables, and which one a run belongs to."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mmgen.evaluation.context import read_context
from mmgen.report.aggregate import Run
from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config
from mmgen.settings.identity import identity
from mmgen.settings.resolve import resolve

ALGORITHMS = {"plain": "vanilla", "mir": "er_mir"}
"""Published names of the algorithms that have another name in configs."""

OF_THE_CELL = (
    "kind",
    "seed",
    "data_seed",
    "profile",
    "text_only",
    "dataset.name",
    "model.factory",
    "algorithm.name",
    "algorithm.aggregate",
    "stream.kind",
    "stream.order",
    "memory.policy",
    "memory.size",
)
"""Keys that the cell names itself, or in which its repetitions differ."""

OF_THE_METHOD: dict[str, dict[str, Any]] = {
    "offline": {"total.epochs": 6.0},
    "der": {"algorithm.weight": 2.0},
    "der++": {"algorithm.weight": 2.0, "algorithm.label_weight": 0.5},
    "ewc": {"algorithm.weight": 1e4},
    "si": {"algorithm.weight": 1e4},
    "lwf": {"algorithm.weight": 3.0},
}
"""What the files of `configs/` set besides, where the paper gives no value or has no such row."""

NOT_OF_THE_EXPERIMENT = ("evaluation.", "buckets.max", "dataset.fingerprint")
"""Beginnings of keys that say how a run is evaluated and padded, or on which data it was made."""


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
    method, kind = _bare_method(config), config["stream.kind"]
    if config["algorithm.name"] != "plain" and kind != "shift":
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


def _bare_method(config: Mapping[str, Any]) -> str:
    """Published name of the method, whatever it is used with."""
    algorithm, kind = config["algorithm.name"], config["stream.kind"]
    if algorithm == "mir" and config["algorithm.aggregate"] == "max":
        return "er_mir_max"
    if algorithm == "der" and config.get("algorithm.label_weight"):
        return "der++"
    if algorithm == "plain" and kind != "shift":
        return "offline_one_pass" if kind == "iid" else "offline"
    return ALGORITHMS.get(algorithm, algorithm)


def unusual_keys(run: Run) -> list[str]:
    """Keys of a run's config that make it another experiment than its cell's."""
    return changed_keys(run.summary["config"], read_context(run.path)["dataset"])


def changed_keys(config: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Keys whose value is not what the cell alone, on these data, resolves to.

    Args:
      config: as summary.json holds it.
      facts: of the data set, as the run's context holds them.
    """
    usual = _usual_config(config, facts)
    return [
        key
        for key, value in usual.items()
        if key in config
        and not key.startswith(NOT_OF_THE_EXPERIMENT)
        and config[key] != value
        # No length is one epoch.
        and not (key == "total.epochs" and value is None and config[key] == 1)
    ]


def _usual_config(config: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run of the same cell, size and data of which nothing else was chosen."""
    world, examples = facts["world"], facts["splits"]["train"]["examples"]
    # Contexts of before it was recorded: a shortened stream is far shorter.
    whole = not world and examples > 0.9 * facts["paper_size"]
    info = {"paper_scale": whole, **facts}
    usual = default_config()
    if config.get("model.size") == "smoke" and config.get("dataset.instances"):
        usual = apply_arguments(usual, "smoke").unlock()
    usual.update_from_flattened_dict({key: config[key] for key in OF_THE_CELL if key in config})
    usual.update_from_flattened_dict(OF_THE_METHOD.get(_bare_method(config), {}))
    if config.get("memory.size") is None:
        usual.memory.capacity = config.get("memory.capacity")
    size = resolve(usual, info).model.size
    # Who chose another size has not chosen each of its numbers, too.
    usual.model.size = config.get("model.size", size)
    # The slots are the size's share of the part of the stream that is read, which is named itself.
    told = {"model.size": size, "memory.capacity": config.get("memory.capacity")}
    return identity(resolve(usual, info), info) | told
