"""Writing the next utterance: what CompAct trains its encoder-decoders on (section 5)."""

from typing import Any, cast

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from mmgen.data.compact.vocabulary import PAD
from mmgen.data.schema import Batch
from mmgen.models.decode import beam, greedy
from mmgen.models.transformer import Memory
from mmgen.tasks.base import Task
from mmgen.tasks.masked_span import cross_entropy

PyTree = Any


def make_next_utterance_task(
    model: nn.Module, length: int, beams: int = 1, length_penalty: float = 0.0
) -> Task:
    """Cross-entropy of the target's tokens, [EOS] included, each given the true ones before it.

    Args:
      model: `(batch, key) -> logits float32[b, u, v]`, with what decoding needs, see
        `mmgen.models.crossmodal.CrossModal`.
      length: tokens to decode at most, [EOS] included.
      beams: 1 decodes greedily.
      length_penalty: see `mmgen.models.decode.beam`.

    The loss is a mean over tokens; its `aux` holds `nll` float32[b, u] and `logits`. `predict`
    gives `tokens` int32[b, length], `nll` float32[b] and `count` int32[b] of the target's tokens.
    """

    def init(key: Key[Array, ""], batch: Batch) -> PyTree:
        return model.init(key, batch, None)["params"]

    def logits(params: PyTree, batch: Batch, key: Key[Array, ""] | None) -> Float[Array, "b u v"]:
        return cast(Array, model.apply({"params": params}, batch, key))

    def loss(
        params: PyTree, batch: Batch, key: Key[Array, ""] | None
    ) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], PyTree]:
        scores = logits(params, batch, key)
        nll = token_nll(scores, batch)
        count = has_token(batch).sum(dtype=jnp.float32)
        return (nll.sum(), count), {"nll": nll, "logits": scores}

    def predict(params: PyTree, batch: Batch) -> dict[str, Array]:
        variables = {"params": params}
        memory = cast(Memory, model.apply(variables, batch, method="encode"))
        scores = cast(Array, model.apply(variables, memory, batch["target"], method="score"))
        if beams == 1:
            decoded = greedy(model, params, memory, length)
        else:
            decoded = beam(model, params, memory, length, beams, length_penalty)
        return {
            "tokens": decoded.tokens,
            "nll": token_nll(scores, batch).sum(-1),
            "count": has_token(batch).sum(-1),
        }

    return Task(init=init, loss=loss, predict=predict, logits=logits)


def has_token(batch: Batch) -> Bool[Array, "b u"]:
    """Which positions are tokens of the target of a real example."""
    return (batch["target"] != PAD) & batch["mask"][:, None]


def token_nll(logits: Float[Array, "b u v"], batch: Batch) -> Float[Array, "b u"]:
    """Negative log-likelihood of each token of the target in nats, 0 where there is none."""
    return jnp.where(has_token(batch), cross_entropy(logits, batch["target"]), 0.0)
