"""Judging a judge: on images whose labels are known, against another judge, and what follows.

An observed accuracy is biased by the judge's errors: of right outputs it accepts a share `hit`, of
wrong ones a share `false`; the accuracy itself is then (observed - false) / (hit - false)
(Rogan and Gladen 1978).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Shaped

from mmgen.core.rng import numpy_generator
from mmgen.metrics.stats import Interval
from mmgen.prompting.estimates import Estimate, estimate

DRAWS = 2000


class Agreement(NamedTuple):
    """Two raters on the same items.

    Attributes:
      share: of items on which they agree.
      kappa: Cohen's kappa with its bootstrap interval over clusters: agreement beyond chance.
    """

    share: Estimate
    kappa: Interval


class Audit(NamedTuple):
    """A judge on images whose labels are known.

    Attributes:
      accuracy: share of right judgements, abstentions counting as wrong.
      abstained: share of abstentions.
      kappa: agreement with the labels beyond chance.
      hit: share of right outputs that are accepted: the accuracy.
      false: share of outputs of any other label that are accepted as a given one.
    """

    accuracy: Estimate
    abstained: float
    kappa: Interval
    hit: float
    false: float


def audit(
    judged: Int[np.ndarray, " n"],
    labels: Int[np.ndarray, " n"],
    options: int,
    clusters: Shaped[np.ndarray, " n"],
) -> Audit:
    """Audit a judge's answers on items with known labels.

    Args:
      judged: positions of options, below 0 for none.
      labels: positions of the true ones.
      options: how many options there are.
      clusters: items of one cluster are resampled together.
    """
    right = (judged == labels).astype(np.float64)
    abstained = float(np.mean(judged < 0))
    accuracy = estimate(right, clusters)
    wrong = 1 - accuracy.mean - abstained
    return Audit(
        accuracy=accuracy,
        abstained=abstained,
        kappa=kappa(judged, labels, options, clusters),
        hit=accuracy.mean,
        false=wrong / (options - 1),
    )


def agreement(
    first: Int[np.ndarray, " n"],
    second: Int[np.ndarray, " n"],
    options: int,
    clusters: Shaped[np.ndarray, " n"],
) -> Agreement:
    """How far two judges agree; an abstention is an answer like any other."""
    same = (np.maximum(first, -1) == np.maximum(second, -1)).astype(np.float64)
    return Agreement(estimate(same, clusters), kappa(first, second, options, clusters))


def kappa(
    first: Int[np.ndarray, " n"],
    second: Int[np.ndarray, " n"],
    options: int,
    clusters: Shaped[np.ndarray, " n"],
    seed: int = 0,
) -> Interval:
    """Cohen's kappa of two raters with a 95 % bootstrap interval over clusters.

    NaN where both raters give one and the same answer throughout, so that chance explains all.
    """
    index = np.unique(np.asarray(clusters), return_inverse=True)[1]
    groups, size = int(index.max()) + 1, options + 1
    table = np.zeros((groups, size * size))
    # Abstentions are a row and a column of their own.
    cell = (np.maximum(first, -1) + 1) * size + np.maximum(second, -1) + 1
    np.add.at(table, (index, cell), 1)
    value = _kappa(table.sum(axis=0, keepdims=True), size)[0]
    if groups < 2:
        return Interval(value, math.nan, math.nan)
    generator = numpy_generator(seed, "judges/kappa")
    weights = generator.multinomial(groups, np.full(groups, 1 / groups), size=DRAWS)
    drawn = _kappa(weights @ table, size)
    low, high = (
        np.nanpercentile(drawn, [2.5, 97.5]) if np.isfinite(drawn).any() else (math.nan,) * 2
    )
    return Interval(value, float(low), float(high))


def corrected(observed: float, hit: float, false: float) -> float:
    """The accuracy behind an observed one; NaN for a judge no better than chance, else in [0, 1].

    Args:
      hit, false: of the judge, see the module.
    """
    if hit <= false:
        return math.nan
    return min(max((observed - false) / (hit - false), 0.0), 1.0)


def plant_errors(
    labels: Int[np.ndarray, " n"], options: int, rate: float, seed: int = 0
) -> Int[np.ndarray, " n"]:
    """Judgements of a judge that errs at this rate, each wrong option as often as any other."""
    generator = numpy_generator(seed, "judges/planted")
    wrong = (labels + generator.integers(1, options, len(labels))) % options
    return np.where(generator.random(len(labels)) < rate, wrong, labels)


def _kappa(tables: np.ndarray, size: int) -> np.ndarray:
    """Kappa of each flat table of counts."""
    joint = tables.reshape(-1, size, size)
    joint = joint / joint.sum(axis=(1, 2), keepdims=True)
    observed = np.trace(joint, axis1=1, axis2=2)
    chance = (joint.sum(axis=1) * joint.sum(axis=2)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chance < 1, (observed - chance) / (1 - chance), math.nan)
