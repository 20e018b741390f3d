"""Several seeds of one run, trained side by side in one program (`config.num_seeds`).

    DIR/seeds.json  seeds.md  checkpoints/  s0/  s1/  ...

DIR/s0 is the workdir of the run with seed 0, complete once the run is finished: records, metrics,
last checkpoint, summary.json, report.md. It is the same run as one that was trained alone, to
rounding; reports read it like any other. DIR/checkpoints holds all seeds together, to go on from.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from mmgen.core.checkpoint import Checkpointer
from mmgen.core.loop import CHECKPOINTS, saved_control, train
from mmgen.core.mesh import Mesh, make_mesh, param_shardings
from mmgen.core.progress import Progress
from mmgen.core.rng import stream_key
from mmgen.core.run_spec import Result, RunSpec
from mmgen.core.seed_writer import SeedWriter
from mmgen.core.seeds import seed_mark
from mmgen.core.state import TrainState
from mmgen.core.workdir import Workdir
from mmgen.core.writers import make_writer
from mmgen.data.tables import Tables
from mmgen.errors import UserError
from mmgen.evaluation.context import Context, write_context
from mmgen.evaluation.scores import score_run
from mmgen.experiment import Experiment, build, prepare
from mmgen.lifecycle import claim_seeds, seed_configs
from mmgen.memory.plan import join_plans
from mmgen.report.run_table import run_report
from mmgen.report.seeds import SEEDS_TABLE, write_seeds
from mmgen.run import (
    is_missing,
    make_evaluator,
    run_context,
    run_facts,
    run_spec,
    summary,
    train_tables,
)
from mmgen.settings.identity import default_workdir, identity, operational
from mmgen.settings.resolve import resolve

PyTree = Any
SHOWN = ("log_ppl", "bleu1", "bleu2", "best", "seen98")


class Single(NamedTuple):
    """One of the seeds: its parts, its workdir, and its evaluation as if it ran alone."""

    experiment: Experiment
    folder: Workdir
    evaluate: Callable[[PyTree, int, bool], dict[str, float]]


def run_seeds(config: ConfigDict, workdir: str, command: str) -> int:
    """Trains, or finishes, `config.num_seeds` seeds from `config.seed` on, and prints their table.

    Raises:
      UserError: as a single run; besides, for what seeds cannot do side by side.
    """
    experiments = _prepare_each(config)
    first = experiments[0]
    single = default_workdir(first.config, first.dataset.info)
    folder = Workdir(workdir or f"{single}-x{len(experiments)}")
    main_process = jax.process_index() == 0
    with folder.lock(), contextlib.ExitStack() as stack:
        owns = [folder.file(f"s{experiment.config.seed}") for experiment in experiments]
        folders = [Workdir(own) for own in owns]
        claim_seeds(folder, [experiment.config.seed for experiment in experiments])
        for own, experiment in zip(folders, experiments, strict=True):
            stack.enter_context(own.lock())
            keys = identity(experiment.config, experiment.dataset.info)
            own.claim(keys, operational(experiment.config))
        finished = all(own.is_done for own in folders)
        stopped = not finished and _train(experiments, folder, folders, command)
        if main_process and stopped:
            print(f"Stopped as asked; the same command continues: {folder.root}")
        elif main_process:
            print(folder.file(SEEDS_TABLE).read_text())
            print(f"Results: {folder.root}")
    return 0


def _prepare_each(config: ConfigDict) -> list[Experiment]:
    """The experiment of every seed, on the same data."""
    configs = seed_configs(config)
    for one in configs:
        # The padded shape of a batch depends on what is replayed, hence on the seed, and dropout
        # on the shape: with one shape every seed is the run that it would be alone.
        if one.buckets.max is None and one.buckets.text is None:
            with one.unlocked():
                one.buckets.max = 1
    if config.init_from:
        raise UserError(
            "config.num_seeds trains seeds from their own first weights; leave config.init_from "
            "out, or run the seeds one by one."
        )
    first = prepare(configs[0])
    dataset = first.dataset
    others = [build(resolve(one, dataset.info), dataset) for one in configs[1:]]
    if first.draw is not None:
        raise UserError(
            f"config.memory.policy={first.config.memory.policy!r} draws from each seed's own "
            "memory during training, which seeds side by side cannot; run them one by one."
        )
    if len(first.buckets) > 1:
        raise UserError(
            f"config.num_seeds needs one padded shape of batches, not {len(first.buckets)}; set "
            "config.buckets.max=1, or give one text length and one object count."
        )
    return [first, *others]


def _train(
    experiments: Sequence[Experiment], folder: Workdir, folders: Sequence[Workdir], command: str
) -> bool:
    """Trains to the end and writes everything; True if it was stopped before."""
    start = time.perf_counter()
    first = experiments[0]
    config = first.config
    mesh = make_mesh(**config.mesh.to_dict())
    context = run_context(first)
    tables = train_tables(first, mesh)
    singles = [
        Single(experiment, own, make_evaluator(experiment, own, mesh, context, tables))
        for experiment, own in zip(experiments, folders, strict=True)
    ]
    if jax.process_index() == 0:
        for own in folders:
            write_context(own.root, context)
    writer = SeedWriter([make_writer(own, console=own is folders[0]) for own in folders])
    progress = Progress(
        first.num_steps,
        examples_per_step=config.batch_size * len(singles),
        capacity=config.memory.capacity,
        enabled=config.logging.progress,
    )
    take = _taker(first, mesh)
    spec = _joint_spec(singles, mesh, context, tables, take)
    result = train(spec, folder, mesh, writer, progress)
    writer.close()
    if result.stopped:
        return True
    for index, single in enumerate(singles):
        _save_last(single, take(result.state, index), first.num_steps)
    if jax.process_index() == 0:
        wall = result.timing["earlier_seconds"] + time.perf_counter() - start
        _write_results(singles, folder, context, result, wall, command)
    return False


def _joint_spec(
    singles: Sequence[Single],
    mesh: Mesh,
    context: Context,
    tables: Tables | None,
    take: Callable[[PyTree, int], PyTree],
) -> RunSpec:
    """The spec of all seeds together."""
    first = singles[0].experiment
    plans = [single.experiment.plan for single in singles if single.experiment.plan is not None]
    draws = first.algorithm.draws * len(singles)
    joint = first._replace(
        plan=join_plans(plans) if plans else None,
        algorithm=first.algorithm._replace(draws=draws, picks=first.algorithm.picks * len(singles)),
    )
    spec = run_spec(joint, singles[0].folder, mesh, context, tables)

    def evaluate(params: PyTree, step: int, final: bool) -> dict[str, float]:
        return {
            f"{seed_mark(index)}{name}": value
            for index, single in enumerate(singles)
            for name, value in single.evaluate(take(params, index), step, final).items()
        }

    def memory_at(step: int) -> PyTree:
        states = [single.experiment.memory_at(step) for single in singles]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    return spec._replace(
        seed=tuple(single.experiment.config.seed for single in singles),
        evaluate=evaluate,
        examples_per_step=spec.examples_per_step * len(singles),
        memory_at=memory_at if plans else None,
        is_missing=lambda step, final: any(
            is_missing(single.experiment, single.folder, step, final) for single in singles
        ),
        facts={**spec.facts, "seeds": len(singles)},
    )


def _taker(experiment: Experiment, mesh: Mesh) -> Callable[[PyTree, int], PyTree]:
    """`(state or parameters of all seeds, index) -> those of one`, where a single run has them."""
    shapes = jax.eval_shape(experiment.init, stream_key(0, "init"))

    def taker(one: PyTree) -> Callable[[PyTree, int], PyTree]:
        return jax.jit(
            lambda tree, index: jax.tree.map(lambda leaf: leaf[index], tree),
            out_shardings=param_shardings(one, mesh),
        )

    whole, params = taker(shapes), taker(shapes.params)

    def take(tree: PyTree, index: int) -> PyTree:
        return whole(tree, index) if isinstance(tree, TrainState) else params(tree, index)

    return take


def _save_last(single: Single, state: PyTree, step: int) -> None:
    """The last state of a seed as the checkpoint of its own run, for predictions and more."""
    config = single.experiment.config
    checkpoints = Checkpointer(single.folder.file(CHECKPOINTS), config.checkpoint.keep)
    if step not in checkpoints.steps:
        checkpoints.save(step, state, saved_control(step, {}), run_facts(config))
    checkpoints.close()


def _write_results(
    singles: Sequence[Single],
    folder: Workdir,
    context: Context,
    result: Result,
    wall: float,
    command: str,
) -> None:
    """Summary and report of every seed, then what they say together."""
    summaries = []
    for single in singles:
        own = single.folder
        scores = score_run(own.root, context)
        told = summary(single.experiment, own, scores, result.timing, wall, command)
        # The wall time is that of all of them.
        summaries.append(told | {"side_by_side": len(singles)})
        own.write_json("summary.json", summaries[-1])
        own.write_text("report.md", run_report(own.root))
    write_seeds(folder, summaries, SHOWN)
    for single in singles:
        single.folder.mark_done()
