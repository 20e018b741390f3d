"""Resolved config of a CompAct run -> its parts; the only place that turns names into objects."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from mmgen.algorithms.base import Algorithm
from mmgen.algorithms.plain import make_plain
from mmgen.compact.locate import locate_compact
from mmgen.core.control import Control, make_control
from mmgen.core.mesh import Mesh, local_rows
from mmgen.core.optim import make_optimizer
from mmgen.core.state import TrainState
from mmgen.data.compact.batches import (
    CompactSource,
    EncodedSplit,
    Inputs,
    Widths,
    choose_widths,
    example_batch,
)
from mmgen.data.compact.dataset import CompactDataset
from mmgen.data.compact.splits import SPLITS
from mmgen.data.compact.vocabulary import AtomLabels, CompactVocabulary
from mmgen.errors import UserError
from mmgen.models.crossmodal import WORDS, CrossModal, make_crossmodal
from mmgen.settings.compact import resolve
from mmgen.settings.durations import total_steps
from mmgen.settings.unused_compact import check_used
from mmgen.tasks.atoms import make_atoms_task
from mmgen.tasks.base import Task
from mmgen.tasks.next_utterance import make_next_utterance_task

OPTIONAL = ("objects",)
"""Modalities that a sequence goes without in a world that has none: worlds show no boxes."""


class CompactExperiment(NamedTuple):
    """Everything a run consists of.

    Attributes:
      config: the resolved, locked config.
      dataset: the prepared data set.
      inputs: vocabulary, labels and features that batches are made with.
      splits: every split, encoded.
      widths: padded shapes of batches, of all splits.
      model, task, optimizer, algorithm: see their contracts.
      num_steps: iterations of training unless it stops early.
      eval_steps: iterations after which validation is evaluated; the last is `num_steps`.
    """

    config: ConfigDict
    dataset: CompactDataset
    inputs: Inputs
    splits: dict[str, EncodedSplit]
    widths: tuple[Widths, ...]
    model: CrossModal
    task: Task
    optimizer: optax.GradientTransformation
    algorithm: Algorithm
    num_steps: int
    eval_steps: tuple[int, ...]

    @property
    def steps_per_epoch(self) -> int:
        """Iterations in which every training example is read once."""
        return -(-len(self.splits["train"]) // self.config.batch_size)

    def init(self, key: Key[Array, ""]) -> TrainState:
        """The state before the first iteration; pure, to be jitted with output shardings."""
        params = self.task.init(key, example_batch(self.splits["train"], self.widths[0]))
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=params,
            opt_state=self.optimizer.init(params),
            extras=self.algorithm.init(params),
        )

    def feeds(self, mesh: Mesh | None = None) -> CompactSource:
        """`[step] -> Feed` of numpy arrays: this process's rows of the global batch."""
        return CompactSource(
            self.splits["train"],
            self.widths,
            batch_size=self.config.batch_size,
            num_steps=self.num_steps,
            seed=self.config.seed,
            local_rows=partial(local_rows, mesh=mesh) if mesh is not None else np.arange,
        )

    def control(self) -> Control:
        """Plateau schedule and early stopping, before the first evaluation."""
        settings = self.config.control
        return make_control(
            metric=settings.metric,
            mode="max",
            factor=settings.factor,
            patience=settings.patience,
            threshold=settings.threshold,
            min_scale=settings.min_scale,
            # `stop_after` evaluations without improvement end a run: one less is borne.
            stop_patience=settings.stop_after - 1,
        )


def prepare(config: ConfigDict) -> CompactExperiment:
    """Opens the data, resolves the config and builds every part.

    Args:
      config: recorded choices, not yet resolved.

    Raises:
      UserError: whatever the user can mend, in one sentence.
    """
    check_used(config)
    dataset = locate_compact(config)
    config = resolve(config, dataset.info)
    check_missing(config, dataset)
    return build(config, dataset)


def build(config: ConfigDict, dataset: CompactDataset) -> CompactExperiment:
    """Builds the parts of a resolved config."""
    groups = input_groups(config, dataset)
    inputs = make_inputs(config, dataset, groups)
    splits = {name: EncodedSplit(dataset.split(name), inputs) for name in SPLITS}
    model = make_model(config, inputs, groups)
    task = make_task(config, model, splits["train"])
    optimizer = make_optimizer(**config.optimizer.to_dict())
    # An epoch's last batch is padded: whole epochs are whole numbers of batches.
    padded = -(-len(splits["train"]) // config.batch_size) * config.batch_size
    num_steps = total_steps(config.total, padded, config.batch_size)
    return CompactExperiment(
        config=config,
        dataset=dataset,
        inputs=inputs,
        splits=splits,
        widths=choose_widths(list(splits.values()), config.batch_size, config.buckets.max),
        model=model,
        task=task,
        optimizer=optimizer,
        algorithm=make_plain(task, optimizer),
        num_steps=num_steps,
        eval_steps=_epoch_ends(config, len(splits["train"]), num_steps),
    )


def input_groups(config: ConfigDict, dataset: CompactDataset) -> tuple[tuple[str, ...], ...]:
    """`config.model.inputs` as names of modalities that the data set has.

    Raises:
      UserError: it lacks one that the model cannot do without.
    """
    optional = OPTIONAL if dataset.info["world"] else ()
    language = [config.model.language] if config.model.language != WORDS else []
    groups = [tuple(text.split("+")) for text in config.model.inputs]
    for name in (*language, *(name for group in groups for name in group)):
        if name not in dataset.modalities and name not in optional:
            known = ", ".join(dataset.modalities) or "none, only text"
            raise UserError(
                f"{config.name} reads the features {name!r}, but the data set "
                f"{dataset.info['name']} has {known}; build it with --features, or take another "
                "config, such as configs/compact_l.py, which reads text alone."
            )
    kept = [tuple(name for name in group if name in dataset.modalities) for group in groups]
    return tuple(group for group in kept if group)


def check_missing(config: ConfigDict, dataset: CompactDataset) -> None:
    """UserError where the run reads a modality that too many clips lack, see the builder."""
    allowed = config.dataset.max_missing
    names = {name for group in input_groups(config, dataset) for name in group}
    for name in sorted(names | {config.model.language} & set(dataset.modalities)):
        facts = dataset.info["features"][name]
        share = len(facts["missing"]) / facts["clips"]
        if share > allowed:
            raise UserError(
                f"{100 * share:.1f} % of the clips of the data set {dataset.info['name']} lack the "
                f"features {name!r}, more than config.dataset.max_missing={allowed} allows: "
                "extract them and build it again, or allow more."
            )


def make_inputs(
    config: ConfigDict, dataset: CompactDataset, groups: tuple[tuple[str, ...], ...]
) -> Inputs:
    """Vocabulary and labels of train, and the features that the model reads."""
    train = dataset.split("train")
    names = [name for group in groups for name in group]
    if config.model.language != WORDS:
        names.insert(0, config.model.language)
    task = config.task
    return Inputs(
        vocabulary=CompactVocabulary.of(train),
        task=task,
        labels=None if task == "utterance" else AtomLabels.of(train, task),
        features={name: dataset.features(name) for name in names},
        shuffled=tuple(config.dataset.shuffled),
        dropped=tuple(config.dataset.dropped),
    )


def make_model(
    config: ConfigDict, inputs: Inputs, groups: tuple[tuple[str, ...], ...]
) -> CrossModal:
    """The model of a resolved config."""
    settings: dict[str, Any] = config.model.to_dict()
    for name in ("size", "inputs"):
        settings.pop(name)
    return make_crossmodal(
        vocabulary_rows=len(inputs.vocabulary),
        classes=0 if inputs.labels is None else len(inputs.labels),
        modalities={name: store.shape for name, store in inputs.features.items()},
        inputs=groups,
        **settings,
    )


def make_task(config: ConfigDict, model: CrossModal, train: EncodedSplit) -> Task:
    """What is trained, with its loss."""
    if config.task != "utterance":
        return make_atoms_task(model)
    decoding = config.decoding
    longest = int(train.target_length.max())
    return make_next_utterance_task(
        model, decoding.length or longest, decoding.beams, decoding.length_penalty
    )


def _epoch_ends(config: ConfigDict, examples: int, num_steps: int) -> tuple[int, ...]:
    """Ends of every `config.evaluation.every`-th epoch, and the end."""
    each = math.ceil(examples / config.batch_size) * config.evaluation.every
    return (*range(each, num_steps, each), num_steps)
