"""Greedy and beam decoding with cached keys and values; traceable, so that callers jit them whole.

A model gives `start(memory, length) -> cache` and `decode_step(cache, token, position) ->
(logits, cache)`, see `mmgen.models.transformer.Decoder`. Decoding ends as soon as every row has
its [EOS].
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mmgen.data.compact.vocabulary import BOS, EOS, PAD
from mmgen.models.transformer import Cache, Memory

PyTree = Any
Step = Callable[[Cache, Array, Array], tuple[Array, Cache]]

NEVER = (PAD, BOS)
"""Ids that are no prediction."""


class Decoded(NamedTuple):
    """What was decoded.

    Attributes:
      tokens: int32[b, u]; [PAD] after the [EOS], which is missing where the length was too short.
      log_prob: float32[b], of all tokens of the row together, nats.
    """

    tokens: Int[Array, "b u"]
    log_prob: Float[Array, " b"]


def greedy(model: nn.Module, params: PyTree, memory: Memory, length: int) -> Decoded:
    """The most probable token at each position, given those before; of equals the lowest id.

    Args:
      memory: what `model.encode` gave.
      length: tokens at most, [EOS] included.
    """
    step, cache = _begin(model, params, memory, length)
    rows = memory.mask.shape[0]

    def body(state: tuple) -> tuple:
        position, token, done, tokens, total, cache = state
        scores, cache = step(cache, token, position)
        best = jnp.argmax(scores, axis=-1).astype(jnp.int32)
        gained = jnp.take_along_axis(scores, best[:, None], axis=1)[:, 0]
        best = jnp.where(done, PAD, best)
        total = total + jnp.where(done, 0.0, gained)
        tokens = jax.lax.dynamic_update_slice_in_dim(tokens, best[:, None], position, axis=1)
        return position + 1, best, done | (best == EOS), tokens, total, cache

    first = (
        jnp.zeros((), jnp.int32),
        jnp.full((rows,), BOS, jnp.int32),
        jnp.zeros((rows,), jnp.bool_),
        jnp.full((rows, length), PAD, jnp.int32),
        jnp.zeros((rows,), jnp.float32),
        cache,
    )
    _, _, _, tokens, total, _ = jax.lax.while_loop(_going(length), body, first)
    return Decoded(tokens, total)


def beam(
    model: nn.Module,
    params: PyTree,
    memory: Memory,
    length: int,
    width: int,
    length_penalty: float = 0.0,
) -> Decoded:
    """The best of the `width` most probable beginnings that are kept at each position.

    Args:
      memory, length: see `greedy`.
      width: beams of a row; 1 is `greedy`.
      length_penalty: at the end the beam with the highest log-probability divided by its number of
        tokens to this power is chosen.
    """
    rows = memory.mask.shape[0]
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, width, axis=0), memory)
    step, cache = _begin(model, params, repeated, length)

    def body(state: tuple) -> tuple:
        position, token, done, tokens, total, cache = state
        scores, cache = step(cache, token.reshape(-1), position)
        scores = scores.reshape(rows, width, -1)
        # A finished beam goes on with [PAD], at no cost.
        stay = jnp.where(jnp.arange(scores.shape[-1]) == PAD, 0.0, -jnp.inf)
        scores = jnp.where(done[:, :, None], stay, scores)
        total, best, parent = _best(total[:, :, None] + scores, width)
        done, tokens = (jnp.take_along_axis(x, _as_wide(parent, x), 1) for x in (done, tokens))
        tokens = jax.lax.dynamic_update_slice_in_dim(tokens, best[:, :, None], position, axis=2)
        return position + 1, best, done | (best == EOS), tokens, total, _reorder(cache, parent)

    first = (
        jnp.zeros((), jnp.int32),
        jnp.full((rows, width), BOS, jnp.int32),
        jnp.zeros((rows, width), jnp.bool_),
        jnp.full((rows, width, length), PAD, jnp.int32),
        # All beams of a row are alike at first: only one of them counts.
        jnp.zeros((rows, width), jnp.float32).at[:, 1:].set(-jnp.inf),
        cache,
    )
    _, _, _, tokens, total, _ = jax.lax.while_loop(_going(length), body, first)
    count = jnp.maximum((tokens != PAD).sum(-1), 1).astype(jnp.float32)
    chosen = jnp.argmax(total / count**length_penalty, axis=1)[:, None]
    return Decoded(
        jnp.take_along_axis(tokens, chosen[:, :, None], axis=1)[:, 0],
        jnp.take_along_axis(total, chosen, axis=1)[:, 0],
    )


def _begin(model: nn.Module, params: PyTree, memory: Memory, length: int) -> tuple[Step, Cache]:
    """`(cache, token, position) -> (log-probabilities float32[b, v], cache)`, and the cache."""
    variables = {"params": params}

    def step(cache: Cache, token: Array, position: Array) -> tuple[Array, Cache]:
        found = model.apply(variables, cache, token, position, method="decode_step")
        logits, cache = cast(tuple[Array, Cache], found)
        scores = jax.nn.log_softmax(logits)
        return scores.at[:, jnp.array(NEVER)].set(-jnp.inf), cache

    return step, cast(Cache, model.apply(variables, memory, length, method="start"))


def _going(length: int) -> Callable[[tuple], Bool[Array, ""]]:
    def going(state: tuple) -> Array:
        position, _, done, *_ = state
        return (position < length) & ~jnp.all(done)

    return going


def _best(
    total: Float[Array, "b w v"], width: int
) -> tuple[Float[Array, "b w"], Int[Array, "b w"], Int[Array, "b w"]]:
    """The `width` best continuations of a row: their totals, tokens, and beams they continue."""
    rows, _, vocabulary = total.shape
    total, index = jax.lax.top_k(total.reshape(rows, -1), width)
    parent, token = jnp.divmod(index.astype(jnp.int32), vocabulary)
    return total, token, parent


def _as_wide(parent: Int[Array, "b w"], x: Array) -> Array:
    return parent.reshape(*parent.shape, *[1] * (x.ndim - 2))


def _reorder(cache: Cache, parent: Int[Array, "b w"]) -> Cache:
    """Each beam gets the keys and values of the one it continues."""
    rows, width = parent.shape
    source = (jnp.arange(rows)[:, None] * width + parent).reshape(-1)
    return cache._replace(keys=cache.keys[:, source], values=cache.values[:, source])
