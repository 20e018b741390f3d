"""Baselines without a model: how often a token stands at a position of a span of some length.

On real captions they are hard to beat: on COCO-shift's test split, fitted on its dev split, the
position x span-length unigram is far below the published vanilla run, which therefore forgot even
how frequent words are.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

ADDED_COUNT = 0.1
"""Count added to every token of the vocabulary, so that none has probability 0."""

BACKOFF_WEIGHT = 100.0
"""Weight, in tokens, of the unigram distribution within a cell of position and span length."""


class SpanUnigram(NamedTuple):
    """Counts of masked tokens in training.

    With C cells of (span length, position in the span):

    Attributes:
      token: float64[v], probability of each token, smoothed by `ADDED_COUNT`.
      cell_token: float64[C, v], counts of the tokens in each cell.
      longest: longest span with cells of its own; positions of longer ones share the last cell,
        which is empty, and thus get the plain unigram.
    """

    token: Float[np.ndarray, " v"]
    cell_token: Float[np.ndarray, "c v"]
    longest: int


def fit_span_unigram(
    target: Int[np.ndarray, "n m"], mask: Bool[np.ndarray, "n m"], vocabulary_size: int
) -> SpanUnigram:
    """Counts over the training split's masked tokens; `mask` is True from the span's start on."""
    longest = int(mask.sum(axis=1).max(initial=1))
    count = np.bincount(target[mask], minlength=vocabulary_size).astype(np.float64)
    token = (count + ADDED_COUNT) / (count.sum() + ADDED_COUNT * vocabulary_size)
    cells = longest * (longest + 1) // 2 + 1
    flat = _cells(mask, longest)[mask] * vocabulary_size + target[mask]
    cell_token = np.bincount(flat, minlength=cells * vocabulary_size).astype(np.float64)
    return SpanUnigram(token, cell_token.reshape(cells, vocabulary_size), longest)


def unigram_nll(model: SpanUnigram, target: Int[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """-log p(token), in nats."""
    return -np.log(model.token[target])


def span_unigram_nll(
    model: SpanUnigram, target: Int[np.ndarray, "n m"], mask: Bool[np.ndarray, "n m"]
) -> Float[np.ndarray, "n m"]:
    """-log p(token | position in the span, span length), in nats.

    p = (count in the cell + BACKOFF_WEIGHT p(token)) / (tokens of the cell + BACKOFF_WEIGHT).
    """
    cell = _cells(mask, model.longest)
    size = model.cell_token.sum(axis=1)
    weighted = model.cell_token[cell, target] + BACKOFF_WEIGHT * model.token[target]
    return -np.log(weighted / (size[cell] + BACKOFF_WEIGHT))


def unigram_prediction(model: SpanUnigram, mask: Bool[np.ndarray, "n m"]) -> Int[np.ndarray, "n m"]:
    """The most frequent token, everywhere."""
    return np.full(mask.shape, int(np.argmax(model.token)))


def span_unigram_prediction(
    model: SpanUnigram, mask: Bool[np.ndarray, "n m"]
) -> Int[np.ndarray, "n m"]:
    """The most probable token of each position's cell."""
    smoothed = model.cell_token + BACKOFF_WEIGHT * model.token
    return np.argmax(smoothed, axis=1)[_cells(mask, model.longest)]


def _cells(mask: np.ndarray, longest: int) -> np.ndarray:
    """Number of the (length, position) cell of every slot; the last, empty cell takes the rest."""
    length = mask.sum(axis=1)[:, None]
    position = np.arange(mask.shape[1])[None, :]
    cell = length * (length - 1) // 2 + position
    last = longest * (longest + 1) // 2
    return np.where((position < length) & (length <= longest), cell, last)
