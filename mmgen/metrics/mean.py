"""A mean kept as (sum, count), so that parts can be added before dividing."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Mean:
    """A weighted mean before the division.

    Attributes:
      total: sum of the values.
      count: number (or weight) of the values.
    """

    total: float
    count: float

    @property
    def value(self) -> float:
        """`total / count`; NaN where nothing was counted, never zero."""
        return self.total / self.count if self.count else math.nan

    def merge(self, other: "Mean") -> "Mean":
        """The mean over both sets of values."""
        return Mean(self.total + other.total, self.count + other.count)


def masked_mean(
    values: Float[np.ndarray, "*shape"],
    mask: Bool[np.ndarray, "*shape"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Mean:
    """Mean of `values` where `mask` is True; values under a False mask may be anything.

    Args:
      weight: of each index of the first axis; None for equal weights.
    """
    if weight is None:
        total = np.sum(values, where=mask, dtype=np.float64)
        return Mean(float(total), float(np.count_nonzero(mask)))
    weights = np.broadcast_to(weight.reshape(-1, *[1] * (mask.ndim - 1)), mask.shape)
    total = np.sum(values * weights, where=mask, dtype=np.float64)
    return Mean(float(total), float(np.sum(weights, where=mask, dtype=np.float64)))
