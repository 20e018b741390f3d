"""One CompAct run from config to report: train, choose by validation, evaluate, write.

The checkpoint that is best on validation is kept beside the newest ones; the final evaluation, and
with it every score of the summary, is its. The test split is read only then, or for curves (Fig. 9)
that nothing looks at.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
from etils import epath
from ml_collections import ConfigDict

from mmgen.compact.context import make_context
from mmgen.compact.evaluation import predict_split
from mmgen.compact.experiment import CompactExperiment, build, prepare
from mmgen.compact.judging import Judge
from mmgen.compact.locate import locate_compact
from mmgen.compact.records import CURVE
from mmgen.compact.report import run_report
from mmgen.compact.scores import score_records, score_run
from mmgen.core.broadcast import from_first_process
from mmgen.core.checkpoint import Checkpointer, Restored
from mmgen.core.loop import CHECKPOINTS, RunSpec, train
from mmgen.core.mesh import Mesh, make_mesh
from mmgen.core.progress import Progress
from mmgen.core.rng import stream_key
from mmgen.core.run_spec import Result
from mmgen.core.state import parameter_count
from mmgen.core.workdir import Workdir
from mmgen.core.writers import make_writer
from mmgen.data.compact.batches import Inputs
from mmgen.errors import UserError
from mmgen.evaluation.context import Context, write_context
from mmgen.evaluation.predictions import record_path, saved_evaluations, write_records
from mmgen.lifecycle import common_summary, open_recorded, placed_state, run_once
from mmgen.settings.compact import has_published_size
from mmgen.settings.identity import default_workdir

PyTree = Any


def run(config: ConfigDict, workdir: str = "", command: str = "") -> int:
    """Trains, or finishes, the run or the runs that `config` describes, and prints their tables.

    Args:
      config: recorded choices, not yet resolved.
      workdir: where results go; by default a folder that the identity of the run names.
      command: the command line, for the record.

    Returns:
      The exit status: 0 for a finished run and for one that was asked to stop.
    """
    if config.num_seeds > 1:
        from mmgen.compact.seeds import run_seeds

        return run_seeds(config, workdir, command)
    experiment = prepare(config)
    config, info = experiment.config, experiment.dataset.info
    folder = Workdir(workdir or default_workdir(config, info))
    return run_once(folder, config, info, partial(_train, experiment, folder, command), run_report)


def _train(experiment: CompactExperiment, folder: Workdir, command: str) -> bool:
    """Trains to the end and writes summary and report; True if it was stopped before."""
    start = time.perf_counter()
    config = experiment.config
    mesh = make_mesh(**config.mesh.to_dict())
    context = run_context(experiment)
    if jax.process_index() == 0:
        write_context(folder.root, context)
    writer = make_writer(folder)
    progress = Progress(
        experiment.num_steps,
        examples_per_step=config.batch_size,
        enabled=config.logging.progress,
    )
    spec = run_spec(experiment, folder, mesh, context)
    outcome = train(spec, folder, mesh, writer, progress)
    writer.close()
    if outcome.stopped:
        return True
    best = best_checkpoint(experiment, folder, mesh)
    evaluate_finally(experiment, folder, mesh, best)
    if jax.process_index() == 0:
        facts = summary(experiment, folder, context, best.step, outcome)
        wall = outcome.timing["earlier_seconds"] + time.perf_counter() - start
        folder.write_json(
            "summary.json", common_summary(config, experiment.dataset.info, wall, command) | facts
        )
        folder.write_text("report.md", run_report(folder.root))
        folder.mark_done()
    return False


def run_spec(
    experiment: CompactExperiment, folder: Workdir, mesh: Mesh, context: Context
) -> RunSpec:
    """What the loop needs to know of an experiment."""
    config, steps = experiment.config, experiment.num_steps
    return RunSpec(
        num_steps=steps,
        seed=config.seed,
        init=experiment.init,
        step=experiment.algorithm.step,
        feeds=experiment.feeds(mesh),
        feed_rows=(config.batch_size,),
        eval_steps=experiment.eval_steps,
        evaluate=make_evaluator(experiment, folder, mesh, context),
        save_every=config.checkpoint.every or max(experiment.steps_per_epoch, steps // 20),
        log_every=config.logging.every or max(1, steps // 200),
        examples_per_step=config.batch_size,
        keep=config.checkpoint.keep,
        control=experiment.control(),
        best=(config.control.metric, "max"),
        is_missing=lambda step, final: (
            not all(
                record_path(folder.root, name + CURVE, step).exists()
                for name in config.evaluation.curves
            )
        ),
        facts={"deterministic": config.deterministic},
    )


def make_evaluator(
    experiment: CompactExperiment, folder: Workdir, mesh: Mesh, context: Context
) -> Callable[[PyTree, int, bool], dict[str, float]]:
    """`(params, step, final) -> metrics` of validation, and of the splits whose curve is asked for.

    Only the latter leave records, and nothing but validation steers: see `settings.compact`.
    """
    curves = experiment.config.evaluation.curves
    judge = Judge(context)

    def evaluate(params: PyTree, step: int, final: bool) -> dict[str, float]:
        del final
        metrics: dict[str, float] = {}
        for split in dict.fromkeys(("validation", *curves)):
            records = predict_split(experiment, params, mesh, split)
            if jax.process_index() == 0:
                if split in curves:
                    write_records(record_path(folder.root, split + CURVE, step), records)
                metrics |= score_records(records, context, split, final=False, judge=judge)
        return metrics

    return evaluate


def best_checkpoint(experiment: CompactExperiment, folder: Workdir, mesh: Mesh) -> Restored:
    """The checkpoint that was best on validation.

    Raises:
      UserError: there is none, or it cannot be read.
    """
    config = experiment.config
    placed = placed_state(experiment.init, config.seed, mesh)
    best = (config.control.metric, "max")
    checkpoints = Checkpointer(folder.file(CHECKPOINTS), config.checkpoint.keep, best)
    try:
        step = from_first_process(checkpoints.best_step)
        if step is None:
            raise UserError(f"{folder.root} holds no evaluated checkpoint; train first.")
        return checkpoints.restore(step, placed)
    finally:
        checkpoints.close()


def evaluate_finally(
    experiment: CompactExperiment, folder: Workdir, mesh: Mesh, best: Restored
) -> None:
    """Writes the records of the final evaluation, in place of any earlier one."""
    for split in experiment.config.evaluation.splits:
        records = predict_split(experiment, best.state.params, mesh, split)
        if jax.process_index() != 0:
            continue
        path = record_path(folder.root, split, best.step)
        write_records(path, records)
        for step in saved_evaluations(folder.root)[split]:
            if step != best.step:
                record_path(folder.root, split, step).unlink()


def run_context(experiment: CompactExperiment) -> Context:
    """Facts about the data that the scores need besides the records."""
    config = experiment.config
    splits = dict.fromkeys((*config.evaluation.splits, "validation", *config.evaluation.curves))
    encoder = None
    if config.bertscore.folder:
        from mmgen.metrics.bertscore import encoder_facts

        encoder = encoder_facts(**config.bertscore.to_dict())
    return make_context(
        experiment.dataset, task=config.task, splits=list(splits), bertscore=encoder
    )


def summary(
    experiment: CompactExperiment,
    folder: Workdir,
    context: Context,
    best_step: int,
    outcome: Result,
) -> dict[str, Any]:
    """What summary.json says besides what every run says."""
    config, step = experiment.config, int(outcome.state.step)
    shapes = jax.eval_shape(experiment.init, stream_key(0, "init"))
    return {
        "kind": config.kind,
        "task": config.task,
        "model": {
            "inputs": list(config.model.inputs),
            "language": config.model.language,
            "fusion": config.model.fusion,
        },
        "split": {
            key: experiment.dataset.info["settings"].get(key)
            for key in ("split", "target_dc", "validation")
        },
        "steps": step,
        "epochs": step / experiment.steps_per_epoch,
        "stopped_early": step < experiment.num_steps,
        "best_step": best_step,
        "best_epoch": best_step / experiment.steps_per_epoch,
        "metrics": score_run(folder.root, context),
        "parameters": parameter_count(shapes.params),
        "small": not has_published_size(config.model),
        **words_and_labels(experiment.inputs),
        "present": {
            name: split.present() for name, split in experiment.splits.items() if split.present()
        },
        "timing": outcome.timing,
        "parent": None,
    }


def words_and_labels(inputs: Inputs) -> dict[str, dict[str, Any] | None]:
    """Number and fingerprint of the words that are read and written, and of a classifier's labels.

    They follow from train and from the code that splits texts into words.
    """
    return {
        name: None if rows is None else {"rows": len(rows), "fingerprint": rows.fingerprint}
        for name, rows in (("vocabulary", inputs.vocabulary), ("labels", inputs.labels))
    }


class LoadedRun(NamedTuple):
    """A run that was trained before, ready to predict with its best checkpoint.

    Attributes:
      experiment: its parts.
      mesh: the devices its parameters lie on.
      best: the checkpoint.
    """

    experiment: CompactExperiment
    mesh: Mesh
    best: Restored


def load_run(workdir: epath.PathLike) -> LoadedRun:
    """Opens the best checkpoint of a run, on whatever devices there are now.

    Raises:
      UserError: no run, no checkpoint, or its data set is another one by now.
    """
    folder = Workdir(workdir)
    config, dataset = open_recorded(folder, locate_compact)
    experiment = build(config, dataset)
    mesh = make_mesh()
    return LoadedRun(experiment, mesh, best_checkpoint(experiment, folder, mesh))
