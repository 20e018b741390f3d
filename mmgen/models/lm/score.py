"""Log-probabilities of given continuations, their shared prefix read once.

A row holds a prefix and all of its choices, one after another. Every choice goes on from the
prefix's last position and sees the prefix and itself, so one pass scores them all without copying
what the prefix left behind.
"""

import functools
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mmgen.models.lm import llama
from mmgen.models.lm.buckets import batches, bucket
from mmgen.models.lm.config import LlamaConfig
from mmgen.models.lm.generate import as_embeddings, left_padded, put_rows
from mmgen.models.lm.llama import NOWHERE, Params
from mmgen.models.lm.model import LanguageModel

NO_TOKEN = -1
"""Fills up choices that are shorter than the longest."""


class Candidates(NamedTuple):
    """A prefix and what may follow it.

    Attributes:
      prefix: token ids, or embeddings [t, k] of whatever the model is to see; at least one.
      choices: token ids of each choice, at least one token each.
    """

    prefix: Int[np.ndarray, " t"] | Float[np.ndarray, "t k"]
    choices: tuple[tuple[int, ...], ...]


class ChoiceScores(NamedTuple):
    """What the model thinks of the choices.

    Attributes:
      sums: log-probability of each, in nats, summed over its tokens.
      seconds: this item's share of its batch's time.
    """

    sums: tuple[float, ...]
    seconds: float


def split_choices(
    prompt: Sequence[int], texts: Sequence[Sequence[int]]
) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Where the choices begin, and the tokens of each from there.

    A tokenizer may merge the end of the prompt with the beginning of a choice. So prompt and choice
    are tokenised as one text, and what is scored begins at the first token at which the prompt and
    any of the texts part; then all choices are scored over the same characters.

    Args:
      prompt: tokens of the prompt alone.
      texts: tokens of the prompt and each choice in one.

    Returns:
      Number of tokens that all share, and the rest of every text.
    """
    shared = min(_common(prompt, text) for text in texts)
    return shared, tuple(tuple(text[shared:]) for text in texts)


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def score(
    model: LanguageModel, items: Sequence[Candidates], rows: int
) -> Iterator[tuple[int, ChoiceScores]]:
    """Scores every item's choices; yields `(index, scores)` batch by batch, short ones first.

    Args:
      items: each short enough (longest choice included) for the config's `max_length`.
      rows: how many are worked on at once.
    """
    for members in batches(items, _shape, rows):
        started = time.monotonic()
        sums = _run(model, [items[index] for index in members], rows)
        seconds = (time.monotonic() - started) / len(members)
        for index, row in zip(members, sums, strict=False):
            yield index, ChoiceScores(tuple(float(value) for value in row), seconds)


def _shape(item: Candidates) -> tuple[int, int, int, int]:
    longest = max(map(len, item.choices))
    return bucket(len(item.prefix)), len(item.choices), bucket(longest, 1), item.prefix.ndim


def _run(model: LanguageModel, items: Sequence[Candidates], rows: int) -> Float[np.ndarray, "b c"]:
    length, count, room, _ = _shape(items[0])
    prefix, positions = left_padded([item.prefix for item in items], rows, length)
    choices = np.full((rows, count, room), NO_TOKEN, np.int32)
    for row, item in enumerate(items):
        for column, choice in enumerate(item.choices):
            choices[row, column, : len(choice)] = choice
    put = functools.partial(put_rows, model)
    sums = _scores(
        model.params,
        put(prefix),
        put(positions),
        put(choices),
        config=model.config,
        dtype=model.dtype,
    )
    return np.asarray(sums)


@functools.partial(jax.jit, static_argnames=("config", "dtype"))
def _scores(
    params: Params,
    prefix: Array,
    positions: Int[Array, "b t"],
    choices: Int[Array, "b c u"],
    *,
    config: LlamaConfig,
    dtype: jnp.dtype,
) -> Float[Array, "b c"]:
    """Summed log-probabilities of the choices after prefixes that end at the right edge."""
    rows, count, room = choices.shape
    length = positions.shape[1]
    # The last token of a choice is predicted, but predicts nothing.
    read = choices[:, :, :-1].reshape(rows, -1)
    follow = positions[:, -1:, None] + 1 + jnp.arange(room - 1)
    follow = jnp.broadcast_to(follow, (rows, count, room - 1)).reshape(rows, -1)
    follow = jnp.where(read == NO_TOKEN, NOWHERE, follow)
    embeddings = jnp.concatenate(
        [as_embeddings(params, prefix), llama.embed(params, jnp.maximum(read, 0))], axis=1
    )
    hidden, _ = llama.forward(
        params,
        config,
        embeddings,
        jnp.concatenate([positions, follow], axis=1),
        dtype=dtype,
        allowed=_apart(length, count, room - 1)[None],
    )
    last = jnp.broadcast_to(hidden[:, length - 1, None, None], (rows, count, 1, hidden.shape[-1]))
    inside = hidden[:, length:].reshape(rows, count, room - 1, hidden.shape[-1])
    predicting = jnp.concatenate([last, inside], axis=2)

    def of_token(at: Array) -> Float[Array, "b c"]:
        token = choices[:, :, at]
        scores = llama.logits(params, predicting[:, :, at], dtype)
        logs = jax.nn.log_softmax(scores, axis=-1)
        picked = jnp.take_along_axis(logs, jnp.maximum(token, 0)[..., None], axis=-1)[..., 0]
        return jnp.where(token == NO_TOKEN, 0.0, picked)

    # One token at a time: the logits of all would be many times the model's own memory.
    return jax.lax.map(of_token, jnp.arange(room)).sum(axis=0)


def _apart(prefix: int, count: int, room: int) -> Bool[Array, "t t"]:
    """Which token may see which: the prefix is seen by all, a choice by itself alone."""
    part = jnp.concatenate([jnp.zeros(prefix, int), jnp.repeat(jnp.arange(1, count + 1), room)])
    return (part[None, :] == 0) | (part[None, :] == part[:, None])
