"""Means with their uncertainty: t intervals, paired differences, cluster bootstrap, Welch's test.

Standard deviation and standard error are different things and never share a name.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from mmgen.core.rng import numpy_generator

_BLOCK = 1 << 20
"""Clusters that are drawn at once, which bounds the memory of a bootstrap."""


class Interval(NamedTuple):
    """An estimate with the ends of its interval; the ends are NaN where none can be given."""

    mean: float
    low: float
    high: float

    def excludes(self, value: float = 0.0) -> bool:
        """Does the interval lie wholly on one side of `value`?"""
        return self.low > value or self.high < value


class Summary(NamedTuple):
    """Values of several runs.

    Attributes:
      mean: their mean.
      sd: standard deviation of one run (n - 1 in the denominator), NaN for a single run.
      se: standard error of the mean, sd / sqrt(n), NaN for a single run.
      n: number of runs.
    """

    mean: float
    sd: float
    se: float
    n: int


def summarise(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and standard error; NaN values are refused.

    Raises:
      ValueError: no value, or a NaN among them (a missing run must be named, not averaged).
    """
    data = np.asarray(values, dtype=np.float64)
    if not len(data) or not np.all(np.isfinite(data)):
        raise ValueError(f"cannot summarise {list(values)}: every value must be a finite number")
    sd = float(np.std(data, ddof=1)) if len(data) > 1 else math.nan
    return Summary(float(np.mean(data)), sd, sd / math.sqrt(len(data)), len(data))


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student's t interval of the mean of independent values."""
    from scipy.special import stdtrit

    mean, _, se, n = summarise(values)
    if n < 2:
        return Interval(mean, math.nan, math.nan)
    half = float(stdtrit(n - 1, 0.5 + confidence / 2)) * se
    return Interval(mean, mean - half, mean + half)


def paired_t_interval(
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95
) -> Interval:
    """t interval of the mean of first - second, value by value (e.g. by seed).

    Raises:
      ValueError: the two differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"paired values must be as many: {len(first)} and {len(second)}")
    return t_interval([a - b for a, b in zip(first, second, strict=True)], confidence)


def bootstrap_interval(
    values: Float[np.ndarray, " n"], draws: int = 2000, seed: int = 0, confidence: float = 0.95
) -> Interval:
    """Percentile bootstrap interval of the mean of `values`."""
    return cluster_bootstrap(values, np.arange(len(values)), draws, seed, confidence)


def cluster_bootstrap(
    values: Float[np.ndarray, " n"],
    clusters: Shaped[np.ndarray, " n"],
    draws: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """Percentile bootstrap interval of the mean of `values` when whole clusters are resampled.

    Items of one image are not independent; `values` may be per-item differences of two runs, which
    makes the comparison paired. The ends are NaN with fewer than two clusters.
    """
    parts = np.stack([values, np.ones(len(values))], axis=1)
    return bootstrap_sums(parts, clusters, _ratio, draws, seed, confidence)


def bootstrap_sums(
    parts: Float[np.ndarray, "n k"],
    clusters: Shaped[np.ndarray, " n"],
    statistic: Callable[[Float[np.ndarray, " k"]], float],
    draws: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """`cluster_bootstrap` of a statistic of sums over the items, corpus BLEU for instance.

    Args:
      parts: what is summed, of every item.
      statistic: from the k sums to the estimate.
    """
    if not len(parts):
        return Interval(math.nan, math.nan, math.nan)
    index = np.unique(clusters, return_inverse=True)[1]
    total = np.stack([np.bincount(index, weights=column) for column in parts.T], axis=1)
    estimate = statistic(total.sum(axis=0))
    if len(total) < 2:
        return Interval(estimate, math.nan, math.nan)
    sums = _drawn_sums(total, draws, numpy_generator(seed, "metrics/bootstrap"))
    drawn = [statistic(row) for row in sums]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Interval(estimate, float(low), float(high))


def _drawn_sums(
    total: Float[np.ndarray, "c k"], draws: int, generator: np.random.Generator
) -> Float[np.ndarray, "d k"]:
    """Sums over as many clusters as there are, drawn with replacement, of every draw."""
    clusters = len(total)
    block = max(1, _BLOCK // clusters)
    found = []
    for start in range(0, draws, block):
        rows = min(block, draws - start)
        chosen = generator.integers(0, clusters, size=(rows, clusters))
        flat = (chosen + clusters * np.arange(rows)[:, None]).ravel()
        found.append(np.bincount(flat, minlength=rows * clusters).reshape(rows, clusters) @ total)
    return np.concatenate(found)


def _ratio(sums: Float[np.ndarray, " 2"]) -> float:
    return float(sums[0] / sums[1])


class WelchTest(NamedTuple):
    """Welch's test of two means known only by their standard deviations.

    Attributes:
      t: the statistic, positive where the first mean is larger.
      dof: Welch-Satterthwaite degrees of freedom.
      p: two-sided p-value.
    """

    t: float
    dof: float
    p: float


def welch_from_summaries(
    mean1: float, sd1: float, n1: int, mean2: float, sd2: float, n2: int
) -> WelchTest:
    """Do two published "mean +- sd over n runs" differ by more than their own noise?"""
    from scipy.special import stdtr

    part1, part2 = sd1**2 / n1, sd2**2 / n2
    variance = part1 + part2
    if variance == 0:
        return WelchTest(math.nan, math.nan, math.nan)
    statistic = (mean1 - mean2) / math.sqrt(variance)
    dof = variance**2 / (part1**2 / max(n1 - 1, 1) + part2**2 / max(n2 - 1, 1))
    return WelchTest(statistic, dof, float(2 * stdtr(dof, -abs(statistic))))
