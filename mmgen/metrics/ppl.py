"""Log-perplexity and accuracy of masked tokens.

The paper's log-perplexity is item-weighted: the mean over an item's masked tokens, then the mean
over items (VisCOLL section 6; `INK-USC/VisCOLL metrics/final_scores.py:16-23`). The training loss
is token-weighted, so both are offered, each under its own name. Natural logarithms throughout.
"""

from collections.abc import Collection

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.metrics.mean import Mean, masked_mean

DETERMINERS = (
    "a",
    "an",
    "the",
    "this",
    "that",
    "these",
    "those",
    "some",
    "any",
    "each",
    "every",
    "another",
    "both",
    "either",
    "neither",
    "no",
    "all",
)
"""Words left out of the perplexity without determiners: about a quarter of COCO's masked tokens."""


def item_nll(
    nll: Float[np.ndarray, "n m"], mask: Bool[np.ndarray, "n m"]
) -> Float[np.ndarray, " n"]:
    """Mean nll over each item's masked tokens, in nats, float64[n]; NaN for an item without any."""
    count = np.count_nonzero(mask, axis=1)
    total = np.sum(nll, axis=1, where=mask, dtype=np.float64)
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)


def log_perplexity(
    nll: Float[np.ndarray, "n m"],
    mask: Bool[np.ndarray, "n m"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Mean:
    """Item-weighted log-perplexity; items without a masked token count for nothing.

    Args:
      weight: items that each item stands for, as in `masked_mean`.
    """
    per_item = item_nll(nll, mask)
    return masked_mean(per_item, np.isfinite(per_item), weight)


def token_log_perplexity(
    nll: Float[np.ndarray, "n m"],
    mask: Bool[np.ndarray, "n m"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Mean:
    """Token-weighted log-perplexity, the training loss's weighting."""
    return masked_mean(nll, mask, weight)


def token_accuracy(
    prediction: Int[np.ndarray, "n m"],
    target: Int[np.ndarray, "n m"],
    mask: Bool[np.ndarray, "n m"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Mean:
    """Share of masked tokens whose most probable token is the true one."""
    return masked_mean((prediction == target).astype(np.float64), mask, weight)


def mask_without(
    target: Int[np.ndarray, "n m"], mask: Bool[np.ndarray, "n m"], ids: Collection[int]
) -> Bool[np.ndarray, "n m"]:
    """`mask` without the positions whose true token is one of `ids` (e.g. the determiners')."""
    return mask & ~np.isin(target, np.asarray(sorted(ids), dtype=target.dtype))
