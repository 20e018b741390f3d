"""Balanced memories make the swap that a slow, obvious implementation finds best."""

import collections
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmgen.errors import UserError
from mmgen.memory.balanced import make_balanced_forget, make_balanced_sqrt, masked_words
from mmgen.memory.divergence import DIVERGENCES
from mmgen.memory.plan import make_plan, memory_at
from mmgen.memory.stop_words import FUNCTION_WORDS, function_word_ids

CAPACITY, WORDS, WIDTH, N, B = 5, 7, 3, 34, 6


balanced_sqrt = functools.cache(make_balanced_sqrt)


def stream_words(seed=0):
    """Masked words of N rows: some twice in a row, some rows shorter, one without any."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.5, (N, WIDTH)), WORDS) - 1
    words[np.arange(WIDTH) >= rng.integers(1, WIDTH + 1, N)[:, None]] = -1
    words[20] = -1
    return words.astype(np.int32)


ROWS = np.full(36, -1, np.int32)
ROWS[:N] = np.random.default_rng(1).permutation(N)
ROWS = ROWS.reshape(-1, B)


def slow_divergence(divergence, memory, target):
    """Of the words of all stored examples to the target, up to terms that a swap leaves alone."""
    counts = collections.Counter(word for words in memory for word in words if word >= 0)
    total = sum(counts.values())
    mass = sum(target.values())
    if divergence == "memory_target":
        return sum(
            c / total * math.log((c / total) / (target[w] / mass)) for w, c in counts.items()
        )
    return -sum(t / mass * math.log((counts[w] + 1) / max(total, 1)) for w, t in target.items())


def check_slots(divergence, words, rows, slots, weigh):
    """Follows the chosen slots; at each example they must be the best swap, or rightly none.

    `weigh(n, word, count)` is the target's weight of a word when example number n comes.
    """
    memory, stream = [], collections.Counter()
    swaps = 0
    for n, (row, slot) in enumerate(zip(rows, slots, strict=True)):
        new = words[row].tolist()
        stream.update(word for word in new if word >= 0)
        if n < CAPACITY:
            assert slot == n
            memory.append(new)
            continue
        target = {word: weigh(n, word, count) for word, count in stream.items()}
        before = slow_divergence(divergence, memory, target)
        gains = [
            before - slow_divergence(divergence, [*memory[:s], new, *memory[s + 1 :]], target)
            for s in range(CAPACITY)
        ]
        best = max(gains)
        if slot == CAPACITY:
            assert best < 1e-5
        else:
            assert gains[slot] > -1e-6 and gains[slot] > best - 1e-5
            memory[slot] = new
            swaps += 1
    assert swaps > 3, "the test must see swaps"
    return memory


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_balanced_sqrt_makes_the_best_swap(run_stream, divergence):
    words = stream_words()
    memory = balanced_sqrt(CAPACITY, WORDS, WIDTH, divergence)
    # One example per batch: no slot is hidden by a later writer.
    rows = ROWS[ROWS >= 0]
    state, slots = run_stream(memory, rows[:, None], 0, words[rows][:, None])
    kept = check_slots(
        divergence, words, rows, slots[:, 0], lambda n, word, count: math.sqrt(count)
    )
    assert state.payload["words"].tolist() == kept == words[state.ids].tolist()
    counts = np.bincount(words[state.ids][words[state.ids] >= 0], minlength=WORDS)
    assert state.payload["stored"].tolist() == counts.tolist()
    seen = np.bincount(words[words >= 0], minlength=WORDS)
    assert state.payload["stream"].tolist() == seen.tolist()


def test_batches_are_taken_one_example_after_the_other(run_stream):
    words = stream_words()
    memory = balanced_sqrt(CAPACITY, WORDS, WIDTH, "memory_target")
    whole, _ = run_stream(memory, ROWS, 0, words[np.maximum(ROWS, 0)])
    rows = ROWS[ROWS >= 0]
    single, _ = run_stream(memory, rows[:, None], 0, words[rows][:, None])
    for ours, theirs in zip(jax.tree.leaves(whole), jax.tree.leaves(single), strict=True):
        assert np.array_equal(ours, theirs)


def test_plan_reaches_the_same_memory(run_stream):
    words = stream_words()
    memory = balanced_sqrt(CAPACITY, WORDS, WIDTH, "memory_target")
    plan = make_plan(memory, ROWS, (2,), 0, words)
    whole, slots = run_stream(memory, ROWS, 0, words[np.maximum(ROWS, 0)])
    assert np.array_equal(plan.insert_slot, slots)
    reached = memory_at(plan, memory, ROWS, len(ROWS), words)
    for ours, theirs in zip(jax.tree.leaves(reached), jax.tree.leaves(whole), strict=True):
        assert np.array_equal(ours, theirs)


def slow_observe(best, forgetting, replayed, held, slots, nll):
    """Running means word by word; words new to a batch start from the mean before it."""
    total = sum(replayed)
    known = sum(count > 0 for count in replayed)
    overall = sum(m * c for m, c in zip(forgetting, replayed, strict=True)) / max(total, 1)
    start = [
        (m, c) if c else (overall, total / max(known, 1))
        for m, c in zip(forgetting, replayed, strict=True)
    ]
    met = collections.defaultdict(list)
    for slot, losses in zip(slots, nll, strict=True):
        if slot == CAPACITY:
            continue
        for place, loss in enumerate(losses):
            best[slot][place] = min(best[slot][place], loss)
            if held[slot][place] >= 0:
                met[held[slot][place]].append(loss - best[slot][place])
    for word, values in met.items():
        mean, count = start[word]
        replayed[word] = count + len(values)
        forgetting[word] = (mean * count + sum(values)) / replayed[word]


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_balanced_forget_follows_the_slow_copy(divergence):
    """Replay, observe, insert, one example per iteration; forgotten words weigh more."""
    words, rng = stream_words(2), np.random.default_rng(3)
    memory = make_balanced_forget(CAPACITY, WORDS, WIDTH, divergence)

    @jax.jit
    def iteration(state, drawn, replay_nll, row, row_words, nll):
        state = memory.observe(state, drawn, replay_nll)
        forgetting, side = state.payload["forgetting"], (row_words, nll)
        slots = memory.slots(state, jax.random.key(0), row, row >= 0, side)
        return memory.insert(state, row, row >= 0, slots, side), slots, forgetting

    state = memory.init()
    best = [[0.0] * WIDTH for _ in range(CAPACITY)]
    forgetting, replayed = [0.0] * WORDS, [0.0] * WORDS
    chosen, weights = [], []
    for n in range(N):
        filled = min(n, CAPACITY)
        drawn = np.full(2, CAPACITY, np.int32)
        drawn[: min(filled, 2)] = rng.permutation(filled)[:2]
        replay_nll, nll = rng.exponential(2.0, (2, WIDTH)), rng.exponential(2.0, (1, WIDTH))
        held = state.payload["words"].tolist()
        slow_observe(best, forgetting, replayed, held, drawn.tolist(), replay_nll.tolist())
        state, slots, seen = iteration(
            state,
            drawn,
            jnp.float32(replay_nll),
            jnp.int32([n]),
            words[n : n + 1],
            jnp.float32(nll),
        )
        np.testing.assert_allclose(seen, forgetting, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state.payload["replayed"], replayed, rtol=1e-4)
        chosen.append(int(slots[0]))
        weights.append(list(forgetting))
        if chosen[-1] < CAPACITY:
            best[chosen[-1]] = nll[0].tolist()
        np.testing.assert_allclose(state.payload["best"], best, rtol=1e-5)
    assert max(forgetting) > 0.1
    check_slots(
        divergence, words, range(N), chosen, lambda n, w, count: count * (1 + weights[n][w])
    )


def test_masked_words_leave_stop_words_out():
    vocabulary = ["[PAD]", "a", "red", "dog", "the", "runs"]
    tokens = np.array([1, 2, 3, 5, 4, 3], np.int32)
    token_start = np.array([0, 4, 6])
    span = np.array([[0, 3], [0, 2]], np.int32)
    plain = masked_words(tokens, token_start, span, 4)
    assert plain.tolist() == [[1, 2, 3, -1], [4, 3, -1, -1]]
    assert function_word_ids(vocabulary) == (1, 4)
    without = masked_words(tokens, token_start, span, 4, function_word_ids(vocabulary))
    assert without.tolist() == [[-1, 2, 3, -1], [-1, 3, -1, -1]]
    assert not FUNCTION_WORDS & {"man", "riding", "two"}


def test_bad_settings_are_refused():
    with pytest.raises(UserError, match=r"memory\.divergence is 'kl'"):
        make_balanced_sqrt(5, 7, 3, "kl")
    with pytest.raises(UserError, match=r"memory\.capacity is 0"):
        make_balanced_forget(0, 7, 3)
