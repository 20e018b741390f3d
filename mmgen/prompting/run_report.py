"""The report of one prompted run: who was asked what, how many answers are missing, the tables."""

from typing import Any

from mmgen.prompting.benchmark import Scores
from mmgen.report.tables import Cell, Column, Table, markdown


def run_report(summary: dict[str, Any], scores: Scores) -> str:
    """The report as Markdown."""
    tables = [*scores.tables, stage_table(summary)]
    return "\n".join([heading(summary), *(markdown(one) for one in tables if one.rows)])


def heading(summary: dict[str, Any]) -> str:
    """Name, data, model and judge of the run, before any number."""
    world = " (a built-in world: not comparable with published values)" if summary["world"] else ""
    facts = [
        ("data set", f"{summary['dataset']}{world}, fingerprint {summary['fingerprint'][:12]}"),
        ("model", describe_model(summary["model"])),
    ]
    if summary["judge"]:
        facts.append(("judge", describe_model(summary["judge"])))
    facts += [
        ("seeds", f"{summary['seed']}, data {summary['data_seed']}"),
        ("errors", f"± is the standard error, [ ] the 95 % interval over {summary['cluster']}s"),
    ]
    lines = [f"## {summary['name']}", "", *(f"- {name}: {value}" for name, value in facts)]
    missing = sum(s["requests"] - s["answered"] for s in summary["stages"].values())
    if missing:
        lines += ["", f"**{missing:,} requests have no answer: the numbers are not final.**"]
    return "\n".join(lines) + "\n"


def describe_model(model: dict[str, Any]) -> str:
    """A model in words; a fake is called one, and how to name a real one is said."""
    if model.get("backend") == "fake":
        return (
            f"{model['spec']}, no model at all but a known answer: name one with model=, for "
            "instance model=jax-package:smollm2 or model=server:http://localhost:8000/v1#NAME"
        )
    rest = ", ".join(
        f"{key} {str(value)[:24]}"
        for key, value in model.items()
        if key not in ("spec", "backend", "name", "model")
        and isinstance(value, str | int)
        and value
    )
    return f"{model['spec']}{f' ({rest})' if rest else ''}"


def stage_table(summary: dict[str, Any]) -> Table:
    """How many requests of each stage were answered, and how fast."""
    columns = (
        *(Column(name) for name in ("stage", "requests", "answered", "failed")),
        Column("seconds", 1),
        Column("tokens/s", 1),
        Column("first error"),
    )
    rows: list[list[Cell]] = [
        [
            name,
            stage["requests"],
            stage["answered"],
            stage["failed"],
            stage.get("seconds"),
            stage.get("tokens_per_second"),
            stage.get("first_error"),
        ]
        for name, stage in summary["stages"].items()
        if stage["requests"]
    ]
    return Table("requests", columns, rows)
