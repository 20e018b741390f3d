"""Resolved config -> the parts of a run; the only place that turns names into objects."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from mmgen.algorithms.base import Algorithm
from mmgen.core.mesh import Mesh, batch_shards, local_rows
from mmgen.core.optim import make_optimizer
from mmgen.core.resident import Data, Resident, make_schedule, put_data
from mmgen.core.state import TrainState
from mmgen.data.buckets import Bucket
from mmgen.data.columns import Dataset, Split
from mmgen.data.locate import locate
from mmgen.data.pipeline import FeedSource
from mmgen.data.run_data import (
    check_features,
    example_batch,
    feature_dim,
    max_span,
    seen_split,
    split_buckets,
    training_stream,
)
from mmgen.data.schema import IGNORE_ID
from mmgen.data.streams import TIME_BINS, task_time_information
from mmgen.data.tables import OF_ALL_SPLITS, Tables, build_tables, gather_batch
from mmgen.errors import UserError
from mmgen.evaluation.own_metrics import own_metrics
from mmgen.evaluation.schedule import evaluation_steps
from mmgen.memory.balanced import make_balanced_forget, make_balanced_sqrt, masked_words
from mmgen.memory.base import Memory, MemoryState
from mmgen.memory.live import Draw, draw_rows
from mmgen.memory.plan import Plan, check_stream, make_plan, memory_at
from mmgen.memory.reservoir import make_reservoir
from mmgen.memory.stop_words import function_word_ids
from mmgen.memory.task_balanced import make_task_balanced
from mmgen.models.masked_span import MODELS
from mmgen.models.packing import least_saved
from mmgen.settings.plug_ins import is_plug_in, plug_in
from mmgen.settings.resolve import attends_padding, check, resolve
from mmgen.settings.suggest import check_choice
from mmgen.settings.unused import check_used
from mmgen.tasks.base import Task
from mmgen.tasks.masked_span import make_masked_span_task

ALGORITHMS = ("plain", "er", "agem", "mir", "der", "ewc", "si", "lwf")
"""Modules of `mmgen.algorithms`; each has `make_NAME(task, optimizer, memory, **settings)`."""

BALANCED = {"balanced_sqrt": make_balanced_sqrt, "balanced_forget": make_balanced_forget}

REPLAYING = ("er", "agem", "mir", "der")
"""Algorithms that are nothing without a memory."""


class Experiment(NamedTuple):
    """Everything a run consists of.

    Attributes:
      config: the resolved, locked config.
      dataset: the prepared data set.
      task, memory, algorithm, optimizer: see their contracts; `memory` is None without replay.
      stream_rows: int64[num_steps * batch_size], rows of the train split, IGNORE_ID as padding.
      plan: the replay plan, None without a memory or for one that cannot be planned.
      side_of_rows: what the memory policy must know of each row of the train split.
      buckets: padded shapes of batches.
      num_steps: iterations of training.
      eval_steps: iterations after which the model is evaluated; the last is `num_steps`.
    """

    config: ConfigDict
    dataset: Dataset
    task: Task
    memory: Memory | None
    algorithm: Algorithm
    optimizer: optax.GradientTransformation
    stream_rows: np.ndarray
    plan: Plan | None
    side_of_rows: Any
    buckets: tuple[Bucket, ...]
    num_steps: int
    eval_steps: tuple[int, ...]

    def init(self, key: Key[Array, ""]) -> TrainState:
        """The state before the first iteration; pure, to be jitted with output shardings."""
        example = example_batch(self.config, self.dataset, "train", self.buckets[0])
        return self.begin(self.task.init(key, example))

    def begin(self, params: Any) -> TrainState:
        """The state before the first iteration with given parameters; pure."""
        return TrainState(
            step=jax.numpy.zeros((), jax.numpy.int32),
            params=params,
            opt_state=self.optimizer.init(params),
            memory=self.memory.init() if self.memory else (),
            extras=self.algorithm.init(params),
        )

    def split(self, name: str) -> Split:
        """A split as this run sees it."""
        return seen_split(self.config, self.dataset, name)

    @property
    def draw(self) -> Draw | None:
        """How rows to replay are drawn during training; None where a plan tells them."""
        if self.memory is None or self.memory.planned or not self.algorithm.draws:
            return None
        return partial(draw_rows, self.memory, self.algorithm.draws)

    def memory_at(self, step: int) -> MemoryState:
        """What the memory must hold after `step` iterations, for runs with a plan."""
        assert self.memory is not None and self.plan is not None
        batches = self.stream_rows.reshape(self.num_steps, -1)
        return memory_at(self.plan, self.memory, batches, step, self.side_of_rows)

    def stream_facts(self) -> dict[str, Any]:
        """How strongly the task of an example depends on its time, and the stream's constants."""
        read = self.stream_rows[self.stream_rows != IGNORE_ID]
        task = np.asarray(self.dataset.split("train").columns["task"])[read]
        stream = self.config.stream
        return {
            "kind": stream.kind,
            "order": stream.order,
            "bin_width": stream.bin_width,
            "spread_floor": stream.spread_floor,
            "task_time_information": task_time_information(task, TIME_BINS),
        }

    def packing(self, mesh: Mesh | None = None) -> float | None:
        """Share of its positions that packing must save this run; None never packs.

        Raises:
          UserError: they are to be, and cannot.
        """
        config = self.config
        reasons = {
            "config.model.object_mask=False attends empty slots": attends_padding(config),
            "config.residency='device' cannot foretell what this memory replays": (
                config.residency == "device" and self.draw is not None
            ),
            "the examples of a batch are split between devices": (
                mesh is not None and batch_shards(mesh) > 1
            ),
        }
        against = [reason for reason, holds in reasons.items() if holds]
        if config.packing == "on" and against:
            raise UserError(f"config.packing is 'on', but {against[0]}; leave it out.")
        return None if against else least_saved(config.packing, config.model.hidden)

    def feeds(self, mesh: Mesh | None = None) -> FeedSource:
        """`[step] -> Feed` of numpy arrays: this process's rows of the global batch."""
        dataset = self.dataset
        return FeedSource(
            stream_rows=self.stream_rows,
            batch_size=self.config.batch_size,
            plan=self.plan,
            draws=self.algorithm.draws,
            picks=self.algorithm.picks,
            least_saved=self.packing(mesh),
            side_of_rows=self.side_of_rows,
            split=self.split("train"),
            store=dataset.features,
            vocabulary=dataset.vocabulary,
            buckets=self.buckets,
            max_span=max_span(dataset),
            feature_dim=feature_dim(dataset),
            text_only=self.config.text_only,
            local_rows=np.arange if mesh is None else partial(local_rows, mesh=mesh),
        )

    def tables(self, name: str, mesh: Mesh, other: Tables | None = None) -> Tables:
        """A split in the memory of every device.

        Args:
          other: another split's, with which this one shares the features.

        Raises:
          UserError: it is larger than the memory of a device.
        """
        tables = build_tables(
            self.split(name),
            self.dataset.features,
            feature_dim=feature_dim(self.dataset),
            text_only=self.config.text_only,
        )
        if other is not None:
            tables = tables._replace(**{field: getattr(other, field) for field in OF_ALL_SPLITS})
        return put_data(tables, mesh)

    def resident(self, feeds: FeedSource, tables: Tables) -> Resident:
        """The same data and schedule as of `feeds`, its own, from the tables of the train split."""
        dataset = self.dataset
        schedule = make_schedule(
            feeds.stream_rows, feeds.bucket_index, self.plan, self.algorithm.draws
        )
        return Resident(
            data=Data(tables, schedule, self.side_of_rows, feeds.row_bucket if self.draw else ()),
            gather=partial(gather_batch, vocabulary=dataset.vocabulary, max_span=max_span(dataset)),
            buckets=feeds.buckets,
        )


def prepare(config: ConfigDict) -> Experiment:
    """Opens the data, resolves the config and builds every part.

    Args:
      config: recorded choices, not yet resolved.

    Raises:
      UserError: whatever the user can mend, in one sentence.
    """
    # Before the data: a typo must not cost the building of a world.
    check(config)
    _model_factory(config)
    check_used(config, inspect.signature(algorithm_factory(config)).parameters)
    own_metrics(config.metrics)
    dataset = locate(config)
    return build(resolve(config, dataset.info), dataset)


def build(config: ConfigDict, dataset: Dataset) -> Experiment:
    """Builds the parts of a resolved config."""
    check_features(config, dataset)
    rows, num_steps = training_stream(config, dataset)
    task, frozen = make_task(config, dataset)
    optimizer = make_optimizer(**config.optimizer.to_dict(), frozen=frozen)
    memory, side_of_rows = _memory(config, dataset)
    algorithm = _algorithm(config, dataset, task, optimizer, memory)
    plan = None
    if memory is not None:
        batches = rows.reshape(num_steps, config.batch_size)
        check_stream(batches)
        if memory.planned:
            plan = make_plan(memory, batches, algorithm.draws, config.seed, side_of_rows)
    return Experiment(
        config=config,
        dataset=dataset,
        task=task,
        memory=memory,
        algorithm=algorithm,
        optimizer=optimizer,
        stream_rows=rows,
        plan=plan,
        side_of_rows=side_of_rows,
        buckets=split_buckets(config, dataset, "train", config.batch_size + sum(algorithm.draws)),
        num_steps=num_steps,
        eval_steps=evaluation_steps(
            num_steps,
            config.evaluation.schedule,
            config.evaluation.count,
            dataset.info["paper_size"],
        ),
    )


def make_task(config: ConfigDict, dataset: Dataset) -> tuple[Task, Callable | None]:
    """The task with its model, and the model's gradient mask if some of its rows are frozen."""
    make = _model_factory(config)
    settings = config.model.to_dict()
    for name in ("factory", "size"):
        settings.pop(name)
    model = make(feature_dim=feature_dim(dataset), profile=config.profile, **settings)
    task = make_masked_span_task(model, weighting=config.loss.weighting)
    return task, getattr(model, "gradient_mask", None)


def _model_factory(config: ConfigDict) -> Callable[..., Any]:
    name = config.model.factory
    return MODELS.get(name) or _named("config.model.factory", name, MODELS)


def _memory(config: ConfigDict, dataset: Dataset) -> tuple[Memory | None, Any]:
    """The memory policy, and what it must know of each row of the train split."""
    memory = config.memory
    if memory.policy == "none":
        return None, ()
    if memory.policy == "reservoir":
        return make_reservoir(memory.capacity, memory.reservoir), ()
    columns = seen_split(config, dataset, "train").columns
    if memory.policy == "task_balanced":
        side = np.asarray(columns["task"])
        return make_task_balanced(memory.capacity, len(dataset.info["tasks"])), side
    width, rows = max_span(dataset), config.model.vocabulary_rows
    words = masked_words(
        columns["tokens"],
        columns["token_start"],
        columns["span"],
        width,
        () if memory.count_stop_words else function_word_ids(dataset.vocabulary.tokens),
    )
    return BALANCED[memory.policy](memory.capacity, rows, width, memory.divergence), words


def _algorithm(
    config: ConfigDict,
    dataset: Dataset,
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory | None,
) -> Algorithm:
    """The algorithm, built with those of its settings that its factory names.

    Settings are the keys of `config.algorithm`, and what of model, profile and optimizer an
    algorithm may ask for.
    """
    make = algorithm_factory(config)
    settings = config.algorithm.to_dict()
    settings.pop("name")
    known = {
        "width": max_span(dataset),
        "rows": config.model.vocabulary_rows,
        "as_released": config.profile == "release",
        "learning_rate": config.optimizer.learning_rate,
        **{key: value for key, value in settings.items() if value is not None},
    }
    accepted = inspect.signature(make).parameters
    chosen = {key: value for key, value in known.items() if key in accepted}
    return make(task, optimizer, memory, **chosen)


def algorithm_factory(config: ConfigDict) -> Callable[..., Any]:
    """`make_NAME` of the algorithm that `config.algorithm.name` names.

    Raises:
      UserError: no such algorithm, or one that replays without a memory.
    """
    name = config.algorithm.name
    if config.memory.policy == "none" and name in REPLAYING:
        raise UserError(
            f"config.algorithm.name={name!r} replays from memory; set config.memory.policy, "
            "e.g. 'reservoir', and config.memory.size."
        )
    if name in ALGORITHMS:
        return getattr(importlib.import_module(f"mmgen.algorithms.{name}"), f"make_{name}")
    return _named("config.algorithm.name", name, ALGORITHMS)


def _named(key: str, name: str, known: Iterable[str]) -> Callable[..., Any]:
    """A part that is none of those `known`: one of the user's own, by import path."""
    if not is_plug_in(name):
        check_choice(key, name, [*known, "package.module:function"])
    return plug_in(key, name)
