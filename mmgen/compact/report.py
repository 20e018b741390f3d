"""The report of one CompAct run: its scores between the trivial baselines and what is possible."""

from typing import Any

from etils import epath

from mmgen.core.workdir import Workdir
from mmgen.report.tables import Cell, Column, Table, markdown

SCORES = (
    ("bleu1_joined", "BLEU joined"),
    ("bleu1_plain", "BLEU plain"),
    ("em", "EM"),
    ("ca", "CA"),
)


SHARES = {
    "gold_ca": "CA of the targets themselves as predictions",
    "gold_bleu1_joined": "BLEU joined of the targets themselves, written plainly",
    "unparsable": "Predictions without a verb or a noun, which CA counts wrong",
    "unseen_label": "Targets that are no label of train, hence wrong",
}
"""What CA rests on: told below the table."""


def run_report(workdir: epath.PathLike) -> str:
    """The report of a finished run as Markdown, from the files of its workdir alone.

    Raises:
      UserError: the workdir has no summary yet.
    """
    summary = Workdir(workdir).read_json("summary.json")
    metrics = summary["metrics"]
    splits = dict.fromkeys(name.split("/", 1)[0] for name in metrics)
    task = "joint" if summary["task"] == "utterance" else summary["task"]
    tables = [markdown(quality_table(metrics, split, task)) for split in splits]
    return "\n".join([heading(summary), *tables])


def heading(summary: dict[str, Any]) -> str:
    """Name, data, model and machine of the run, before any number."""
    settings = summary["config"]
    world = "kitchen_world" in summary["dataset"]
    caveat = " (a built-in world: not comparable with published values)" if world else ""
    model, device, split = summary["model"], summary["device"], summary["split"]
    inputs = ", ".join([model["language"], *model["inputs"]])
    end = "stopped early" if summary["stopped_early"] else "all there were to be"
    facts = [
        ("data set", f"{summary['dataset']}{caveat}, fingerprint {summary['fingerprint'][:12]}"),
        ("split", ", ".join(f"{key} {value}" for key, value in split.items())),
        ("task", f"{summary['task']}, seed {summary['seed']}, data {summary['data_seed']}"),
        ("model", f"{inputs}; fusion {model['fusion']}; {summary['parameters']:,} parameters"
         + (" (small: not the published size)" if summary["small"] else "")),
        ("training", f"{summary['epochs']:.0f} epochs ({end}), {summary['steps']:,} iterations"),
        ("chosen", f"epoch {summary['best_epoch']:.0f}, by {settings['control.metric']}"),
        ("machine", f"{device['devices']} x {device['kind']}, {summary['wall_seconds']:,.0f} s"),
    ]  # fmt: skip
    lines = [f"## {summary['name']}", "", *(f"- {name}: {value}" for name, value in facts)]
    return "\n".join(lines) + "\n"


def quality_table(metrics: dict[str, float], split: str, task: str) -> Table:
    """Scores of a split in per cent: the run's, of new and known compounds, and the baselines'.

    Args:
      task: "joint", "verb" or "noun", what a world's optimum is of.
    """
    parts = {"this run": "", "of unseen compounds": "unseen/", "of seen compounds": "seen/"}
    names = [key.removeprefix(f"{split}/baseline/") for key in metrics]
    for name in dict.fromkeys(name.split("/")[0] for name in names if "/" in name):
        if f"{split}/baseline/{name}/em" in metrics:
            parts[f"baseline {name}"] = f"baseline/{name}/"
    shown = [score for score in SCORES if f"{split}/{score[0]}" in metrics]
    optimum = {"ca": f"optimum_{task}", "em": "optimum_exact" if task == "joint" else ""}
    rows: list[list[Cell]] = []
    for label, prefix in parts.items():
        found = [metrics.get(f"{split}/{prefix}{key}") for key, _ in shown]
        if any(value is not None for value in found):
            rows.append([label, *(None if v is None else 100 * v for v in found)])
    possible = [metrics.get(f"{split}/{optimum.get(key, '')}") for key, _ in shown]
    if any(value is not None for value in possible):
        rows.append(["the best possible", *(None if v is None else 100 * v for v in possible)])
    columns = (Column(""), *(Column(title, decimals=2) for _, title in shown))
    known = [(words, metrics.get(f"{split}/{key}")) for key, words in SHARES.items()]
    notes = [f"{words}: {100 * value:.2f} %." for words, value in known if value is not None]
    return Table(f"{split}, per cent", columns, rows, tuple(notes))
