"""Uncertainty: standard deviation is not standard error, and clusters are resampled whole."""

import math

import numpy as np
import pytest

from mmgen.metrics import stats


def test_summary_names_both_deviations():
    summary = stats.summarise([1.0, 2.0, 3.0])
    assert summary == (2.0, 1.0, pytest.approx(1 / math.sqrt(3)), 3)


def test_a_missing_value_is_refused_not_averaged():
    with pytest.raises(ValueError, match="finite"):
        stats.summarise([1.0, math.nan])
    with pytest.raises(ValueError, match="finite"):
        stats.summarise([])


def test_single_run_has_no_deviation():
    assert math.isnan(stats.summarise([1.0]).se)
    assert math.isnan(stats.t_interval([1.0]).low)


def test_t_interval_against_the_table():
    # t(.975, 4) = 2.776; sd = 1.5811, se = .7071.
    interval = stats.t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval.high - interval.mean == pytest.approx(2.7764 * math.sqrt(2.5 / 5), rel=1e-4)


def test_pairing_removes_what_the_pairs_share():
    first, second = [1.0, 5.0, 9.0], [0.9, 4.88, 8.9]
    assert stats.paired_t_interval(first, second).excludes(0)
    assert stats.paired_t_interval(second, first).high < 0
    with pytest.raises(ValueError, match="as many"):
        stats.paired_t_interval(first, second[:2])


def test_clusters_widen_the_interval():
    values = np.repeat([0.0, 1.0] * 10, 50)
    clusters = np.repeat(np.arange(20), 50)
    alone = stats.bootstrap_interval(values)
    together = stats.cluster_bootstrap(values, clusters)
    assert together.high - together.low > 4 * (alone.high - alone.low)
    assert together.mean == alone.mean == pytest.approx(0.5)


def test_bootstrap_is_reproducible_and_undefined_for_one_cluster():
    values = np.arange(10.0)
    assert stats.bootstrap_interval(values, seed=3) == stats.bootstrap_interval(values, seed=3)
    assert math.isnan(stats.cluster_bootstrap(values, np.zeros(10)).low)
    assert math.isnan(stats.cluster_bootstrap(np.zeros(0), np.zeros(0)).mean)


def test_welch_from_published_summaries():
    # scipy.stats.ttest_ind_from_stats(5.0, 0.3, 3, 4.2, 0.4, 3, equal_var=False)
    test = stats.welch_from_summaries(5.0, 0.3, 3, 4.2, 0.4, 3)
    assert (test.t, test.p) == (pytest.approx(2.771281), pytest.approx(0.0547, abs=1e-5))
