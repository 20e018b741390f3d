"""Log-perplexity: item- and token-weighted are different numbers with different names."""

import math

import numpy as np
import pytest

from mmgen.metrics.mean import Mean, masked_mean
from mmgen.metrics.ppl import (
    item_nll,
    log_perplexity,
    mask_without,
    token_accuracy,
    token_log_perplexity,
)

NLL = np.array([[4.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
MASK = np.array([[True, False, False], [True, True, True]])


def test_item_weighted_counts_every_item_once():
    assert log_perplexity(NLL, MASK).value == pytest.approx((4 + 2) / 2)


def test_token_weighted_counts_every_token_once():
    assert token_log_perplexity(NLL, MASK).value == pytest.approx((4 + 1 + 2 + 3) / 4)


def test_padding_may_hold_anything():
    dirty = np.where(MASK, NLL, np.nan)
    assert log_perplexity(dirty, MASK).value == log_perplexity(NLL, MASK).value
    assert token_log_perplexity(dirty, MASK).value == token_log_perplexity(NLL, MASK).value


def test_an_item_without_masked_tokens_counts_for_nothing():
    mask = MASK & np.array([[False], [True]])
    assert np.isnan(item_nll(NLL, mask)[0])
    assert log_perplexity(NLL, mask) == Mean(2.0, 1.0)


def test_nothing_counted_is_undefined_not_zero():
    assert math.isnan(masked_mean(NLL, np.zeros_like(MASK)).value)


def test_parts_add_up():
    whole = log_perplexity(NLL, MASK)
    parts = log_perplexity(NLL[:1], MASK[:1]).merge(log_perplexity(NLL[1:], MASK[1:]))
    assert parts.value == pytest.approx(whole.value)


def test_determiners_are_left_out_by_the_true_token():
    target = np.array([[9, 0, 0], [5, 9, 6]])
    content = mask_without(target, MASK, [9])
    assert content.tolist() == [[False, False, False], [True, False, True]]
    assert log_perplexity(NLL, content).value == pytest.approx(2.0)


def test_accuracy_ignores_padding():
    target = np.array([[9, 0, 0], [5, 9, 6]])
    assert token_accuracy(target * [[1], [0]], target, MASK).value == pytest.approx(1 / 4)
