"""Scores of novel and seen compositions: per pair first, then over pairs.

A composition is an atom (adjective or verb) with a noun; only the losses at its two tokens count
(VisCOLL Fig. 6; `INK-USC/VisCOLL metrics/comp_gen.py:99-149`). The paper averages per composition,
then over compositions; the released code averages over all tokens, here called micro.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.metrics.mean import Mean, masked_mean
from mmgen.metrics.stats import Interval, bootstrap_interval

FEW_ITEMS = 5
"""Pairs with fewer items are listed: their means hardly carry any information."""


class PairScores(NamedTuple):
    """Mean loss of each composition.

    Attributes:
      pair: index of the pair, ascending; only pairs with at least one item.
      loss: mean loss over the pair's items.
      items: number of those items.
    """

    pair: Int[np.ndarray, " p"]
    loss: Float[np.ndarray, " p"]
    items: Int[np.ndarray, " p"]


def pair_scores(
    pair: Int[np.ndarray, " n"], loss: Float[np.ndarray, " n"], use: Bool[np.ndarray, " n"]
) -> PairScores:
    """Mean loss per pair over the items with `use`; NaN losses are no items."""
    valid = use & (pair >= 0) & np.isfinite(loss)
    present, index = np.unique(pair[valid], return_inverse=True)
    items = np.bincount(index, minlength=len(present))
    total = np.bincount(index, weights=loss[valid], minlength=len(present))
    return PairScores(present.astype(np.int64), total / np.maximum(items, 1), items)


def mean_over_pairs(scores: PairScores) -> Mean:
    """The paper's value: every composition counts once."""
    return masked_mean(scores.loss, np.ones(len(scores.loss), dtype=bool))


def micro_mean(scores: PairScores) -> Mean:
    """The released code's value: every item counts once."""
    return Mean(float(scores.loss @ scores.items), float(scores.items.sum()))


def pair_interval(scores: PairScores, draws: int = 2000, seed: int = 0) -> Interval:
    """95 % bootstrap interval of the mean over pairs, the pairs being what is resampled."""
    return bootstrap_interval(scores.loss, draws=draws, seed=seed)
