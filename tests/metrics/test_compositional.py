"""Compositions: mean per pair first, then over pairs; the micro mean has its own name."""

import numpy as np
import pytest

from mmgen.metrics import compositional

PAIR = np.array([3, 3, 3, 3, 8, -1, 8])
LOSS = np.array([1.0, 1.0, 1.0, 1.0, 5.0, 100.0, np.nan])
USE = np.ones(7, dtype=bool)


def test_every_pair_counts_once_whatever_its_number_of_items():
    scores = compositional.pair_scores(PAIR, LOSS, USE)
    assert scores.pair.tolist() == [3, 8]
    assert scores.items.tolist() == [4, 1]
    assert compositional.mean_over_pairs(scores).value == pytest.approx(3.0)


def test_micro_mean_counts_items():
    scores = compositional.pair_scores(PAIR, LOSS, USE)
    assert compositional.micro_mean(scores).value == pytest.approx(9 / 5)


def test_only_chosen_items_count():
    scores = compositional.pair_scores(PAIR, LOSS, PAIR == 8)
    assert compositional.mean_over_pairs(scores).value == pytest.approx(5.0)


def test_interval_resamples_pairs_and_is_reproducible():
    scores = compositional.pair_scores(PAIR, LOSS, USE)
    interval = compositional.pair_interval(scores)
    assert interval == compositional.pair_interval(scores)
    assert (interval.low, interval.high) == (pytest.approx(1.0), pytest.approx(5.0))
    assert interval.mean == pytest.approx(3.0)


def test_one_pair_has_no_interval():
    interval = compositional.pair_interval(compositional.pair_scores(PAIR, LOSS, PAIR == 3))
    assert np.isnan(interval.low)
