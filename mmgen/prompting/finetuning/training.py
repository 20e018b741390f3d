"""One update of adapters: the loss on answers alone, gradients summed over small batches."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from mmgen.algorithms.base import Feed, Scalars, apply_update
from mmgen.core.compiled_step import StepFn
from mmgen.core.state import TrainState
from mmgen.data.schema import Batch
from mmgen.models.layers import take_positions
from mmgen.models.lm import llama, llava, lora
from mmgen.models.lm.config import LlamaConfig

Frozen = Mapping[str, Any]
"""`text`: parameters of the language model; `features`: of all images, if it reads any."""


class Learner(NamedTuple):
    """What is trained, but for its arrays.

    Attributes:
      config: of the language model.
      lora: of the adapters.
      dtype: of the products' operands.
      remat: compute layers again in the backward pass, for long prompts.
    """

    config: LlamaConfig
    lora: lora.LoraConfig
    dtype: Any = jnp.float32
    remat: bool = True


def answer_nll(
    learner: Learner,
    frozen: Frozen,
    adapters: lora.Adapters,
    batch: Batch,
    key: Key[Array, ""] | None,
) -> Float[Array, "b m"]:
    """Negative log-likelihood of every answer token, 0 where there is none.

    Args:
      batch: see `packing.pack`.
      key: of dropout; None switches it off.
    """
    text, dtype = frozen["text"], learner.dtype
    if "sources" in batch:
        embeddings = llava.embed(frozen, batch["tokens"], batch["sources"], frozen["features"])
    else:
        embeddings = llama.embed(text, batch["tokens"])
    adapter = lora.as_adapter(adapters, learner.lora, key, dtype)
    hidden, _ = llama.forward(
        text,
        learner.config,
        embeddings,
        batch["positions"],
        dtype=dtype,
        adapter=adapter,
        remat=learner.remat,
    )
    # The head is as wide as the vocabulary: it sees the answers' positions alone.
    logits = llama.logits(text, take_positions(hidden, batch["target_positions"]), dtype)
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"])
    return jnp.where(batch["target_mask"], nll, 0.0)


def example_losses(nll: Float[Array, "b m"], batch: Batch) -> Float[Array, " b"]:
    """Mean over each answer's tokens; 0 for rows without an example."""
    return nll.sum(1) / jnp.maximum(batch["target_mask"].sum(1), 1)


def make_step(learner: Learner, optimizer: optax.GradientTransformation, batch_size: int) -> StepFn:
    """A step over a feed of several small batches of `batch_size`.

    The loss is the mean over examples of the mean over an answer's tokens: what accumulating over
    batches of one example computes, as the release does.
    """

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        batches = _small_batches(feed.stream, batch_size)
        examples = feed.stream["mask"].sum().astype(jnp.float32)

        def objective(adapters: Any, batch: Batch, key: Array) -> Array:
            nll = answer_nll(learner, feed.side, adapters, batch, key)
            return example_losses(nll, batch).sum() / jnp.maximum(examples, 1)

        def accumulate(total: Any, xs: Any) -> tuple[Any, None]:
            added = jax.value_and_grad(objective)(state.params, *xs)
            return jax.tree.map(jnp.add, total, added), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state.params))
        keys = jax.random.split(key, len(batches["ids"]))
        (loss, grads), _ = jax.lax.scan(accumulate, zero, (batches, keys))
        params, opt_state = apply_update(optimizer, state.params, state.opt_state, grads, examples)
        scalars = {
            "loss": loss,
            "gradient_norm": optax.tree.norm(grads),
            "answer_tokens": feed.stream["target_mask"].sum().astype(jnp.float32),
        }
        return state.replace(step=state.step + 1, params=params, opt_state=opt_state), scalars

    return step


def _small_batches(batch: Batch, size: int) -> dict[str, Array]:
    """[n * size, ...] -> [n, size, ...]; strided, so that each spreads over the same devices."""
    return {
        name: jnp.moveaxis(jnp.asarray(value).reshape(size, -1, *value.shape[1:]), 1, 0)
        for name, value in batch.items()
    }


def warm_up_cosine(peak: float, steps: int, warm_up: float) -> optax.Schedule:
    """Learning rate of each update: linear from 0, then half a cosine down to 0.

    As Hugging Face's `get_cosine_schedule_with_warmup`, whose first update has rate 0.

    Args:
      warm_up: share of the steps, rounded up.
    """
    rising = math.ceil(steps * warm_up)

    def rate(update: Array) -> Array:
        progress = (update - rising) / max(steps - rising, 1)
        falling = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(progress, 1.0)))
        return peak * jnp.where(update < rising, update / max(rising, 1), falling)

    return rate
