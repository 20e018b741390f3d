"""Unigram BLEU of a corpus, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.metrics.corpus_bleu import bleu1, sacrebleu1, unigram_counts

WORDS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=5)
CORPUS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)


def score(*texts):
    """BLEU of (prediction, target) texts."""
    counts = unigram_counts(*zip(*((a.split(), b.split()) for a, b in texts), strict=True))
    return bleu1(counts.sum(axis=0))


def test_golden_values():
    assert score(("put_down cup", "put_down cup")) == 1
    # 1 of 2 tokens, as many as in the reference.
    assert score(("put_down cup", "wash cup")) == 0.5
    # 1 of 1, but one token for three: exp(1 - 3 / 1).
    assert score(("cup", "put down cup")) == pytest.approx(math.exp(-2))
    # Sums over the corpus, not a mean: 3 of 5, and longer than the reference.
    assert score(("cup", "cup"), ("put the cup in", "put down cup")) == pytest.approx(3 / 5)
    # A word counts as often as the reference has it.
    assert score(("cup cup cup", "cup the knife")) == pytest.approx(1 / 3)


def test_no_match_is_zero_and_no_corpus_is_undefined():
    assert score(("knife", "cup")) == 0
    assert score(("", "cup")) == 0
    assert math.isnan(bleu1(unigram_counts([], []).sum(axis=0)))


def test_corpora_must_be_equally_long():
    with pytest.raises(ValueError, match="argument"):
        unigram_counts([["a"]], [])


@settings(deadline=None, max_examples=50)
@given(CORPUS)
def test_it_is_sacrebleus_of_order_one(corpus):
    ours, true = zip(*corpus, strict=True)
    counts = unigram_counts(ours, true)
    # sacrebleu smooths the precision of a corpus without a match.
    if counts[:, 0].sum():
        expected = sacrebleu1([" ".join(a) for a in ours], [" ".join(b) for b in true])
        assert bleu1(counts.sum(axis=0)) == pytest.approx(expected)


@settings(deadline=None, max_examples=50)
@given(CORPUS, st.randoms())
def test_neither_the_order_of_items_nor_of_words_counts(corpus, random):
    shuffled = [(random.sample(a, len(a)), b) for a, b in random.sample(corpus, len(corpus))]
    values = [bleu1(unigram_counts(*zip(*c, strict=True)).sum(axis=0)) for c in (corpus, shuffled)]
    assert values[0] == pytest.approx(values[1])
    assert 0 <= values[0] <= 1


@settings(deadline=None, max_examples=50)
@given(CORPUS)
def test_sums_of_parts_are_those_of_the_whole(corpus):
    whole = unigram_counts(*zip(*corpus, strict=True))
    parts = [unigram_counts([a], [b]) for a, b in corpus]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
