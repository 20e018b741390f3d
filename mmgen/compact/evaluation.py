"""Predicting a split of CompAct: from parameters to records, on any mesh."""

import functools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from mmgen.algorithms.base import Feed
from mmgen.compact.experiment import CompactExperiment
from mmgen.compact.records import make_records
from mmgen.core.mesh import Mesh, batch_shards, local_rows, put_feed
from mmgen.data.compact.batches import eval_batches
from mmgen.data.schema import IGNORE_ID, Batch
from mmgen.evaluation.predictions import Record
from mmgen.evaluation.run import to_host

PyTree = Any


def predict_split(
    experiment: CompactExperiment, params: PyTree, mesh: Mesh, split: str
) -> list[Record]:
    """Records of every window of a split, by row.

    Every process must call it, for the model runs on all of them together; all of them get all
    records.

    Raises:
      Diverged: a loss is not finite.
    """
    instances = experiment.dataset.split(split)
    unseen, known = experiment.dataset.unseen(split), _known(experiment, split)
    records: list[Record] = []
    for output in _outputs(experiment, params, mesh, split):
        found = make_records(
            instances,
            unseen,
            experiment.config.task,
            output["ids"],
            _texts(experiment, output),
            output["nll"],
            output["count"],
            known,
        )
        for record, count in zip(found, output["count"], strict=True):
            if count == 0:
                # A label that train does not know has no probability, and none is made up.
                record["nll"] = None
        records += found
    return sorted(records, key=lambda record: record["id"])


def _outputs(
    experiment: CompactExperiment, params: PyTree, mesh: Mesh, split: str
) -> Iterator[dict[str, np.ndarray]]:
    """What the model gives for the real rows, batch by batch, on the host."""
    shards = batch_shards(mesh)
    size = -(-experiment.config.evaluation.batch_size // shards) * shards
    batches = eval_batches(
        experiment.splits[split],
        experiment.widths,
        size,
        local_rows=partial(local_rows, mesh=mesh),
    )
    compiled = _compiled(experiment.task.predict)
    pending = None
    for batch in batches:
        # The device works on this batch while the host turns the previous one into records.
        feed = put_feed(Feed(stream=batch), mesh, rows=(size,))
        output = compiled(params, feed.stream)
        if pending is not None:
            yield _real(pending)
        pending = output
    if pending is not None:
        yield _real(pending)


@functools.lru_cache(maxsize=8)
def _compiled(predict: Callable[..., dict[str, jax.Array]]) -> Callable[..., dict[str, jax.Array]]:
    """`predict` under jit, with the row numbers beside its results."""

    def run(params: PyTree, batch: Batch) -> dict[str, jax.Array]:
        return {"ids": batch["ids"], **predict(params, batch)}

    return jax.jit(run)


def _real(output: dict[str, jax.Array]) -> dict[str, np.ndarray]:
    found = to_host(output)
    real = found["ids"] != IGNORE_ID
    return {name: value[real] for name, value in found.items()}


def _texts(experiment: CompactExperiment, output: dict[str, np.ndarray]) -> list[str]:
    labels = experiment.inputs.labels
    if labels is None:
        return [experiment.inputs.vocabulary.decode(row) for row in output["tokens"].tolist()]
    return [labels.strings[label] for label in output["label"].tolist()]


def _known(experiment: CompactExperiment, split: str) -> dict[str, np.ndarray]:
    """What a built-in world knows of every window, of the system with the run's own modalities."""
    known = experiment.dataset.known(split)
    if not known:
        return {}
    from mmgen.data.worlds.kitchen_grammar import MODALITIES, MODALITY_SETS

    # What is taken from another window says nothing of this one.
    data = experiment.config.dataset
    told = set(experiment.inputs.features) - {*data.dropped, *data.shuffled}
    seen = told & set(MODALITIES)
    found = {}
    for name, values in known.items():
        who, system, score = name.split("/")
        if set(MODALITY_SETS[system]) == seen:
            found[f"{who}_{score}"] = values
    return found
