"""A run small enough to be trained hundreds of times: linear regression with a replay memory.

It has everything that a real run has: noise from the step's key, momentum, a memory that inserts
and replays by a plan, evaluations that write files.
"""

import os
import pathlib
import signal
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mmgen.algorithms.base import Feed, apply_update
from mmgen.core.loop import train
from mmgen.core.mesh import local_rows, make_mesh
from mmgen.core.optim import make_optimizer
from mmgen.core.run_spec import Result, RunSpec
from mmgen.core.state import TrainState
from mmgen.core.workdir import Workdir
from mmgen.core.writers import make_writer, read_metrics
from mmgen.memory.base import MemoryState

STEPS = 20
BATCH = 8
CAPACITY = 48
WIDTH = 4

Hook = Callable[[str, int], None]
"""Called with ("feed" | "evaluate" | "step", number) whenever a run comes by there."""


def no_hook(place: str, number: int) -> None:
    """Let it pass."""


def kill_at(place: str, number: int) -> Hook:
    """End this process there, with no chance to clean up."""

    def hook(at: str, n: int) -> None:
        if (at, n) == (place, number):
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal may need a moment, in which nothing may happen

    return hook


class ToyFeeds:
    """Rows step * BATCH + i, the stream; and as many again that were in memory before."""

    def __init__(self, hook: Hook = no_hook, broken_step: int = -1, rows: np.ndarray | None = None):
        self.hook = hook
        self.broken_step = broken_step
        self.rows = np.arange(BATCH) if rows is None else rows

    def _batch(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        mask = ids >= 0
        ids = np.where(mask, ids, -1)
        x = np.stack([np.sin(np.arange(1, WIDTH + 1) * (i + 1)) for i in ids]).astype(np.float32)
        y = x @ np.arange(1, WIDTH + 1, dtype=np.float32)
        part = {"ids": ids.astype(np.int32), "mask": mask, "x": x, "y": y}
        return {name: value[self.rows] for name, value in part.items()}

    def __getitem__(self, step: int) -> Feed:
        self.hook("feed", step)
        ids = np.arange(step * BATCH, (step + 1) * BATCH)
        stream = self._batch(ids)
        if step == self.broken_step:
            stream["y"] = stream["y"] * np.inf
        slots = (ids % CAPACITY).astype(np.int32)
        return Feed(stream, (self._batch(ids - 2 * BATCH),), slots, (slots,))


def init(key: Any) -> TrainState:
    """The state before the first step."""
    params = {"dense": {"kernel": jax.random.normal(key, (WIDTH, 1)), "bias": jnp.zeros(1)}}
    memory = MemoryState(ids=jnp.full(CAPACITY, -1, jnp.int32), seen=jnp.zeros((), jnp.int32))
    opt_state = optimizer().init(params)
    return TrainState(jnp.zeros((), jnp.int32), params, opt_state, memory)


def optimizer(learning_rate: float = 0.05):
    """The release's Adam."""
    return make_optimizer("adam_release", learning_rate, eps=1e-4)


def step(state: TrainState, feed: Feed, key: Any) -> tuple[TrainState, dict[str, jax.Array]]:
    """An update on the stream, one on the replay, and the inserts."""
    params, opt_state = state.params, state.opt_state
    losses = []
    for batch, noise_key in zip((feed.stream, *feed.replay), jax.random.split(key), strict=True):

        def loss(params, batch=batch, noise_key=noise_key):
            noise = jax.random.bernoulli(noise_key, 0.9, batch["x"].shape)
            predicted = ((batch["x"] * noise) @ params["dense"]["kernel"])[:, 0]
            error = predicted + params["dense"]["bias"] - batch["y"]
            count = jnp.sum(batch["mask"], dtype=jnp.float32)
            return jnp.sum(jnp.where(batch["mask"], error**2, 0)) / jnp.maximum(count, 1), count

        (value, count), grads = jax.value_and_grad(loss, has_aux=True)(params)
        params, opt_state = apply_update(optimizer(), params, opt_state, grads, count)
        losses.append(value)
    memory = MemoryState(
        ids=state.memory.ids.at[feed.insert_slot].set(feed.stream["ids"]),
        seen=state.memory.seen + jnp.sum(feed.stream["mask"], dtype=jnp.int32),
    )
    state = state.replace(step=state.step + 1, params=params, opt_state=opt_state, memory=memory)
    return state, {"loss": losses[0], "replay_loss": losses[1]}


def memory_at(number: int) -> MemoryState:
    """What the memory holds after `number` steps."""
    ids = np.full(CAPACITY, -1, np.int32)
    for i in range(number * BATCH):
        ids[i % CAPACITY] = i
    return MemoryState(ids=ids, seen=np.int32(number * BATCH))


def evaluator(workdir: Workdir, hook: Hook = no_hook):
    """Writes the parameters as records."""

    def evaluate(params: Any, number: int, final: bool) -> dict[str, float]:
        host = jax.device_get(params)["dense"]
        values = [*host["kernel"][:, 0].tolist(), *host["bias"].tolist()]
        if jax.process_index() == 0:
            workdir.write_json(f"evals/{'all' if final else 'some'}/{number}.json", values)
        hook("evaluate", number)
        error = sum((v - want) ** 2 for v, want in zip(values, (1, 2, 3, 4, 0), strict=True))
        return {"test/error": error, "test/final": float(final)}

    return evaluate


def toy_spec(workdir: Workdir, hook: Hook = no_hook, **changes: Any) -> RunSpec:
    """Evaluates at 7, 14 and 20 and saves at multiples of 5."""
    spec = RunSpec(
        num_steps=STEPS,
        seed=3,
        init=init,
        step=step,
        feeds=ToyFeeds(hook),
        eval_steps=(7, 14, STEPS),
        evaluate=evaluator(workdir, hook),
        save_every=5,
        log_every=3,
        examples_per_step=BATCH,
        memory_at=memory_at,
        feed_rows=(BATCH, BATCH),
    )
    return spec._replace(**changes)


def toy_train(
    path: Any, hook: Hook = no_hook, sizes: tuple[int, int, int] = (0, 1, 1), **changes: Any
) -> Result:
    """Train the toy in `path` on a mesh of these sizes."""
    workdir = Workdir(path)
    mesh = make_mesh(*sizes)
    spec = toy_spec(workdir, hook, **changes)
    if jax.process_count() > 1:
        spec = spec._replace(feeds=ToyFeeds(hook, rows=local_rows(BATCH, mesh)))
    writer = make_writer(workdir, console=False)
    try:
        return train(spec, workdir, mesh, writer)
    finally:
        writer.close()


def traces(path: Any) -> dict[str, Any]:
    """Everything that a broken and an unbroken run must have in common, exactly."""
    workdir = Workdir(path)
    lines = [
        {key: value for key, value in line.items() if not key.startswith("time/")}
        for line in read_metrics(workdir)
    ]
    root = pathlib.Path(path)
    records = {str(p.relative_to(root)): p.read_text() for p in sorted(root.glob("evals/*/*"))}
    return {"metrics": lines, "records": records}


def host_state(result: Result) -> dict[str, np.ndarray]:
    """All arrays of the last state, by path."""
    return {
        jax.tree_util.keystr(path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(jax.device_get(result.state))
    }
