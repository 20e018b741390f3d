"""Predicting the tokens of a masked span: the task that VisCOLL trains and evaluates."""

from typing import Any, Literal, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.scipy.special
from jaxtyping import Array, Bool, Float, Int, Key

from mmgen.data.schema import Batch
from mmgen.tasks.base import Task

PyTree = Any


def make_masked_span_task(
    model: nn.Module, weighting: Literal["token", "example"] = "token"
) -> Task:
    """Cross-entropy over the whole word table at masked positions, natural logarithm.

    Args:
      model: `(batch, key) -> logits float32[b, m, v]`.
      weighting: "token", the mean over all masked tokens, as released and as the paper's default;
        "example", the mean over an example's masked tokens, then over examples, as the released
        balanced-memory runs do (`ocl/er_bal.py:338-343`).

    The `aux` of the loss holds `nll` float32[b, m], 0 where there is no target, and `logits`, which
    cost nothing where a compiled step leaves them unused. `predict` gives
    `nll` and `prediction` int32[b, m], the best row of the table at each position independently;
    positions without a target hold -1.
    """

    def init(key: Key[Array, ""], batch: Batch) -> PyTree:
        return model.init(key, batch, None)["params"]

    def logits(params: PyTree, batch: Batch, key: Key[Array, ""] | None) -> Float[Array, "b m v"]:
        return cast(Array, model.apply({"params": params}, batch, key))

    def loss(
        params: PyTree, batch: Batch, key: Key[Array, ""] | None
    ) -> tuple[tuple[Float[Array, ""], Float[Array, ""]], PyTree]:
        target = has_target(batch)
        scores = logits(params, batch, key)
        nll = token_nll(scores, batch, target)
        if weighting == "token":
            total, count = nll.sum(), target.sum(dtype=jnp.float32)
        else:
            tokens = target.sum(-1, dtype=jnp.float32)
            total = (nll.sum(-1) / jnp.maximum(tokens, 1.0)).sum()
            count = (tokens > 0).sum(dtype=jnp.float32)
        return (total, count), {"nll": nll, "logits": scores}

    def predict(params: PyTree, batch: Batch) -> dict[str, Array]:
        scores = logits(params, batch, None)
        target = has_target(batch)
        best = jnp.argmax(scores, axis=-1).astype(jnp.int32)
        return {
            "nll": token_nll(scores, batch, target),
            "prediction": jnp.where(target, best, -1),
        }

    if weighting not in ("token", "example"):
        raise ValueError(f"weighting={weighting!r}; use 'token' or 'example'")
    return Task(init=init, loss=loss, predict=predict, logits=logits)


def has_target(batch: Batch) -> Bool[Array, "b m"]:
    """Which positions are masked tokens of a real example."""
    return batch["target_mask"] & batch["mask"][:, None]


def token_nll(
    logits: Float[Array, "b m v"], batch: Batch, target: Bool[Array, "b m"]
) -> Float[Array, "b m"]:
    """Negative log-likelihood of the true tokens in nats, 0 where there is no target."""
    return jnp.where(target, cross_entropy(logits, batch["targets"]), 0.0)


@jax.custom_vjp
def cross_entropy(logits: Float[Array, "b m v"], targets: Int[Array, "b m"]) -> Float[Array, "b m"]:
    """`-log softmax(logits)[targets]` in nats.

    The derivative is written out: one pass over the logits, instead of a stored softmax.
    """
    return _cross_entropy_forward(logits, targets)[0]


def _cross_entropy_forward(
    logits: Array, targets: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    log_total = jax.scipy.special.logsumexp(logits, axis=-1)
    true = jnp.take_along_axis(logits, targets[:, :, None], axis=-1)[:, :, 0]
    return log_total - true, (logits, targets, log_total)


def _cross_entropy_backward(
    kept: tuple[Array, Array, Array], cotangent: Array
) -> tuple[Array, None]:
    logits, targets, log_total = kept
    rows = jax.lax.broadcasted_iota(targets.dtype, logits.shape, 2)
    is_target = (rows == targets[:, :, None]).astype(logits.dtype)
    probability = jnp.exp(logits - log_total[:, :, None])
    return (probability - is_target) * cotangent[:, :, None], None


cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)
