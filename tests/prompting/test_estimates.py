"""Standard errors agree with theory, and clusters count as what they are."""

import math

import numpy as np
import pytest

from mmgen.prompting.estimates import as_metrics, estimate, estimates_by, paired_difference


def test_items_of_their_own_have_the_binomial_error():
    values = np.repeat([1.0, 0.0], [58, 42])
    one = estimate(values, np.arange(100))
    assert one.mean == 0.58
    assert one.se == pytest.approx(math.sqrt(0.58 * 0.42 / 99))
    assert one.low == pytest.approx(one.mean - 1.96 * one.se, abs=0.02)
    assert one.high == pytest.approx(one.mean + 1.96 * one.se, abs=0.02)
    assert one.shown.startswith("0.580 ± 0.050 [")


def test_repeating_items_within_a_cluster_adds_no_certainty():
    values = np.repeat([1.0, 0.0], [58, 42])
    alone = estimate(values, np.arange(100))
    repeated = estimate(np.repeat(values, 4), np.repeat(np.arange(100), 4))
    assert repeated.se == pytest.approx(alone.se)
    assert (repeated.n, repeated.clusters) == (400, 100)
    assert repeated.low == pytest.approx(alone.low)


def test_a_paired_difference_knows_that_items_are_the_same():
    first = np.repeat([1.0, 0.0], [60, 40])
    second = np.repeat([1.0, 0.0], [58, 42])
    difference = paired_difference(first, second, np.arange(100))
    assert difference.mean == pytest.approx(0.02)
    assert difference.se == pytest.approx(math.sqrt(0.02 * 0.98 / 99))


def test_what_is_not_defined_is_left_out():
    none = estimate(np.zeros(0), np.zeros(0))
    assert none.shown == "-"
    assert as_metrics("x", none) == {"x/n": 0}
    one = estimate(np.ones(3), np.zeros(3))
    assert as_metrics("x", one) == {"x": 1.0, "x/n": 3}
    parts = estimates_by(np.array([1.0, 0, 1]), [0, 1, 2], {"a": np.array([True, False, True])})
    assert parts["a"].mean == 1.0
