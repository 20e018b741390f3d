"""Resolved config -> the parts of a run; the only place that turns names into objects."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from mmgen.algorithms.base import Algorithm
from mmgen.core.optim import make_optimizer
from mmgen.core.state import TrainState
from mmgen.data.assemble import assemble, object_counts, text_lengths
from mmgen.data.buckets import Bucket, choose_buckets
from mmgen.data.columns import Dataset, Split
from mmgen.data.locate import locate
from mmgen.data.pipeline import FeedSource
from mmgen.data.schema import IGNORE_ID
from mmgen.data.streams import TIME_BINS, iid_stream, shift_stream, task_time_information
from mmgen.errors import UserError
from mmgen.evaluation.schedule import evaluation_steps
from mmgen.memory.base import Memory, MemoryState
from mmgen.memory.plan import Plan, make_plan, memory_at
from mmgen.memory.reservoir import make_reservoir
from mmgen.memory.task_balanced import make_task_balanced
from mmgen.models.lxmert import make_lxmert
from mmgen.models.vlbert import make_vlbert
from mmgen.settings.durations import total_steps
from mmgen.settings.resolve import resolve
from mmgen.settings.suggest import check_choice
from mmgen.tasks.base import Task
from mmgen.tasks.masked_span import make_masked_span_task

PUBLISHED_FEATURE_DIM = 2048
RELEASED_TEXT_WINDOW = 64

MODELS: dict[str, Callable[..., Any]] = {"vlbert": make_vlbert, "lxmert": make_lxmert}

ALGORITHMS = ("plain", "er", "agem", "mir", "der", "ewc", "si", "lwf")
"""Modules of `mmgen.algorithms`; each has `make_NAME(task, optimizer, memory, **settings)`."""

REPLAYING = ("er", "agem", "mir", "der")
"""Algorithms that are nothing without a memory."""


class Experiment(NamedTuple):
    """Everything a run consists of.

    Attributes:
      config: the resolved, locked config.
      dataset: the prepared data set.
      task, memory, algorithm, optimizer: see their contracts; `memory` is None without replay.
      stream_rows: int64[num_steps * batch_size], rows of the train split, IGNORE_ID as padding.
      plan: the replay plan, None without memory.
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

    def feeds(self, process_index: int = 0, process_count: int = 1) -> FeedSource:
        """`[step] -> Feed` of numpy arrays: this process's rows of the global batch."""
        dataset = self.dataset
        return FeedSource(
            stream_rows=self.stream_rows,
            batch_size=self.config.batch_size,
            plan=self.plan,
            draws=self.algorithm.draws,
            side_of_rows=self.side_of_rows,
            split=self.split("train"),
            store=dataset.features,
            vocabulary=dataset.vocabulary,
            buckets=self.buckets,
            max_span=max_span(dataset),
            feature_dim=feature_dim(dataset),
            text_only=self.config.text_only,
            process_index=process_index,
            process_count=process_count,
        )


def prepare(config: ConfigDict) -> Experiment:
    """Opens the data, resolves the config and builds every part.

    Args:
      config: recorded choices, not yet resolved.

    Raises:
      UserError: whatever the user can mend, in one sentence.
    """
    dataset = locate(config)
    return build(resolve(config, dataset.info), dataset)


def build(config: ConfigDict, dataset: Dataset) -> Experiment:
    """Builds the parts of a resolved config."""
    check_features(config, dataset)
    rows, num_steps = _stream(config, dataset)
    task, frozen = make_task(config, dataset)
    optimizer = make_optimizer(**config.optimizer.to_dict(), frozen=frozen)
    memory, side_of_rows = _memory(config, dataset)
    algorithm = _algorithm(config, task, optimizer, memory)
    plan = None
    if memory is not None:
        batches = rows.reshape(num_steps, config.batch_size)
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


def check_features(config: ConfigDict, dataset: Dataset) -> None:
    """Raises UserError for a multimodal run on data without features."""
    if dataset.features is None and not config.text_only:
        raise UserError(
            f"The data set '{dataset.info['name']}' has no feature store, so a multimodal run is "
            "impossible; add ':text_only' to the config, or rebuild the data set with --features."
        )


def seen_split(config: ConfigDict, dataset: Dataset, name: str) -> Split:
    """A split as a run sees it: under `shuffle_features`, with other examples' images."""
    split = dataset.split(name)
    if not config.dataset.shuffle_features:
        return split
    image = np.asarray(split.columns["image"])
    own = np.unique(image)
    # A rotation by half leaves no image in its place.
    other = np.roll(own, len(own) // 2)
    return Split(name, {**split.columns, "image": other[np.searchsorted(own, image)]})


def shifting_stream(config: ConfigDict, dataset: Dataset) -> np.ndarray:
    """Rows of the train split, task after task; also for iid runs, which are compared with it."""
    task = np.asarray(dataset.split("train").columns["task"])
    rows = shift_stream(
        task,
        seed=config.data_seed,
        bin_width=config.stream.bin_width,
        spread_floor=config.stream.spread_floor,
        order=config.stream.order,
    )
    return rows[: int(len(task) * config.stream.share)]


def _stream(config: ConfigDict, dataset: Dataset) -> tuple[np.ndarray, int]:
    """Rows of the train split in the order of training, padded to whole batches."""
    shifting = shifting_stream(config, dataset)
    num_examples = len(shifting)
    num_steps = total_steps(config.total, num_examples, config.batch_size)
    length = num_steps * config.batch_size
    epochs = -(-length // num_examples)
    if config.stream.kind == "shift":
        passes = [shifting] * epochs
    else:
        fresh = config.stream.kind == "iid_epochs"
        passes = [
            shifting[iid_stream(num_examples, config.data_seed, epoch if fresh else 0)]
            for epoch in range(epochs)
        ]
    rows = np.concatenate(passes)[:length]
    # Only the end of the last pass is padded, and only if no further example was asked for.
    if config.total.steps is None:
        wanted = config.total.examples or round((config.total.epochs or 1) * num_examples)
        rows = rows[:wanted]
    padding = np.full(length - len(rows), IGNORE_ID, rows.dtype)
    return np.concatenate([rows, padding]), num_steps


def make_task(config: ConfigDict, dataset: Dataset) -> tuple[Task, Callable | None]:
    """The task with its model, and the model's gradient mask if some of its rows are frozen."""
    settings = config.model.to_dict()
    name = settings.pop("factory")
    settings.pop("size")
    make = MODELS.get(name) or _plug_in("config.model.factory", name, MODELS)
    model = make(feature_dim=feature_dim(dataset), profile=config.profile, **settings)
    task = make_masked_span_task(model, weighting=config.loss.weighting)
    return task, getattr(model, "gradient_mask", None)


def _memory(config: ConfigDict, dataset: Dataset) -> tuple[Memory | None, Any]:
    """The memory policy, and what it must know of each row of the train split."""
    memory = config.memory
    columns = dataset.split("train").columns
    if memory.policy == "none":
        return None, ()
    if memory.policy == "reservoir":
        return make_reservoir(memory.capacity, memory.reservoir), ()
    if memory.policy == "task_balanced":
        side = np.asarray(columns["task"])
        return make_task_balanced(memory.capacity, len(dataset.info["tasks"])), side
    raise UserError(f"config.memory.policy={memory.policy!r} is not available yet.")


def _algorithm(
    config: ConfigDict,
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory | None,
) -> Algorithm:
    """The algorithm, built with those keys of `config.algorithm` that its factory names."""
    settings = config.algorithm.to_dict()
    name = settings.pop("name")
    if name in ALGORITHMS:
        module = importlib.import_module(f"mmgen.algorithms.{name}")
        make = getattr(module, f"make_{name}")
    else:
        make = _plug_in("config.algorithm.name", name, ALGORITHMS)
    if memory is None and name in REPLAYING:
        raise UserError(
            f"config.algorithm.name={name!r} replays from memory; set config.memory.policy, "
            "e.g. 'reservoir', and config.memory.size."
        )
    accepted = inspect.signature(make).parameters
    chosen = {k: v for k, v in settings.items() if k in accepted and v is not None}
    return make(task, optimizer, memory, **chosen)


def _plug_in(key: str, name: str, known: Iterable[str]) -> Callable[..., Any]:
    """Imports `package.module:function`, so that a part can be added without editing mmgen."""
    module, colon, function = name.partition(":")
    if not colon:
        check_choice(key, name, [*known, "package.module:function"])
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{key}={name!r} cannot be imported: {error}.") from None


def split_buckets(
    config: ConfigDict, dataset: Dataset, split: str, batch: int
) -> tuple[Bucket, ...]:
    """Padded shapes for the batches of a split: as configured, or from its length tables.

    Args:
      batch: examples that share a bucket, replay rows included.
    """
    buckets = config.buckets
    if buckets.text is not None:
        return tuple(Bucket(t, o) for t, o in zip(buckets.text, buckets.objects, strict=True))
    data = dataset.split(split)
    lengths = text_lengths(data)
    if config.profile == "release":
        # The released window: three captions of the validation stream lose their [SEP] to it.
        lengths = np.minimum(lengths, RELEASED_TEXT_WINDOW)
    # A model without any object slot would be another program; one empty slot costs nothing.
    counts = np.maximum(object_counts(data, dataset.features, config.text_only), 1)
    return choose_buckets(lengths, counts, buckets.max, batch=batch)


def feature_dim(dataset: Dataset) -> int:
    """Width of region features; the published one where text-only runs have no store."""
    return dataset.info["feature_dim"] or PUBLISHED_FEATURE_DIM


def max_span(dataset: Dataset) -> int:
    """Largest number of masked tokens of an example, over all splits."""
    return max(split["max_span"] for split in dataset.info["splits"].values())


def example_batch(
    config: ConfigDict, dataset: Dataset, split: str, bucket: Bucket
) -> dict[str, np.ndarray]:
    """The first row of a split, for shapes."""
    return assemble(
        dataset.split(split),
        dataset.features,
        dataset.vocabulary,
        np.zeros(1, np.int64),
        bucket,
        max_span=max_span(dataset),
        feature_dim=feature_dim(dataset),
        text_only=config.text_only,
    )
