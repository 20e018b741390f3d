"""Does the accelerator compute what the CPU computes? Small checks, each recorded by itself.

Without pytest: the check is to run where nothing is installed. Losses and parameters are compared
in float32 with full-precision products; rows, slots and random bits must be equal.
"""

import concurrent.futures
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mmgen.algorithms.base import loss_and_grad
from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.subjects import Subject
from mmgen.benchmark.workload import COCO_MAX_SPAN, FEATURE_DIM, host_store, make_workload
from mmgen.core.compiled_step import keyed_step
from mmgen.core.mesh import make_mesh, put_replicated
from mmgen.core.resident import put_data
from mmgen.core.rng import stream_key
from mmgen.data.assemble import assemble
from mmgen.data.buckets import Bucket
from mmgen.data.tables import build_tables, gather_batch
from mmgen.memory.plan import draw_slots, memory_at
from mmgen.models.dropout import Noise, random_bytes

STEPS = 5
LOSS_TOLERANCE = 1e-4
"""Relative, after `STEPS` iterations."""
ROUNDING = 0.02
"""Relative difference of a loss in bfloat16, and of its gradient's norm."""
BUCKET = Bucket(text=24, objects=16)

Check = Callable[[], dict[str, Any]]


def numerics(record: Record, scale: Scale) -> None:
    """Runs all checks side by side; the record's list `checks` holds what each has found."""
    began = time.perf_counter()
    checks: dict[str, Check] = {
        "gathered batches equal assembled ones": check_gather,
        "memory and draws equal the plan": check_memory,
        "dropout bits equal the CPU's": check_dropout_bits,
        "bfloat16 is near float32": check_bfloat16,
        "chunks equal single iterations": check_chunk,
    }
    for model, algorithm in (
        ("vlbert", "plain"),
        ("vlbert", "er"),
        ("vlbert", "agem"),
        ("vlbert", "mir"),
        ("lxmert", "er"),
    ):
        name = f"{algorithm} {model} equals the CPU's over {STEPS} iterations"
        checks[name] = functools.partial(check_steps, model, algorithm)
    with concurrent.futures.ThreadPoolExecutor(scale.threads) as pool:
        futures = {pool.submit(_guarded, check): name for name, check in checks.items()}
        for future in concurrent.futures.as_completed(futures):
            record.append("checks", {"name": futures[future], **future.result()})
    record.add(check_seconds=time.perf_counter() - began)


def determinism(record: Record, scale: Scale) -> None:
    """Two runs of the same iterations, bit for bit; whether they must agree is in XLA_FLAGS."""
    del scale
    subject = _subject("vlbert", "er", dropout=0.1)
    first, second = (_chunk_run(subject, 4 * STEPS) for _ in range(2))
    equal = all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    )
    record.add(bit_equal=equal)


def _guarded(check: Check) -> dict[str, Any]:
    try:
        # The context is the thread's own.
        with jax.default_matmul_precision("highest"):
            return check()
    except Exception as error:
        return {"passed": False, "error": f"{type(error).__name__}: {error}"[:500]}


def _cpu() -> Any:
    return jax.default_device(jax.local_devices(backend="cpu")[0])


def _subject(model: str, algorithm: str, dtype: str = "float32", dropout: float = 0.1) -> Subject:
    workload = make_workload(
        60, 400, feature_dim=32, pieces=80, word_rows=100, longest=21, most_objects=16
    )
    return Scale(size="smoke", dtype=dtype, dropout=dropout, batch_size=8, capacity=64).subject(
        workload, model=model, algorithm=algorithm, buckets=(BUCKET,), store=host_store(workload)
    )


def check_gather() -> dict[str, Any]:
    """`tables.gather_batch` on the accelerator against `assemble.assemble`, every field."""
    workload = make_workload(60, 400, feature_dim=FEATURE_DIM)
    store, rows = host_store(workload), np.array([*range(0, 390, 13), -1, 399], np.int32)
    shape = Bucket(text=30, objects=20)
    common: dict[str, Any] = {"vocabulary": workload.vocabulary, "max_span": COCO_MAX_SPAN}
    gather = jax.jit(functools.partial(gather_batch, bucket=shape, **common))
    device = gather(build_tables(workload.split, store, feature_dim=FEATURE_DIM), rows)
    host = assemble(
        workload.split, store, rows=rows, bucket=shape, feature_dim=FEATURE_DIM, **common
    )
    wrong = [name for name in host if not np.array_equal(host[name], device[name])]
    return {"passed": not wrong, "wrong": wrong}


def check_memory() -> dict[str, Any]:
    """Inserts and draws made on the accelerator against the plan, which the CPU has made."""
    subject = _subject("vlbert", "er")
    memory, plan = subject.memory, subject.plan
    assert memory is not None and plan is not None
    rows = subject.feeds.stream_rows

    @jax.jit
    def run(rows: Any, slots: Any) -> Any:
        def iteration(state: Any, inputs: Any) -> Any:
            step, rows, slots = inputs
            (drawn,) = draw_slots(memory, state, 0, step, subject.algorithm.draws)
            return memory.insert(state, rows, rows >= 0, slots, ()), drawn

        return jax.lax.scan(iteration, memory.init(), (jnp.arange(len(rows)), rows, slots))

    state, drawn = run(rows, plan.insert_slot)
    expected = memory_at(plan, memory, rows, len(rows))
    return {
        "passed": np.array_equal(state.ids, expected.ids)
        and np.array_equal(drawn, plan.replay_slot),
        "iterations": len(rows),
    }


def check_dropout_bits() -> dict[str, Any]:
    """Random bytes of the accelerator against the CPU's."""

    def draw() -> np.ndarray:
        key = jax.random.key_data(stream_key(3, "step", 5))
        return np.asarray(jax.jit(lambda key: random_bytes(Noise(key, 7), (64, 77, 384)))(key))

    ours = draw()
    with _cpu():
        return {"passed": np.array_equal(ours, draw())}


def check_bfloat16() -> dict[str, Any]:
    """Loss and gradient of one batch in bfloat16 against float32, dropout off."""
    found = {}
    for dtype in ("float32", "bfloat16"):
        subject = _subject("vlbert", "plain", dtype=dtype, dropout=0.0)
        params = _initial(subject).params
        loss, _, grads, _ = jax.jit(functools.partial(loss_and_grad, subject.task))(
            params, subject.feeds[0].stream, stream_key(0, "step")
        )
        found[dtype] = float(loss), jnp.concatenate([g.ravel() for g in jax.tree.leaves(grads)])
    (exact, gradient), (rounded, other) = found["float32"], found["bfloat16"]
    differences = {
        "loss": abs(rounded - exact) / exact,
        "gradient": float(jnp.linalg.norm(other - gradient) / jnp.linalg.norm(gradient)),
    }
    return {
        "passed": differences["loss"] < ROUNDING and differences["gradient"] < 5 * ROUNDING,
        **differences,
    }


def check_chunk() -> dict[str, Any]:
    """Iterations of one dispatch against one dispatch per iteration, both on the accelerator."""
    subject = _subject("vlbert", "er")
    return _compare(_chunk_run(subject, STEPS), _host_run(subject, STEPS))


def check_steps(model: str, algorithm: str) -> dict[str, Any]:
    """Iterations on the accelerator against the same ones on the CPU, dropout on."""
    subject = _subject(model, algorithm)
    ours = _host_run(subject, STEPS)
    with _cpu():
        return _compare(ours, _host_run(subject, STEPS))


def _initial(subject: Subject) -> Any:
    """The state before the first iteration, the same wherever it goes."""
    with _cpu():
        return jax.device_get(jax.jit(subject.init)(stream_key(0, "init")))


def _host_run(subject: Subject, steps: int) -> Any:
    step = jax.jit(keyed_step(subject.algorithm.step))
    state, losses = _initial(subject), []
    for number in range(steps):
        state, scalars = step(state, subject.feeds[number], np.uint32(0))
        losses.append(scalars["loss"])
    return jax.device_get((state, np.stack(losses)))


def _chunk_run(subject: Subject, steps: int) -> Any:
    mesh = make_mesh()
    chunk = subject.chunk(mesh)
    tables = build_tables(
        subject.workload.split,
        host_store(subject.workload),
        feature_dim=subject.workload.feature_dim,
    )
    state = jax.device_put(_initial(subject), subject.shardings(mesh))
    seed = put_replicated(np.uint32(0), mesh)
    state, values = chunk.call(state, put_data(subject.data(tables), mesh), seed, steps)
    loss = chunk.traces[-1].names.index("loss")
    return jax.device_get((state, values[:, loss]))


def _compare(ours: Any, theirs: Any) -> dict[str, Any]:
    """Losses by their relative difference, memory exactly, parameters by the largest difference."""
    loss = float(np.max(np.abs(ours[1] - theirs[1]) / np.abs(theirs[1])))
    pairs = zip(*(jax.tree.leaves(run[0].params) for run in (ours, theirs)), strict=True)
    parameter = max(float(np.max(np.abs(a - b))) for a, b in pairs)
    memory = all(
        np.array_equal(a, b)
        for a, b in zip(*(jax.tree.leaves(run[0].memory) for run in (ours, theirs)), strict=True)
    )
    return {
        "passed": loss < LOSS_TOLERANCE and memory,
        "loss_difference": loss,
        "parameter_difference": parameter,
        "memory_equal": memory,
    }
