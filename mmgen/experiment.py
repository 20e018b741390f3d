"""Resolved config -> the parts of a run; the only place that turns names into objects."""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from mmgen.algorithms.agem import make_agem
from mmgen.algorithms.base import Algorithm
from mmgen.algorithms.er import make_er
from mmgen.algorithms.mir import make_mir
from mmgen.algorithms.plain import make_plain
from mmgen.core.optim import make_optimizer
from mmgen.core.state import TrainState
from mmgen.data.buckets import Bucket, choose_buckets
from mmgen.data.columns import Dataset
from mmgen.data.locate import locate
from mmgen.data.pipeline import FeedSource, assemble
from mmgen.data.schema import IGNORE_ID
from mmgen.data.streams import iid_stream, shift_stream
from mmgen.errors import UserError
from mmgen.evaluation.schedule import evaluation_steps
from mmgen.memory.base import Memory, MemoryState
from mmgen.memory.plan import Plan, make_plan, memory_at
from mmgen.memory.reservoir import make_reservoir
from mmgen.models.lxmert import make_lxmert
from mmgen.models.vlbert import make_vlbert
from mmgen.settings.durations import total_steps
from mmgen.settings.resolve import resolve
from mmgen.settings.suggest import check_choice
from mmgen.tasks.base import Task
from mmgen.tasks.masked_span import make_masked_span_task

MODELS: dict[str, Callable[..., Any]] = {"vlbert": make_vlbert, "lxmert": make_lxmert}


class Experiment(NamedTuple):
    """Everything a run consists of.

    Attributes:
      config: the resolved, locked config.
      dataset: the prepared data set.
      task, memory, algorithm, optimizer: see their contracts; `memory` is None without replay.
      stream_rows: int64[num_steps * batch_size], rows of the train split, IGNORE_ID as padding.
      plan: the replay plan, None without memory.
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
    buckets: tuple[Bucket, ...]
    num_steps: int
    eval_steps: tuple[int, ...]

    def init(self, key: Key[Array, ""]) -> TrainState:
        """The state before the first iteration; pure, to be jitted with output shardings."""
        example = example_batch(self, self.buckets[0])
        params = self.task.init(key, example)
        return TrainState(
            step=jax.numpy.zeros((), jax.numpy.int32),
            params=params,
            opt_state=self.optimizer.init(params),
            memory=self.memory.init() if self.memory else (),
            extras=self.algorithm.init(params),
        )

    def memory_at(self, step: int) -> MemoryState | None:
        """What the memory must hold after `step` iterations."""
        if self.memory is None or self.plan is None:
            return None
        return memory_at(self.plan, self.memory, self._stream_batches(), step)

    def _stream_batches(self) -> np.ndarray:
        return self.stream_rows.reshape(self.num_steps, -1)

    def feeds(self, process_index: int = 0, process_count: int = 1) -> FeedSource:
        """`[step] -> Feed` of numpy arrays: this process's rows of the global batch."""
        dataset = self.dataset
        return FeedSource(
            stream_rows=self.stream_rows,
            batch_size=self.config.batch_size,
            plan=self.plan,
            draws=self.algorithm.draws,
            split=dataset.split("train"),
            store=dataset.features,
            vocabulary=dataset.vocabulary,
            buckets=self.buckets,
            max_span=max_span(dataset),
            feature_dim=dataset.info["feature_dim"],
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
    if dataset.features is None and not config.text_only:
        raise UserError(
            f"The data set '{dataset.info['name']}' has no feature store, so a multimodal run is "
            "impossible; add ':text_only' to the config, or rebuild the data set with --features."
        )
    rows, num_steps = _stream(config, dataset)
    task, frozen = _task(config, dataset)
    optimizer = make_optimizer(**config.optimizer.to_dict(), frozen=frozen)
    memory = _memory(config)
    algorithm = _algorithm(config, task, optimizer, memory)
    plan = None
    if memory is not None:
        batches = rows.reshape(num_steps, config.batch_size)
        plan = make_plan(memory, batches, algorithm.draws, config.seed)
    return Experiment(
        config=config,
        dataset=dataset,
        task=task,
        memory=memory,
        algorithm=algorithm,
        optimizer=optimizer,
        stream_rows=rows,
        plan=plan,
        buckets=_buckets(config, dataset),
        num_steps=num_steps,
        eval_steps=evaluation_steps(num_steps, config.evaluation.schedule, config.evaluation.count),
    )


def _stream(config: ConfigDict, dataset: Dataset) -> tuple[np.ndarray, int]:
    """Rows of the train split in the order of training, padded to whole batches."""
    stream = config.stream
    task = dataset.split("train").columns["task"]
    num_examples = int(len(task) * stream.share)
    num_steps = total_steps(config.total, num_examples, config.batch_size)
    length = num_steps * config.batch_size
    epochs = -(-length // num_examples)
    seed = config.data_seed
    if stream.kind == "shift":
        one = shift_stream(
            task,
            seed=seed,
            bin_width=stream.bin_width,
            spread_floor=stream.spread_floor,
            order=stream.order,
        )[:num_examples]
        passes = [one] * epochs
    else:
        fresh = stream.kind == "iid_epochs"
        passes = [
            iid_stream(len(task), seed, epoch if fresh else 0)[:num_examples]
            for epoch in range(epochs)
        ]
    rows = np.concatenate(passes)[:length]
    # Only the end of the last pass is padded, and only if no further example was asked for.
    if config.total.steps is None:
        wanted = config.total.examples or round((config.total.epochs or 1) * num_examples)
        rows = rows[:wanted]
    padding = np.full(length - len(rows), IGNORE_ID, rows.dtype)
    return np.concatenate([rows, padding]), num_steps


def _task(config: ConfigDict, dataset: Dataset) -> tuple[Task, Callable | None]:
    settings = config.model.to_dict()
    name = settings.pop("factory")
    settings.pop("size")
    make = MODELS.get(name) or _plug_in("config.model.factory", name)
    model = make(feature_dim=dataset.info["feature_dim"], profile=config.profile, **settings)
    task = make_masked_span_task(model, weighting=config.loss.weighting)
    return task, getattr(model, "gradient_mask", None)


def _memory(config: ConfigDict) -> Memory | None:
    memory = config.memory
    if memory.policy == "none":
        return None
    if memory.policy == "reservoir":
        return make_reservoir(memory.capacity, memory.reservoir)
    raise UserError(f"config.memory.policy={memory.policy!r} is not available yet.")


def _algorithm(
    config: ConfigDict,
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory | None,
) -> Algorithm:
    settings = config.algorithm
    if settings.name == "plain":
        return make_plain(task, optimizer, memory)
    needs = "replays from memory; set config.memory.policy, e.g. 'reservoir', and a size"
    if memory is None:
        raise UserError(f"config.algorithm.name={settings.name!r} {needs}.")
    if settings.name == "er":
        return make_er(
            task, optimizer, memory, replay_size=settings.replay_size, update=settings.update
        )
    if settings.name == "agem":
        return make_agem(task, optimizer, memory, reference_size=settings.reference_size)
    if settings.name == "mir":
        return make_mir(
            task,
            optimizer,
            memory,
            candidates=settings.candidates,
            replay_size=settings.replay_size,
            aggregate=settings.aggregate,
            virtual_step=settings.virtual_step,
            scoring_dropout=settings.scoring_dropout,
        )
    make = _plug_in("config.algorithm.name", settings.name)
    return make(task, optimizer, memory, **settings.to_dict())


def _plug_in(key: str, name: str) -> Callable[..., Any]:
    """Imports `package.module:function`, so that a part can be added without editing mmgen."""
    module, colon, function = name.partition(":")
    if not colon:
        check_choice(key, name, [*MODELS, "package.module:function"])
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{key}={name!r} cannot be imported: {error}.") from None


def _buckets(config: ConfigDict, dataset: Dataset) -> tuple[Bucket, ...]:
    buckets = config.buckets
    if buckets.text is not None:
        return tuple(Bucket(t, o) for t, o in zip(buckets.text, buckets.objects, strict=True))
    split = dataset.split("train")
    lengths = np.diff(split.columns["token_start"]) + 3
    counts = np.ones(len(lengths), np.int32)
    if dataset.features is not None and config.text_only != "drop":
        counts = dataset.features.counts[split.columns["image"]]
    return choose_buckets(lengths, counts, buckets.max)


def max_span(dataset: Dataset) -> int:
    """Largest number of masked tokens of an example, over all splits."""
    return max(split["max_span"] for split in dataset.info["splits"].values())


def example_batch(experiment: Experiment, bucket: Bucket) -> dict[str, np.ndarray]:
    """One row of the train split, for shapes."""
    dataset = experiment.dataset
    return assemble(
        dataset.split("train"),
        dataset.features,
        dataset.vocabulary,
        np.zeros(1, np.int64),
        bucket,
        max_span=max_span(dataset),
        feature_dim=dataset.info["feature_dim"],
        text_only=experiment.config.text_only,
    )
