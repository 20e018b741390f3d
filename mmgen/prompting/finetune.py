"""One fine-tuning run from config to report: train adapters, ask the tuned model, write both.

config.json  metrics.jsonl  tb/  checkpoints/  evals/heldout/  adapter/
summary.json  report.md  DONE

Checkpoints hold adapters and optimizer; the model they belong to stays in its own folder.
"""

import time
from typing import Any

import jax
from ml_collections import ConfigDict

from mmgen.core import provenance
from mmgen.core.loop import train
from mmgen.core.mesh import make_mesh
from mmgen.core.progress import Progress
from mmgen.core.run_spec import Result
from mmgen.core.state import parameter_count
from mmgen.core.workdir import Workdir
from mmgen.core.writers import make_writer
from mmgen.errors import UserError
from mmgen.models.lm.lora import save_adapters
from mmgen.prompting.describe import prompt_lines
from mmgen.prompting.finetuning.evaluation import (
    Record,
    compare,
    read_records,
    record_name,
    score,
    tables,
)
from mmgen.prompting.finetuning.examples import Examples, make_examples, open_data
from mmgen.prompting.finetuning.experiment import Experiment, build, run_spec, update_count
from mmgen.report.tables import markdown
from mmgen.settings.command_line import flat_keys
from mmgen.settings.finetune import finetune_workdir
from mmgen.settings.identity import identity, operational
from mmgen.settings.resolve_finetune import resolve

ADAPTER = "adapter"
"""Folder of the trained adapters in a workdir."""

PREFIXES = {False: "model.", True: "model.language_model."}
"""Does it see? -> what stands before `layers` in the module names of transformers 5."""


def run(config: ConfigDict, workdir: str = "", command: str = "") -> int:
    """Trains, or finishes, the run that `config` describes and prints its table.

    Args:
      config: recorded choices, not yet resolved.
      workdir: where results go; by default a folder that the identity of the run names.
      command: the command line, for the record.

    Returns:
      0 for a finished run and for one that was asked to stop.
    """
    if jax.process_count() > 1:
        raise UserError("Fine-tuning has one process; use config.mesh for the devices of its host.")
    config = resolve(config)
    dataset = open_data(config)
    examples = make_examples(dataset, config)
    _check(examples, config)
    folder = Workdir(workdir or finetune_workdir(config, dataset.info))
    with folder.lock():
        folder.claim(identity(config, dataset.info), operational(config))
        if folder.is_done:
            print(folder.file("report.md").read_text())
            print(f"This run is finished: {folder.root}")
            return 0
        start = time.perf_counter()
        experiment = build(config, dataset, examples, make_mesh(**config.mesh.to_dict()))
        outcome = _train(experiment, folder)
        if outcome.stopped:
            print(f"Stopped as asked; the same command continues: {folder.root}")
            return 0
        wall = outcome.timing["earlier_seconds"] + time.perf_counter() - start
        _conclude(experiment, folder, outcome, wall, command)
        print(folder.file("report.md").read_text())
        print(f"Results: {folder.root}")
    return 0


def describe(config: ConfigDict) -> str:
    """The resolved config, the examples and the first of them, as text; no model is opened."""
    config = resolve(config)
    dataset = open_data(config)
    examples = make_examples(dataset, config)
    first = examples.train[0]
    lines = ["config (resolved):"]
    lines += [f"  {key} = {value!r}" for key, value in sorted(flat_keys(config).items())]
    lines += [
        "",
        f"data set: {dataset.info['name']}",
        f"fingerprint: {dataset.info['fingerprint']}",
        f"examples: {len(examples.train):,} to learn, {len(examples.heldout):,} held out",
        f"updates: {update_count(len(examples.train), config):,}",
        f"workdir: {finetune_workdir(config, dataset.info)}",
        "",
        "first example:",
        *prompt_lines(first.request),
        f"  [answer] {first.answer}",
    ]
    return "\n".join(lines)


def rescore(workdir: Workdir, *, from_checkpoint: bool) -> dict[str, float]:
    """Every metric of the run again from its records; writes summary.json and report.md.

    Raises:
      UserError: the run is not finished, or a checkpoint was asked for.
    """
    if from_checkpoint:
        raise UserError(
            f"delete {workdir.file('evals')} and DONE and start the run's command again: it "
            "evaluates its last checkpoint and trains nothing."
        )
    summary = workdir.read_json("summary.json")
    metrics, report = _results(workdir, summary["steps"])
    workdir.write_json("summary.json", {**summary, "metrics": metrics})
    workdir.write_text("report.md", _heading(summary) + report)
    return metrics


def _check(examples: Examples, config: ConfigDict) -> None:
    if not update_count(len(examples.train), config):
        raise UserError(
            f"{len(examples.train)} examples fill no update of config.finetune.batch_size x "
            "accumulation; choose more tasks or a smaller accumulation."
        )


def _train(experiment: Experiment, folder: Workdir) -> Result:
    config = experiment.config
    spec = run_spec(experiment, folder)
    writer = make_writer(folder)
    progress = Progress(spec.num_steps, spec.examples_per_step, enabled=config.logging.progress)
    mesh = experiment.pupil.language.mesh
    outcome = train(spec, folder, mesh, writer, progress)
    writer.close()
    progress.close()
    return outcome


def _conclude(
    experiment: Experiment, folder: Workdir, outcome: Result, wall_seconds: float, command: str
) -> None:
    """Writes the adapters, summary.json and report.md."""
    pupil, learner = experiment.pupil, experiment.learner
    adapters = jax.device_get(outcome.state.params)
    save_adapters(
        Workdir(folder.file(ADAPTER)),
        adapters,
        learner.lora,
        pupil.language.name,
        PREFIXES[pupil.llava is not None],
    )
    metrics, report = _results(folder, experiment.num_steps)
    summary = _summary(experiment, outcome, metrics, wall_seconds, command)
    folder.write_json("summary.json", summary)
    folder.write_text("report.md", _heading(summary) + report)
    folder.mark_done()


def _results(folder: Workdir, steps: int) -> tuple[dict[str, float], str]:
    """Metrics and tables from the records of the first and the last evaluation."""
    tuned, untuned = _records(folder, steps), _records(folder, 0)
    metrics = score(tuned) | compare(tuned, untuned)
    metrics |= {
        name.replace("heldout/", "untuned/"): value
        for name, value in score(untuned).items()
        if name == "heldout/nll" or name.startswith("heldout/accuracy")
    }
    return metrics, "\n".join(map(markdown, tables(tuned, untuned)))


def _records(folder: Workdir, step: int) -> list[Record]:
    records = read_records(folder, step)
    if not records or "prediction" not in records[0]:
        raise UserError(
            f"{folder.file(record_name(step))} holds no written answers; delete it and start the "
            "run's command again."
        )
    return records


def _heading(summary: dict[str, Any]) -> str:
    world = " (a built-in world: not comparable with published values)" if summary["world"] else ""
    facts = [
        ("data set", f"{summary['dataset']}{world}, fingerprint {summary['fingerprint'][:12]}"),
        ("model", f"{summary['model']['spec']}, digest {summary['model']['digest'][:12]}"),
        ("trained", f"{summary['steps']:,} updates, {summary['parameters']:,} parameters"),
        ("seeds", f"{summary['seed']}, data {summary['data_seed']}"),
        ("errors", f"± is the standard error, [ ] the 95 % interval over {summary['cluster']}s"),
    ]
    lines = [f"## {summary['name']}", "", *(f"- {name}: {value}" for name, value in facts)]
    return "\n".join(lines) + "\n\n"


def _summary(
    experiment: Experiment,
    outcome: Result,
    metrics: dict[str, float],
    wall_seconds: float,
    command: str,
) -> dict[str, Any]:
    """The contents of summary.json."""
    config, info = experiment.config, experiment.dataset.info
    language = experiment.pupil.language
    return {
        "name": config.name,
        "kind": config.kind,
        "benchmark": "cobsat",
        "dataset": info["name"],
        "fingerprint": info["fingerprint"],
        "world": info["world"],
        "model": {
            "spec": config.model.spec,
            "name": language.name,
            "digest": language.digest,
            "tokenizer": language.tokenizer.digest,
            "dtype": config.model.dtype,
        },
        "seed": config.seed,
        "data_seed": config.data_seed,
        "steps": experiment.num_steps,
        "examples": len(experiment.examples.train),
        "heldout": len(experiment.examples.heldout),
        "cluster": "(query, latent) cell",
        "metrics": metrics,
        "parameters": parameter_count(outcome.state.params),
        "padded": experiment.shape._asdict(),
        "wall_seconds": round(wall_seconds, 3),
        "timing": outcome.timing,
        "device": provenance.device(),
        "versions": provenance.versions(),
        "git": provenance.git_state(),
        "command": command,
        "parent": None,
        "licences": list(info["licences"]),
        "config": identity(config, info),
    }
