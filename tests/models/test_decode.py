"""Greedy and beam search against each other and against decoding without a cache."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.tiny_crossmodal import ROWS, tiny_compact_batch, tiny_crossmodal
from models.tiny_models import quick_jit

from mmgen.algorithms.base import Feed
from mmgen.algorithms.plain import make_plain
from mmgen.core.optim import make_optimizer
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState
from mmgen.data.compact.vocabulary import BOS, EOS, PAD
from mmgen.models.decode import beam, greedy
from mmgen.tasks.next_utterance import make_next_utterance_task

LENGTH = 4
MODEL = tiny_crossmodal("vl", layers=1, cross_layers=1, hidden=16, dropout=0.0)


@functools.cache
def trained():
    """Weights that say something else of every row, and end some rows early."""
    task, batch = make_next_utterance_task(MODEL, LENGTH), tiny_compact_batch(rows=6)
    optimizer = make_optimizer("adamw", 2e-2, clip_norm=1.0)
    params = quick_jit(task.init)(stream_key(0, "test"), batch)
    state = TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params))
    step = quick_jit(make_plain(task, optimizer).step)
    for _ in range(40):
        state, _ = step(state, Feed(stream=batch), stream_key(0, "test"))
    return state.params


@functools.cache
def decoder(search, length, **settings):
    def run(params, batch):
        memory = MODEL.apply({"params": params}, batch, method="encode")
        return search(MODEL, params, memory, length, **settings)

    return quick_jit(run)


def decode(batch, search=greedy, length=LENGTH, **settings):
    return jax.device_get(decoder(search, length, **settings)(trained(), batch))


@functools.cache
def log_probabilities():
    """`(batch, target) -> log-probabilities [b, u, v]` by the whole model, without a cache."""
    return quick_jit(
        lambda batch: jax.nn.log_softmax(MODEL.apply({"params": trained()}, batch, None))
    )


def test_cached_greedy_equals_uncached():
    batch = tiny_compact_batch(rows=6, seed=1)
    found = decode(batch)
    tokens = np.full((6, LENGTH), PAD, np.int32)
    total, done = np.zeros(6), np.zeros(6, bool)
    for position in range(LENGTH):
        scores = np.array(log_probabilities()(dict(batch, target=tokens))[:, position])
        scores[:, [PAD, BOS]] = -np.inf
        best = scores.argmax(-1)
        total += np.where(done, 0, scores.max(-1))
        tokens[:, position] = np.where(done, PAD, best)
        done |= best == EOS
    np.testing.assert_array_equal(found.tokens, tokens)
    np.testing.assert_allclose(found.log_prob, total, atol=1e-4)
    assert len(np.unique(found.tokens, axis=0)) > 2, "rows that differ"
    assert len(np.unique((tokens != PAD).sum(-1))) > 1, "rows that end early"


def test_one_beam_is_greedy():
    batch = tiny_compact_batch(rows=6, seed=1)
    one, many = decode(batch), decode(batch, beam, width=1)
    np.testing.assert_array_equal(one.tokens, many.tokens)
    np.testing.assert_allclose(one.log_prob, many.log_prob, atol=1e-5)


@pytest.mark.parametrize(("search", "settings"), [(greedy, {}), (beam, {"width": 3})])
def test_the_batch_changes_no_prediction(search, settings):
    batch = tiny_compact_batch(rows=6, seed=1)
    whole = decode(batch, search, **settings).tokens
    for row in range(6):
        one = {name: value[row : row + 1] for name, value in batch.items()}
        np.testing.assert_array_equal(decode(one, search, **settings).tokens[0], whole[row])


def test_a_beam_as_wide_as_the_vocabulary_finds_the_best_of_two_tokens():
    batch = {name: value[:1] for name, value in tiny_compact_batch().items()}
    allowed = [token for token in range(ROWS) if token not in (PAD, BOS)]
    pairs = np.array([p for p in itertools.product(allowed, allowed) if p[0] != EOS], np.int32)
    repeated = {name: np.repeat(value, len(pairs), axis=0) for name, value in batch.items()}
    scores = np.array(log_probabilities()(dict(repeated, target=pairs)))
    rows = np.arange(len(pairs))
    total = scores[rows, 0, pairs[:, 0]] + scores[rows, 1, pairs[:, 1]]
    ended = scores[0, 0, EOS]

    found = decode(batch, beam, length=2, width=ROWS)
    best = pairs[total.argmax()] if total.max() > ended else np.array([EOS, PAD])
    np.testing.assert_array_equal(found.tokens[0], best)
    np.testing.assert_allclose(found.log_prob[0], max(total.max(), ended), atol=1e-4)


def test_more_beams_are_no_worse_and_a_penalty_favours_length():
    batch = tiny_compact_batch(rows=6, seed=1)
    one, many = decode(batch), decode(batch, beam, width=3)
    assert many.log_prob.mean() >= one.log_prob.mean() - 1e-5
    long = decode(batch, beam, width=3, length_penalty=5.0)
    assert (long.tokens != PAD).sum() >= (many.tokens != PAD).sum()
