"""Cells of the CoBSAT paper's tables, which one a run belongs to, and accuracies by cell."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mmgen.prompting.cobsat.tasks import TASKS
from mmgen.report.aggregate import Group, Run
from mmgen.report.published import published
from mmgen.settings.prompting import short_name

PAPER = "cobsat"

TASK_NAMES = tuple(
    [task.name for task in TASKS if task.latent == "object"]
    + [task.name for task in TASKS if task.latent == "attribute"]
)
"""The paper's columns: object inference, then attribute inference."""


class Setting(NamedTuple):
    """The cell of the paper's tables that a run belongs to.

    Attributes:
      dataset: name of the data set that was really used.
      world: is it built in?
      model: short name.
      judge: short name.
      output: "image" or "text".
      prompt: prompt type.
      shots: number of demonstrations.
      training: "" on the benchmark; "none" or "finetuned" on the test of fine-tuning.
    """

    dataset: str
    world: bool
    model: str
    judge: str
    output: str
    prompt: str
    shots: int
    training: str = ""

    @property
    def label(self) -> str:
        """Short name for figures."""
        return self.model


class Key(NamedTuple):
    """What tables compare: a system under one kind of prompt.

    Attributes:
      source: "published", or data set and judge of our runs.
      model, output, prompt, shots, training: see `Setting`.
    """

    source: str
    model: str
    output: str
    prompt: str
    shots: int
    training: str = ""


Accuracies = Mapping[Key, Mapping[str, float]]
"""Accuracy of every task for each cell."""


def setting_of(run: Run) -> Setting:
    """The cell of a run, read from its config."""
    config = run.summary["config"]
    training = ""
    if config["cobsat.split"] == "ft_test":
        training = "finetuned" if config["model.adapter"] else "none"
    return Setting(
        dataset=run.summary["dataset"],
        world=run.summary["world"],
        model=short_name(config["model.spec"]),
        judge=short_name(config["judge.spec"]),
        output=config["cobsat.output"],
        prompt=config["cobsat.prompt"],
        shots=config["cobsat.shots"],
        training=training,
    )


def key_of(setting: Setting, settings: str = "") -> Key:
    """The key of a cell; `settings` sets experiments apart that differ in other choices."""
    model = f"{setting.model} ({settings})" if settings else setting.model
    source = f"{setting.dataset}, judge {setting.judge}"
    return Key(source, model, setting.output, setting.prompt, setting.shots, setting.training)


def accuracies(groups: Sequence[Group], metric: str = "joint") -> dict[Key, dict[str, float]]:
    """Mean over seeds of a metric of every task that was run."""
    found = {}
    for group in groups:
        means = {task: group.summary_of(f"{task}/{metric}") for task in TASK_NAMES}
        known = {task: one.mean for task, one in means.items() if one is not None}
        if known:
            found[key_of(group.method, group.settings)] = known
    return found


def published_accuracies() -> dict[Key, dict[str, float]]:
    """Those of Tables 2 to 6."""
    found: dict[Key, dict[str, float]] = {}
    for table in ("results", "finetuning"):
        for row in published(PAPER)[table]:
            key = Key(
                "published",
                row["model"],
                row["output"],
                row["prompt"],
                int(row["shots"]),
                row.get("training", ""),
            )
            found.setdefault(key, {})[row["task"]] = row["accuracy"]
    return found
