"""One run from config to report: prepare, train, evaluate, write what a reader needs."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from etils import epath
from ml_collections import ConfigDict

from mmgen.core.checkpoint import Checkpointer
from mmgen.core.loop import CHECKPOINTS, RunSpec, train
from mmgen.core.mesh import Mesh, make_mesh
from mmgen.core.progress import Progress
from mmgen.core.rng import stream_key
from mmgen.core.state import parameter_count
from mmgen.core.workdir import CONFIG, Workdir
from mmgen.core.writers import make_writer
from mmgen.data.columns import Dataset
from mmgen.data.locate import locate
from mmgen.data.run_data import feature_dim, max_span, seen_split, shifting_stream, split_buckets
from mmgen.data.tables import Tables
from mmgen.errors import UserError
from mmgen.evaluation.context import Context, make_context, write_context
from mmgen.evaluation.predictions import Record, RecordWriter, as_table, read_records, record_path
from mmgen.evaluation.run import evaluate_split
from mmgen.evaluation.schedule import stratified_subset
from mmgen.evaluation.scores import SUBSET, score_run, score_split
from mmgen.experiment import Experiment, build, prepare
from mmgen.lifecycle import common_summary, open_recorded, placed_state, run_once
from mmgen.report.run_table import run_report
from mmgen.settings.identity import default_workdir
from mmgen.tasks.base import Task
from mmgen.trained import PARENT, begin_from_parent, check_parent


def run(config: ConfigDict, workdir: str = "", command: str = "") -> int:
    """Trains, or finishes, the run that `config` describes and prints its table.

    Args:
      config: recorded choices, not yet resolved.
      workdir: where results go; by default a folder that the identity of the run names.
      command: the command line, for the record.

    Returns:
      The exit status: 0 for a finished run and for one that was asked to stop.
    """
    if config.num_seeds > 1:
        from mmgen.seeds import run_seeds

        return run_seeds(config, workdir, command)
    experiment = prepare(config)
    config, info = experiment.config, experiment.dataset.info
    folder = Workdir(workdir or default_workdir(config, info))
    with folder.lock():
        if config.init_from and not folder.file(CONFIG).exists():
            check_parent(experiment)
        training = functools.partial(_train, experiment, folder, command)
        return run_once(folder, config, info, training, run_report)


def _train(experiment: Experiment, folder: Workdir, command: str) -> bool:
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
        capacity=config.memory.capacity,
        enabled=config.logging.progress,
    )
    spec = run_spec(experiment, folder, mesh, context, train_tables(experiment, mesh))
    outcome = train(spec, folder, mesh, writer, progress)
    writer.close()
    if outcome.stopped:
        return True
    if jax.process_index() == 0:
        scores = score_run(folder.root, context)
        wall = outcome.timing["earlier_seconds"] + time.perf_counter() - start
        folder.write_json(
            "summary.json", summary(experiment, folder, scores, outcome.timing, wall, command)
        )
        folder.write_text("report.md", run_report(folder.root))
        folder.mark_done()
    return False


class LoadedRun(NamedTuple):
    """A run that was trained before, ready to predict.

    Attributes:
      experiment: its parts.
      mesh: the devices its parameters lie on.
      params: parameters of the newest checkpoint.
      step: its iteration.
      evaluate: `(params, step, final) -> metrics`; writes the records into the workdir.
    """

    experiment: Experiment
    mesh: Mesh
    params: Any
    step: int
    evaluate: Callable[[Any, int, bool], dict[str, float]]


def load_run(workdir: str | epath.Path) -> LoadedRun:
    """Opens the newest checkpoint of a run, on whatever devices there are now.

    Raises:
      UserError: no run, no checkpoint, or its data set is another one by now.
    """
    folder = Workdir(workdir)
    config, dataset = open_recorded(folder, locate)
    experiment = build(config, dataset)
    mesh = make_mesh()
    placed = placed_state(experiment.init, config.seed, mesh)
    restored = Checkpointer(folder.file(CHECKPOINTS)).restore_latest(placed)
    if restored is None:
        raise UserError(f"{folder.root} holds no checkpoint; train first.")
    evaluate = make_evaluator(experiment, folder, mesh, run_context(experiment))
    return LoadedRun(experiment, mesh, restored.state.params, restored.step, evaluate)


def train_tables(experiment: Experiment, mesh: Mesh) -> Tables | None:
    """The train split in device memory; None for residency "host"."""
    if experiment.config.residency != "device":
        return None
    return experiment.tables("train", mesh)


def run_spec(
    experiment: Experiment,
    folder: Workdir,
    mesh: Mesh,
    context: Context,
    tables: Tables | None,
) -> RunSpec:
    """What the loop needs to know of an experiment; `tables` are its `train_tables`."""
    config = experiment.config
    steps = experiment.num_steps
    feeds = experiment.feeds(mesh)
    return RunSpec(
        num_steps=steps,
        seed=config.seed,
        init=experiment.init,
        step=experiment.algorithm.step,
        feeds=feeds,
        feed_rows=(config.batch_size, *experiment.algorithm.draws),
        eval_steps=experiment.eval_steps,
        evaluate=make_evaluator(experiment, folder, mesh, context, tables),
        save_every=config.checkpoint.every or max(1, steps // 10),
        log_every=config.logging.every or max(1, steps // 50),
        examples_per_step=config.batch_size,
        memory_at=experiment.memory_at if experiment.plan is not None else None,
        keep=config.checkpoint.keep,
        begin=begin_from_parent(experiment, folder) if config.init_from else None,
        resident=None if tables is None else experiment.resident(feeds, tables),
        draw=experiment.draw,
        is_missing=functools.partial(is_missing, experiment, folder),
        facts=run_facts(config) | ({"packing": True} if feeds.packs else {}),
    )


def run_facts(config: ConfigDict) -> dict[str, Any]:
    """`RunSpec.facts` of a run."""
    return {"residency": config.residency, "deterministic": config.deterministic}


def is_missing(experiment: Experiment, folder: Workdir, step: int, final: bool) -> bool:
    """Are the records of that evaluation gone?"""
    return not all(path.exists() for path in _record_paths(experiment, folder, step, final))


def run_context(experiment: Experiment) -> Context:
    """Facts about data and stream that the scores need besides the records."""
    config, dataset = experiment.config, experiment.dataset
    shifts = config.stream.kind == "shift"
    return make_context(
        dataset,
        experiment.stream_rows,
        batch_size=config.batch_size,
        steps=experiment.eval_steps,
        schedule=config.evaluation.schedule,
        min_task_items=config.evaluation.min_task_items,
        splits=evaluated_splits(experiment),
        reference_rows=None if shifts else shifting_stream(config, dataset),
        metrics=config.metrics,
    )


def evaluated_splits(experiment: Experiment) -> list[str]:
    """Splits of the final evaluation that the data set has (Flickr-shift has no novel one)."""
    wanted, available = experiment.config.evaluation.splits, experiment.dataset.info["splits"]
    found = [name for name in wanted if name in available]
    if not found:
        raise UserError(
            f"config.evaluation.splits is {wanted}, but the data set has only "
            f"{', '.join(available)}; name one of them."
        )
    return found


def predict_split(
    config: ConfigDict,
    dataset: Dataset,
    task: Task,
    params: Any,
    mesh: Mesh,
    split: str,
    rows: np.ndarray | None = None,
    tables: Tables | None = None,
) -> Iterator[list[Record]]:
    """Prediction records of a split, batch by batch, in the order of evaluation.

    Args:
      tables: of the split, in device memory; None assembles its batches on the host.
    """
    data = seen_split(config, dataset, split)
    return evaluate_split(
        task.predict,
        params,
        data,
        dataset.features,
        dataset.vocabulary,
        np.arange(len(data)) if rows is None else rows,
        batch_size=config.evaluation.batch_size,
        buckets=split_buckets(config, dataset, split, config.evaluation.batch_size),
        mesh=mesh,
        max_span=max_span(dataset),
        feature_dim=feature_dim(dataset),
        text_only=config.text_only,
        tables=tables,
    )


def _record_paths(experiment: Experiment, folder: Workdir, step: int, final: bool) -> list:
    """Record files of an evaluation: of the main split's subset, or of all splits at the end."""
    splits = evaluated_splits(experiment)
    splits = splits if final else [splits[0] + SUBSET]
    return [record_path(folder.root, split, step) for split in splits]


def make_evaluator(
    experiment: Experiment,
    folder: Workdir,
    mesh: Mesh,
    context: Context,
    tables: Tables | None = None,
) -> Callable[[Any, int, bool], dict[str, float]]:
    """`(params, step, final) -> metrics`, which also writes the records.

    Args:
      tables: see `train_tables`; the evaluated splits then lie in device memory, too.
    """
    config, dataset = experiment.config, experiment.dataset
    main = evaluated_splits(experiment)[0]
    subset = stratified_subset(
        np.asarray(dataset.split(main).columns["task"]),
        config.evaluation.subset,
        config.data_seed,
        config.evaluation.min_task_items,
    )

    @functools.cache
    def tables_of(split: str) -> Tables | None:
        return None if tables is None else experiment.tables(split, mesh, tables)

    def evaluate(params: Any, step: int, final: bool) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for path in _record_paths(experiment, folder, step, final):
            name = path.parent.name
            split = name if final else main
            with RecordWriter(path, write=jax.process_index() == 0) as records:
                rows = None if final else subset
                for batch in predict_split(
                    config,
                    dataset,
                    experiment.task,
                    params,
                    mesh,
                    split,
                    rows,
                    tables_of(split),
                ):
                    records.add(batch)
            if jax.process_index() == 0:
                table = as_table(read_records(path))
                metrics |= score_split(table, name, context, final=final)
        return metrics

    return evaluate


def summary(
    experiment: Experiment,
    folder: Workdir,
    scores: dict[str, float],
    timing: dict[str, float],
    wall_seconds: float,
    command: str,
) -> dict[str, Any]:
    """The contents of summary.json: every number with what it takes to read it rightly."""
    config, info = experiment.config, experiment.dataset.info
    shapes = jax.eval_shape(experiment.init, stream_key(0, "init"))
    examples = int((experiment.stream_rows >= 0).sum())
    return common_summary(config, info, wall_seconds, command) | {
        "steps": experiment.num_steps,
        "examples": examples,
        "metrics": scores,
        "parameters": parameter_count(shapes.params),
        "small": config.model.size != "paper",
        "memory": {
            "policy": config.memory.policy,
            "capacity": config.memory.capacity,
            "share": config.memory.capacity / examples,
        },
        "stream": experiment.stream_facts(),
        "timing": timing,
        "parent": folder.read_json(PARENT) if config.init_from else None,
    }
