"""A trained run as others use it: to predict other data, or to begin another with its weights."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from etils import epath
from ml_collections import ConfigDict

from mmgen.core.loop import CHECKPOINTS
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState
from mmgen.core.weights import Weights, check_weights, read_weights
from mmgen.core.workdir import CONFIG, Workdir
from mmgen.data.columns import Dataset
from mmgen.errors import UserError
from mmgen.evaluation.context import Context, read_context
from mmgen.experiment import Experiment
from mmgen.settings.identity import recorded_config
from mmgen.settings.kinds import DEFAULT

PARENT = "parent.json"
"""Where a run that began with another's weights says whose."""


class Trained(NamedTuple):
    """A run that has been started before.

    Attributes:
      folder: its workdir.
      config: its resolved, locked config.
      context: facts about its data and stream.
    """

    folder: Workdir
    config: ConfigDict
    context: Context

    @property
    def checkpoints(self) -> epath.Path:
        """Folder of its checkpoints."""
        return self.folder.file(CHECKPOINTS)

    def check_vocabulary(self, dataset: Dataset) -> None:
        """Raises UserError unless `dataset` means the same words by the same ids."""
        theirs, ours = self.context["tokens"], list(dataset.vocabulary.tokens)
        if theirs == ours:
            return
        differing = next(
            (i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b),
            min(len(theirs), len(ours)),
        )
        raise UserError(
            f"{self.folder.root} was trained with another vocabulary than that of {dataset.root} "
            f"({len(theirs):,} and {len(ours):,} tokens, the first difference is id {differing}); "
            "build the data set with the vocabulary of the run."
        )

    def origin(self, weights: Weights) -> dict[str, Any]:
        """What must be known of weights that came from this run, JSON values."""
        return {
            "workdir": str(self.folder.root),
            "name": self.config.name,
            "dataset": self.context["dataset"]["name"],
            "fingerprint": self.context["dataset"]["fingerprint"],
            "profile": self.config.profile,
            "seed": self.config.seed,
            "step": weights.step,
            "weights": weights.digest,
        }


def open_trained(workdir: epath.PathLike) -> Trained:
    """The masked-span run in `workdir`, which is only read.

    Raises:
      UserError: there is none, or it is of another kind.
    """
    folder = Workdir(workdir)
    if not folder.file(CONFIG).exists():
        raise UserError(f"{folder.root} is no workdir of a run: it has no {CONFIG}.")
    record = folder.read_json(CONFIG)
    kind = record["identity"].get("kind", DEFAULT)
    if kind != DEFAULT:
        raise UserError(
            f"{folder.root} is a run of kind {kind}, of which neither predictions nor first "
            f"weights can be taken; give a run of kind {DEFAULT}."
        )
    config = recorded_config(record)
    return Trained(folder, config, read_context(folder.root))


def check_parent(experiment: Experiment) -> None:
    """Raises UserError unless `config.init_from` names a run whose weights fit."""
    parent = open_trained(experiment.config.init_from)
    parent.check_vocabulary(experiment.dataset)
    shapes = jax.eval_shape(experiment.init, stream_key(experiment.config.seed, "init"))
    check_weights(parent.checkpoints, shapes.params)


def begin_from_parent(
    experiment: Experiment, folder: Workdir
) -> Callable[[TrainState], TrainState]:
    """`RunSpec.begin`: the first state with the weights of `config.init_from`, and whose they are.

    Optimizer, memory and step begin anew.
    """

    def begin(abstract: TrainState) -> TrainState:
        parent = open_trained(experiment.config.init_from)
        parent.check_vocabulary(experiment.dataset)
        weights = read_weights(parent.checkpoints, abstract.params)
        if jax.process_index() == 0:
            folder.write_json(PARENT, parent.origin(weights))
        shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)

        def first(params: Any) -> TrainState:
            # Copied, or jit would hand the same buffers out again, which no state may share.
            return experiment.begin(jax.tree.map(jnp.copy, params))

        return jax.jit(first, out_shardings=shardings)(weights.params)

    return begin
