"""A share with its uncertainty, and the difference of two systems on the same items."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from mmgen.metrics.stats import cluster_bootstrap


class Estimate(NamedTuple):
    """A mean over items.

    Attributes:
      mean: NaN without items.
      se: its standard error, clusters being independent; NaN with fewer than two of them.
      low, high: 95 % bootstrap interval over clusters; NaN likewise.
      n: number of items.
      clusters: number of clusters.
    """

    mean: float
    se: float
    low: float
    high: float
    n: int
    clusters: int

    @property
    def shown(self) -> str:
        """ "0.580 ± 0.049 [0.48, 0.67]", or a dash without items."""
        if not self.n:
            return "-"
        if math.isnan(self.se):
            return f"{self.mean:.3f}"
        return f"{self.mean:.3f} ± {self.se:.3f} [{self.low:.2f}, {self.high:.2f}]"


def estimate(values: Float[np.ndarray, " n"], clusters: Shaped[np.ndarray, " n"]) -> Estimate:
    """Mean of `values` with its error when items of one cluster belong together.

    The standard error is that of a ratio of cluster sums; with clusters of one item it is
    sd / sqrt(n).
    """
    values = np.asarray(values, np.float64)
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, math.nan, 0, 0)
    index = np.unique(np.asarray(clusters), return_inverse=True)[1]
    count = np.bincount(index)
    mean = float(values.mean())
    interval = cluster_bootstrap(values, index)
    se = math.nan
    if len(count) > 1:
        residual = np.bincount(index, weights=values) - mean * count
        scale = len(count) / (len(count) - 1)
        se = math.sqrt(scale * float(residual @ residual)) / len(values)
    return Estimate(mean, se, interval.low, interval.high, len(values), len(count))


def estimates_by(
    values: Float[np.ndarray, " n"],
    clusters: Shaped[np.ndarray, " n"],
    groups: Mapping[str, Shaped[np.ndarray, " n"]],
) -> dict[str, Estimate]:
    """An estimate for each named subset.

    Args:
      groups: name -> which items belong to it.
    """
    clusters = np.asarray(clusters)
    return {name: estimate(values[use], clusters[use]) for name, use in groups.items()}


def paired_difference(
    first: Float[np.ndarray, " n"],
    second: Float[np.ndarray, " n"],
    clusters: Shaped[np.ndarray, " n"],
) -> Estimate:
    """Mean of first - second, item by item."""
    return estimate(np.asarray(first, np.float64) - np.asarray(second, np.float64), clusters)


def as_metrics(name: str, one: Estimate) -> dict[str, float]:
    """`name`, `name/se`, `name/low`, `name/high` and `name/n`; what is not defined is left out."""
    if not one.n:
        return {f"{name}/n": 0}
    values = {
        name: one.mean,
        f"{name}/se": one.se,
        f"{name}/low": one.low,
        f"{name}/high": one.high,
    }
    return {key: v for key, v in values.items() if not math.isnan(v)} | {f"{name}/n": one.n}
