"""Sentence BLEU equals the COCO caption toolkit's, constants included."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.metrics.bleu import bleu_ceiling, sacrebleu_sentence, sentence_bleu


def literal_bleu(prediction, target, max_order):
    """The toolkit's formula, n-gram by n-gram, on one pair of token lists."""
    scores, product = [], 1.0
    for order in range(1, max_order + 1):
        ours = Counter(tuple(prediction[i : i + order]) for i in range(len(prediction) - order + 1))
        true = Counter(tuple(target[i : i + order]) for i in range(len(target) - order + 1))
        correct = sum(min(count, true[gram]) for gram, count in ours.items())
        product *= (float(correct) + 1e-15) / (float(max(0, len(prediction) - order + 1)) + 1e-9)
        scores.append(product ** (1 / order))
    ratio = (len(prediction) + 1e-15) / (len(target) + 1e-9)
    if ratio < 1:
        scores = [score * math.exp(1 - 1 / ratio) for score in scores]
    return scores


def arrays(rows):
    width = max(1, *(len(row) for row in rows))
    ids = np.full((len(rows), width), 99)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, np.array([len(row) for row in rows])


def score(predictions, targets, order=2):
    (ours, ours_length), (true, true_length) = arrays(predictions), arrays(targets)
    return sentence_bleu(ours, true, ours_length, true_length, order)


def test_one_token_span_scores_a_thousandth_on_bleu2_even_when_right():
    assert score([[7]], [[7]])[0] == pytest.approx([1.0, 0.001], abs=1e-8)


def test_right_two_token_span_scores_one():
    assert score([[3, 7]], [[3, 7]])[0] == pytest.approx([1.0, 1.0], abs=1e-8)


def test_a_dog_for_a_cat():
    assert score([[1, 5]], [[1, 6]])[0] == pytest.approx([0.5, 0.0], abs=1e-7)


def test_repeated_word_is_counted_as_often_as_the_reference_has_it():
    assert score([[1, 1, 1, 1]], [[1, 2, 1, 3]])[0, 0] == pytest.approx(0.5, abs=1e-8)


def test_shorter_hypothesis_pays_the_brevity_penalty():
    assert score([[1, 2]], [[1, 2, 3, 4]])[0, 0] == pytest.approx(math.exp(-1), abs=1e-6)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 4), min_size=1, max_size=8),
            st.lists(st.integers(0, 4), min_size=1, max_size=8),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 4),
)
def test_equals_the_literal_formula(pairs, order):
    predictions, targets = [p for p, _ in pairs], [t for _, t in pairs]
    expected = [literal_bleu(p, t, order) for p, t in pairs]
    np.testing.assert_allclose(score(predictions, targets, order), expected, rtol=1e-9, atol=0)


def test_large_ids_and_many_rows_do_not_overflow():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 2**31 - 1, size=(9000, 6))
    length = np.full(9000, 6)
    np.testing.assert_allclose(sentence_bleu(ids, ids, length, length, 4), 1.0, atol=1e-8)


def test_ceiling_is_what_a_perfect_model_reaches():
    assert bleu_ceiling(np.array([1, 2, 5])) == pytest.approx([0.001, 1, 1], abs=1e-8)


def test_no_rows_give_no_scores():
    empty, length = np.zeros((0, 3), dtype=int), np.zeros(0, dtype=int)
    assert sentence_bleu(empty, empty, length, length).shape == (0, 2)


def test_sacrebleu_differs_where_its_smoothing_does():
    (ours, length), (true, _) = arrays([[7], [1, 5], [1, 2]]), arrays([[7], [1, 6], [1, 2]])
    scores = sacrebleu_sentence(ours, true, length, length)
    # Effective order: a one-token span is judged by its unigram; exp smoothing: a missed bigram
    # counts as half of one.
    assert scores[0] == pytest.approx([1.0, 1.0])
    assert scores[1] == pytest.approx([0.5, math.sqrt(0.5 * 0.5)])
    assert scores[2] == pytest.approx([1.0, 1.0])
