"""A stage of the accelerator check: a tiny run through the training loop itself.

What the other stages time are steps alone. Here the loop makes them as a real run does, under its
guard against transfers nobody meant: with batches from the host, and from device memory, where the
second half goes on from the checkpoint of the first.
"""

import functools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.subjects import Subject
from mmgen.benchmark.suite import OnlyItems
from mmgen.benchmark.workload import host_store, make_workload
from mmgen.core.mesh import make_mesh, put_feed
from mmgen.data.buckets import Bucket
from mmgen.data.features import FeatureStore
from mmgen.data.tables import build_tables
from mmgen.memory.plan import memory_at

NEEDED = ("absl", "etils", "orbax")
"""Packages of checkpoints, which the other stages do without."""
BATCH, STEPS = 8, 200
TOLERANCE = 1e-3
"""Relative difference of the last losses: sums are taken in another order."""


def loop(record: Record, scale: Scale) -> None:
    """Trains, and records of each run where its time went, its last loss, and the differences.

    Where a package of checkpoints is not installed, `missing` says so, and nothing is run.
    """
    del scale
    try:
        from mmgen.core.loop import train
        from mmgen.core.run_spec import RunSpec
        from mmgen.core.workdir import Workdir
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in NEEDED:
            raise
        record.add(missing=f"not run, since {error.name} is not installed")
        return
    workload = make_workload(
        60, BATCH * STEPS, feature_dim=32, pieces=80, word_rows=100, longest=21, most_objects=16
    )
    store, mesh = host_store(workload), make_mesh()
    subject = Scale(size="smoke", dtype="float32", batch_size=BATCH, capacity=256).subject(
        workload, buckets=(Bucket(text=24, objects=16),), store=store
    )
    half = STEPS // 2
    spec = RunSpec(
        num_steps=STEPS,
        seed=0,
        init=subject.init,
        step=subject.algorithm.step,
        feeds=OnlyItems(subject.feeds),
        eval_steps=(half, STEPS),
        evaluate=_evaluator(subject, mesh),
        save_every=half,
        log_every=50,
        examples_per_step=BATCH,
        memory_at=functools.partial(_memory_at, subject),
    )
    resident = spec._replace(resident=subject.resident(_tables(subject, store)))
    states: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, jax.default_matmul_precision("highest"):
        for name, run, place in (
            ("host", spec, "host"),
            ("device, first half", resident._replace(num_steps=half), "device"),
            ("device, from its checkpoint", resident, "device"),
        ):
            result = train(run, Workdir(pathlib.Path(folder) / place), mesh)
            states[name] = result.state
            facts = {"name": name, **result.timing, **result.metrics}
            record.append("runs", {**facts, "steps": int(result.timing["steps"])})
    host, _, device = record.values["runs"]
    difference = abs(device["loss"] / host["loss"] - 1)
    memory = [jax.device_get(states[run["name"]].memory) for run in (host, device)]
    equal = all(map(np.array_equal, *map(jax.tree.leaves, memory)))
    record.add(
        difference=difference,
        memory_equal=equal,
        passed=bool(equal and difference < TOLERANCE and device["steps"] == STEPS - half),
    )


def _evaluator(subject: Subject, mesh: Any) -> Callable[[Any, int, bool], dict[str, float]]:
    """`RunSpec.evaluate`: the mean loss of the first stream batch."""
    batch = put_feed(subject.feeds[0], mesh).stream

    @jax.jit
    def mean(params: Any) -> Any:
        (total, count), _ = subject.task.loss(params, batch, None)
        return total / count

    return lambda params, step, final: {"loss": float(mean(params))}


def _memory_at(subject: Subject, step: int) -> Any:
    assert subject.plan is not None and subject.memory is not None
    return memory_at(subject.plan, subject.memory, subject.feeds.stream_rows, step)


def _tables(subject: Subject, store: FeatureStore) -> Any:
    workload = subject.workload
    return build_tables(workload.split, store, feature_dim=workload.feature_dim)
