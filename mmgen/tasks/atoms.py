"""Naming the verb or the noun of the next utterance: CompAct's atom classification (section 5)."""

from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from mmgen.data.schema import Batch
from mmgen.tasks.base import Task
from mmgen.tasks.masked_span import cross_entropy

PyTree = Any


def make_atoms_task(model: nn.Module) -> Task:
    """Cross-entropy over the joined strings of train's verbs, or of its nouns.

    A target that is no string of train has the label -1: it adds nothing to the loss, and whatever
    is predicted is wrong.

    Args:
      model: `(batch, key) -> logits float32[b, c]`.

    The `aux` of the loss holds `nll` and `logits`, each with a target axis of length 1. `predict`
    gives `label` int32[b], its `probability` float32[b], `nll` float32[b] of the true label (0
    without one) and `count` int32[b], 1 where there is one.
    """

    def init(key: Key[Array, ""], batch: Batch) -> PyTree:
        return model.init(key, batch, None)["params"]

    def logits(params: PyTree, batch: Batch, key: Key[Array, ""] | None) -> Float[Array, "b 1 c"]:
        return cast(Array, model.apply({"params": params}, batch, key))[:, None]

    def loss(
        params: PyTree, batch: Batch, key: Key[Array, ""] | None
    ) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], PyTree]:
        scores = logits(params, batch, key)
        nll = label_nll(scores, batch)
        return (nll.sum(), has_label(batch).sum(dtype=jnp.float32)), {"nll": nll, "logits": scores}

    def predict(params: PyTree, batch: Batch) -> dict[str, Array]:
        scores = logits(params, batch, None)
        return {
            "label": jnp.argmax(scores[:, 0], axis=-1).astype(jnp.int32),
            "probability": jax.nn.softmax(scores[:, 0]).max(-1),
            "nll": label_nll(scores, batch)[:, 0],
            "count": has_label(batch).astype(jnp.int32)[:, 0],
        }

    return Task(init=init, loss=loss, predict=predict, logits=logits)


def has_label(batch: Batch) -> Bool[Array, "b 1"]:
    """Which rows are real examples with a target that train knows."""
    return ((batch["label"] >= 0) & batch["mask"])[:, None]


def label_nll(logits: Float[Array, "b 1 c"], batch: Batch) -> Float[Array, "b 1"]:
    """Negative log-likelihood of the true label in nats, 0 where there is none."""
    known = jnp.maximum(batch["label"], 0)[:, None]
    return jnp.where(has_label(batch), cross_entropy(logits, known), 0.0)
