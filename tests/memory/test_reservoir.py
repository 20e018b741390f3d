"""The reservoir keeps a uniform sample of the stream and draws from it without replacement."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from mmgen.errors import UserError
from mmgen.memory.base import MemoryState
from mmgen.memory.reservoir import RULES, make_reservoir, sample_slots

reservoir = functools.cache(make_reservoir)
draw = jax.jit(sample_slots, static_argnums=(2, 3))
UNLIKELY = 1e-5


def slow_reservoir(ids, capacity, rule, seed, draw_of):
    """Algorithm R, one example at a time; `draw_of(n, bound)` is the n-th draw below bound."""
    memory = []
    for n, row in enumerate(ids):
        if n < capacity:
            memory.append(row)
            continue
        j = draw_of(n, n + 1 if rule == "vitter" else n)
        if j < capacity:
            memory[j] = row
    return memory


@pytest.mark.parametrize("rule", RULES)
def test_follows_algorithm_r(run_stream, batches, rule):
    from mmgen.memory.plan import insert_key

    def draw_of(n, bound):
        key = jax.random.fold_in(insert_key(3), n)
        return int(jax.random.randint(key, (), 0, np.uint32(bound), jnp.uint32))

    ids = np.random.default_rng(0).permutation(40).astype(np.int32)
    state, _ = run_stream(reservoir(7, rule), batches(ids, 6), 3)
    assert state.ids.tolist() == slow_reservoir(ids, 7, rule, 3, draw_of)
    assert int(state.seen) == 40 and int(state.size) == 7


@pytest.mark.parametrize("rule", RULES)
def test_inclusion_is_uniform(run_stream, batches, rule):
    runs, capacity, n = 3000, 6, 26
    rows = batches(np.arange(n), 4)
    memory = reservoir(capacity, rule)
    state, _ = jax.vmap(lambda seed: run_stream(memory, rows, seed))(jnp.arange(runs))
    observed = np.bincount(np.asarray(state.ids).ravel(), minlength=n)
    if rule == "vitter":
        share = np.full(n, capacity / n)
    else:  # Example 6 always enters, at the cost of the six before it.
        share = np.where(np.arange(n) < capacity, capacity - 1, capacity) / (n - 1)
    # The counts sum to capacity * runs, hence n - 1 degrees of freedom.
    variance = runs * share * (1 - share) * n / (n - 1)
    statistic = np.sum((observed - runs * share) ** 2 / variance)
    assert chi2.sf(statistic, n - 1) > UNLIKELY


def test_rules_differ(run_stream, batches):
    rows = batches(np.arange(7), 7)
    always = [run_stream(reservoir(6, "viscoll_release"), rows, s)[0] for s in range(20)]
    sometimes = [run_stream(reservoir(6, "vitter"), rows, s)[0] for s in range(20)]
    assert all(6 in state.ids for state in always)
    assert not all(6 in state.ids for state in sometimes)


@settings(max_examples=40, deadline=None)
@given(
    b=st.sampled_from([4, 7]),
    n=st.integers(0, 28),
    seed=st.integers(0, 2**31 - 1),
    holes=st.lists(st.integers(0, 27), max_size=8),
)
def test_memory_depends_on_the_stream_alone(run_stream, batches, b, n, seed, holes):
    """Any batch size, padding anywhere: same memory, of distinct rows of the stream."""
    capacity = 5
    memory = reservoir(capacity)
    ids = np.arange(100, 100 + n, dtype=np.int32)
    padded = np.insert(ids, [h for h in holes if h <= n], -1)
    fixed = np.full(36, -1, np.int32)  # One shape per batch size: few compilations.
    fixed[: len(padded)] = padded
    state, slots = run_stream(memory, batches(fixed, b), seed)
    plain = np.full(36, -1, np.int32)
    plain[:n] = ids
    reference, _ = run_stream(memory, batches(plain, 1), seed)
    assert state.ids.tolist() == reference.ids.tolist()
    kept = [row for row in state.ids.tolist() if row >= 0]
    assert len(kept) == min(n, capacity) == int(state.size)
    assert len(set(kept)) == len(kept) and set(kept) <= set(ids.tolist())
    for used in slots:
        stored = [slot for slot in used.tolist() if slot < capacity]
        assert len(set(stored)) == len(stored)


def test_eager_equals_jit(run_stream, eager_stream, batches):
    rows = batches(np.arange(11), 4)
    jitted, slots = run_stream(reservoir(5), rows, 1)
    eager, eager_slots = eager_stream(reservoir(5), rows, 1)
    assert jitted.ids.tolist() == eager.ids.tolist()
    assert slots.tolist() == eager_slots.tolist()


def test_last_writer_of_a_batch_wins(run_stream, batches):
    """One batch that overwrites each slot many times leaves what single inserts leave."""
    rows = np.arange(64, dtype=np.int32)
    whole, slots = run_stream(reservoir(2), batches(rows, 64), 0)
    single, _ = run_stream(reservoir(2), batches(rows, 1), 0)
    assert whole.ids.tolist() == single.ids.tolist()
    assert np.sum(slots < 2) <= 2


def test_no_overflow_up_to_two_billion_examples():
    """The last example that int32 can count is stored with probability capacity / 2^31."""
    capacity = 2**30
    state = MemoryState(ids=jnp.zeros(1, jnp.int32), seen=jnp.int32(2**31 - 2))
    one = jnp.ones(1, jnp.int32)
    keys = jax.random.split(jax.random.key(0), 400)
    insert = jax.jit(jax.vmap(lambda k: reservoir(capacity).slots(state, k, one, one > 0, ())))
    slots = insert(keys)
    assert np.all((slots >= 0) & (slots <= capacity))
    assert 140 < np.sum(slots < capacity) < 260


def test_sample_is_a_uniform_ordered_subset():
    runs, filled, k = 6000, 5, 3
    keys = jax.random.split(jax.random.key(1), runs)
    drawn = jax.vmap(lambda key: draw(key, jnp.int32(filled), k, 9))(keys)
    outcomes = list(itertools.permutations(range(filled), k))
    count = dict.fromkeys(outcomes, 0)
    for row in np.asarray(drawn).tolist():
        count[tuple(row)] += 1  # KeyError: a duplicate, or an empty slot.
    expected = runs / len(outcomes)
    statistic = sum((c - expected) ** 2 / expected for c in count.values())
    assert chi2.sf(statistic, len(outcomes) - 1) > UNLIKELY


@settings(max_examples=60, deadline=None)
@given(
    filled=st.integers(0, 40) | st.just(1_000_000),
    k=st.sampled_from([1, 2, 8, 33]),
    seed=st.integers(0, 2**32 - 1),
)
def test_sample_without_replacement(filled, k, seed):
    capacity = 1_000_000
    slots = draw(jax.random.key(seed), jnp.int32(filled), k, capacity).tolist()
    real = [slot for slot in slots if slot != capacity]
    assert len(real) == min(k, filled) == len(set(real))
    assert slots[len(real) :] == [capacity] * (k - len(real))
    assert all(0 <= slot < filled for slot in real)
    if filled <= k:
        assert sorted(real) == list(range(filled))


def test_sampling_never_reads_the_slots():
    """Its cost cannot grow with the capacity: no array of that size takes part."""
    memory = reservoir(1_000_000)
    state = jax.eval_shape(memory.init)
    program = jax.make_jaxpr(lambda seen, key: memory.sample(state.replace(seen=seen), key, 8))(
        jnp.int32(5), jax.random.key(0)
    )
    assert all(v.aval.size <= 64 for e in program.eqns for v in e.outvars)


def test_bad_settings_are_refused():
    with pytest.raises(UserError, match=r"memory\.reservoir is 'vitte'"):
        make_reservoir(10, "vitte")
    with pytest.raises(UserError, match=r"memory\.capacity is 0"):
        make_reservoir(0)
