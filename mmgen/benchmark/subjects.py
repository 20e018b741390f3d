"""What is measured: a model and an algorithm on a synthetic stream, by name."""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, Key

from mmgen.algorithms.base import Algorithm, Feed
from mmgen.benchmark.flops import count_flops
from mmgen.benchmark.workload import COCO_MAX_SPAN, Workload, hollow_store
from mmgen.core.compiled_step import CompiledStep, compile_step
from mmgen.core.mesh import param_shardings, placed_shapes
from mmgen.core.optim import make_optimizer
from mmgen.core.resident import CompiledChunk, Data, Resident, compile_chunk, make_schedule
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState
from mmgen.data.assemble import assemble, object_counts, text_lengths
from mmgen.data.buckets import Bucket, choose_buckets
from mmgen.data.features import FeatureStore
from mmgen.data.pipeline import FeedSource
from mmgen.data.schema import IGNORE_ID, Batch
from mmgen.data.tables import Tables, gather_batch
from mmgen.memory.base import Memory
from mmgen.memory.plan import Plan, make_plan
from mmgen.memory.reservoir import make_reservoir
from mmgen.models.packing import least_saved
from mmgen.settings.sizes import SIZES
from mmgen.tasks.base import Task
from mmgen.tasks.masked_span import make_masked_span_task

ALGORITHMS = ("plain", "er", "agem", "mir")
LEARNING_RATE = 1e-4


class Subject(NamedTuple):
    """A run of which single steps are timed.

    Attributes:
      workload: its data.
      task, algorithm, memory, plan: see their contracts; the last two are None without replay.
      init: `(key) -> TrainState`.
      feeds: of every iteration; reads zeros where the store is hollow.
      buckets: shapes of batches, those of `feeds`.
      shapes: of the state.
    """

    workload: Workload
    task: Task
    algorithm: Algorithm
    memory: Memory | None
    plan: Plan | None
    init: Callable[[Key[Array, ""]], TrainState]
    feeds: FeedSource
    buckets: tuple[Bucket, ...]
    shapes: TrainState

    def placed_shapes(self, mesh: Mesh) -> TrainState:
        """The state's shapes and where they lie: to compile for."""
        return placed_shapes(self.shapes, self.shardings(mesh))

    def born(self, mesh: Mesh) -> Callable[[Key[Array, ""]], TrainState]:
        """`init`, jitted: the state before the first iteration, on the mesh."""
        return jax.jit(self.init, out_shardings=self.shardings(mesh))

    def random_state(self, mesh: Mesh) -> TrainState:
        """A state of the right shapes without compiling its initialisation: good for clocks."""
        rng = np.random.default_rng(0)

        def draw(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
            return 0.02 * rng.standard_normal(leaf.shape, np.float32)

        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self.shapes)
        state = zeros.replace(params=jax.tree.map(draw, self.shapes.params))
        if self.memory is not None:
            state = state.replace(memory=self.memory.init())
        return jax.device_put(state, self.shardings(mesh))

    def data(self, tables: Tables) -> Data:
        """Tables and schedule, to be put into device memory."""
        feeds = self.feeds
        rows, bucket = feeds.stream_rows, feeds.bucket_index
        return Data(tables, make_schedule(rows, bucket, self.plan, self.algorithm.draws))

    def step(self, mesh: Mesh) -> CompiledStep:
        """One iteration per dispatch, batches from the host."""
        return compile_step(self.algorithm.step, self.shardings(mesh), mesh)

    def chunk(self, mesh: Mesh) -> CompiledChunk:
        """Many iterations per dispatch, batches from the tables."""
        return compile_chunk(
            self.algorithm.step, self._gather(), self.buckets, self.shardings(mesh), mesh
        )

    def resident(self, tables: Tables) -> Resident:
        """Tables, schedule and how batches are made of them, for the training loop."""
        return Resident(self.data(tables), self._gather(), self.buckets)

    def _gather(self) -> Callable[..., Batch]:
        return functools.partial(
            gather_batch, vocabulary=self.workload.vocabulary, max_span=COCO_MAX_SPAN
        )

    def shardings(self, mesh: Mesh) -> Any:
        """Of the state."""
        return param_shardings(self.shapes, mesh)

    def flops(self) -> tuple[int, ...]:
        """Operations of an iteration in each bucket: `flops.count_flops` of the step."""
        return tuple(
            count_flops(
                self.algorithm.step, self.shapes, self.feed_at(bucket), stream_key(0, "step")
            )
            for bucket in self.buckets
        )

    def feed_at(self, bucket: Bucket) -> Feed:
        """A feed of that shape: for shapes and for timing.

        Packed, it is that of an iteration which fits; else whatever its iteration's own shape is.
        """
        if bucket.room is not None:
            fitting = np.flatnonzero(self.feeds.bucket_index == self.buckets.index(bucket))
            # Of the last one, which finds the memory filled.
            return self.feeds[int(fitting[-1])]
        sizes = (self.feeds.stream_rows.shape[1], *self.algorithm.draws)
        stream, *replay = (_batch(self.workload, np.arange(size), bucket) for size in sizes)
        if self.plan is None:
            return Feed(stream, tuple(replay))
        slots: list[Any] = [np.arange(size, dtype=np.int32) for size in sizes]
        return Feed(stream, tuple(replay), slots[0], tuple(slots[1:]))


def _batch(workload: Workload, rows: Int[np.ndarray, " b"], bucket: Bucket) -> Batch:
    """A batch without features, for its shapes."""
    return assemble(
        workload.split,
        hollow_store(workload),
        workload.vocabulary,
        rows,
        bucket,
        max_span=COCO_MAX_SPAN,
        feature_dim=workload.feature_dim,
        text_only="zero",
    )


def make_subject(
    workload: Workload,
    *,
    model: str = "vlbert",
    algorithm: str = "er",
    size: str = "paper",
    dtype: str = "float32",
    batch_size: int = 32,
    steps: int = 0,
    capacity: int = 10_000,
    max_buckets: int = 3,
    buckets: tuple[Bucket, ...] = (),
    store: FeatureStore | None = None,
    settings: Mapping[str, Any] = {},
    dropout: float = 0.1,
    packing: str = "auto",
) -> Subject:
    """A run of `algorithm` on `model` over the workload's stream.

    Args:
      model, algorithm, size: names; `size` as `config.model.size`.
      dtype: of matrix products' operands.
      steps: iterations; 0 for the whole stream.
      capacity: slots of the memory.
      max_buckets, buckets: padded shapes, chosen or given.
      store: features on the host; by default zeros that take no memory.
      settings: further arguments of `make_<algorithm>`.
      packing: as `config.packing`.

    Raises:
      ModuleNotFoundError: there is no such algorithm.
    """
    make_model = getattr(importlib.import_module(f"mmgen.models.{model}"), f"make_{model}")
    make = getattr(importlib.import_module(f"mmgen.algorithms.{algorithm}"), f"make_{algorithm}")
    net = make_model(
        vocabulary_rows=workload.vocabulary.rows,
        feature_dim=workload.feature_dim,
        dtype=dtype,
        **{**SIZES[model][size], "dropout": dropout},
    )
    task = make_masked_span_task(net)
    optimizer = make_optimizer("adamw", LEARNING_RATE)
    memory = None if algorithm == "plain" else make_reservoir(capacity)
    chosen = make(task, optimizer, memory, **settings)
    rows = workload.stream()[: steps * batch_size or None]
    if not buckets:
        lengths = text_lengths(workload.split)
        counts = object_counts(workload.split, hollow_store(workload))
        together = batch_size + sum(chosen.draws)
        buckets = choose_buckets(lengths, counts, max_buckets, batch=together)
    plan = None
    if memory is not None:
        plan = make_plan(memory, _in_batches(rows, batch_size), chosen.draws, 0)
    feeds = FeedSource(
        split=workload.split,
        store=store or hollow_store(workload),
        vocabulary=workload.vocabulary,
        stream_rows=rows,
        batch_size=batch_size,
        buckets=buckets,
        max_span=COCO_MAX_SPAN,
        feature_dim=workload.feature_dim,
        text_only="" if store else "zero",
        plan=plan,
        draws=chosen.draws,
        picks=chosen.picks,
        least_saved=least_saved(packing, net.hidden),
    )

    def init(key: Key[Array, ""]) -> TrainState:
        params = task.init(key, _batch(workload, np.arange(1), buckets[0]))
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=params,
            opt_state=optimizer.init(params),
            memory=memory.init() if memory else (),
            extras=chosen.init(params),
        )

    shapes = jax.eval_shape(init, stream_key(0, "init"))
    return Subject(workload, task, chosen, memory, plan, init, feeds, feeds.buckets, shapes)


def _in_batches(rows: Int[np.ndarray, " n"], batch_size: int) -> Int[np.ndarray, "steps b"]:
    steps = -(-len(rows) // batch_size)
    padded = np.full(steps * batch_size, IGNORE_ID, np.int32)
    padded[: len(rows)] = rows
    return padded.reshape(steps, batch_size)
