"""Cells of the CompAct paper's tables, and which one a run belongs to."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mmgen.compact.context import read_compact_context
from mmgen.compact.locate import WORLD
from mmgen.report.aggregate import Group, Run
from mmgen.report.published import Row, find_row
from mmgen.settings.command_line import flat_keys
from mmgen.settings.compact import compact_config, resolve

PAPER = "compact"

MODELS = {
    ("words", ()): "L",
    ("words", ("vision+objects",)): "VL",
    ("words", ("audio",)): "AL",
    ("words", ("vision+objects", "audio")): "AVL",
    ("words", ("tags",)): "OL",
    ("words", ("tags", "audio")): "OAL",
    ("words", ("merlot_vision+merlot_audio",)): "MerlotR",
    ("imagebind_text", ("imagebind_vision", "imagebind_audio")): "ImageBind",
}
"""What stands for the words, and what is fused with them -> published name of the model."""

IN_DOMAIN = ("random", "random_by_video")

LOWEST_DC = 0.6
"""The paper's bound of the compound divergence, which its split lies above."""

TABLES = {
    ("utterance", "mcd", "test"): "table1",
    ("utterance", "mcd", "validation"): "table7",
    ("utterance", "random", "test"): "table3",
    ("verb", "mcd", "test"): "table2",
    ("verb", "mcd", "validation"): "table8",
    ("verb", "random", "test"): "table4",
    ("noun", "mcd", "test"): "table2",
    ("noun", "mcd", "validation"): "table8",
    ("noun", "random", "test"): "table5",
}
"""Task, split of the data, evaluated split -> published table."""

KNOBS = (
    "batch_size",
    "control.",
    "dataset.",
    "decoding.",
    "evaluation.every",
    "model.",
    "optimizer.",
    "total.",
)
"""Beginnings of keys that change an experiment."""

OF_THE_CELL = (
    "dataset.name",
    "dataset.split",
    "dataset.target_dc",
    "dataset.validation",
    "dataset.max_missing",
    "model.inputs",
    "model.language",
    "model.size",
    "model.scan_unroll",
)
"""Keys that the cell or the data set's name tells, whose effect other keys show, or without one."""


class System(NamedTuple):
    """The cell of the paper's tables that a run belongs to.

    Attributes:
      dataset: name of the data set that was really used.
      split: how it was divided, "mcd" for instance.
      task: "utterance", "verb" or "noun".
      model: published name of the model, or its inputs.
      world: is the data set built in?
      epic: is it EPIC-KITCHENS, beside which published values may stand?
      as_published: is the compositional split the paper's kind of one?
    """

    dataset: str
    split: str
    task: str
    model: str
    world: bool
    epic: bool
    as_published: bool

    @property
    def label(self) -> str:
        """Short name for figures."""
        return self.model

    @property
    def place(self) -> "Place":
        """What a table about this run is about."""
        return Place(self.dataset, self.split, self.task, self.world, self.epic, self.as_published)


class Place(NamedTuple):
    """What a table is about, see `System`."""

    dataset: str
    split: str
    task: str
    world: bool
    epic: bool
    as_published: bool

    def table(self, evaluated: str) -> str:
        """Name of the published table of an evaluated split, "" if there is none."""
        if not self.as_published:
            return ""
        split = "random" if self.split in IN_DOMAIN else self.split
        return TABLES.get((self.task, split, evaluated), "")

    def published(self, evaluated: str, model: str) -> Row:
        """Published values that may stand beside this place's; empty for other data."""
        table = self.table(evaluated)
        if not self.epic or not table:
            return {}
        keys = {"task": self.task} if table in ("table2", "table8") else {}
        return find_row(PAPER, table, model=model, **keys) or {}


def system_of(run: Run) -> System:
    """The cell of a run, read from its config and context."""
    config = run.summary["config"]
    dataset = read_compact_context(run.path)["dataset"]
    inputs = tuple(config["model.inputs"])
    model = MODELS.get((config["model.language"], inputs))
    return System(
        dataset=run.summary["dataset"],
        split=dataset["split"] or "",
        task=config["task"],
        model=model or ", ".join([config["model.language"], *inputs]),
        world=dataset["world"],
        # Runs from before it was recorded: what was no world stood beside published values.
        epic=dataset.get("epic", not dataset["world"]),
        as_published=_is_as_published(dataset),
    )


def _is_as_published(dataset: Mapping[str, Any]) -> bool:
    """Is D_C as high as the paper's, and validation a part of the compositional pool?"""
    target = dataset.get("target_dc")
    return dataset.get("validation") != "train" and (target is None or target >= LOWEST_DC)


def unusual_keys(run: Run) -> list[str]:
    """Keys of a run's config that make it another experiment than its cell's."""
    return changed_keys(run.summary["config"])


def changed_keys(config: Mapping[str, Any]) -> list[str]:
    """Keys whose value is not what kind of data, task and language decide.

    Args:
      config: as summary.json holds it.
    """
    expected = compact_config()
    expected.task = config["task"]
    if config["model.language"] != "words":
        # As configs/compact_imagebind.py has it.
        expected.model.fused_layers = 0
    info = {"world": config["dataset.name"].startswith(WORLD), "settings": {}, "data_seed": 0}
    usual = flat_keys(resolve(expected, info))
    return [
        key
        for key, value in usual.items()
        if key.startswith(KNOBS)
        and key not in OF_THE_CELL
        and key in config
        and config[key] != (list(value) if isinstance(value, tuple) else value)
    ]


def in_paper_order(groups: list[Group]) -> list[Group]:
    """Groups in the order of Table 1, our own models last."""
    order = [*MODELS.values()]
    return sorted(
        groups,
        key=lambda g: order.index(g.method.model) if g.method.model in order else len(order),
    )
