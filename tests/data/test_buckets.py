"""Buckets: valid, deterministic, and as good as an exhaustive search says."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.data.buckets import Bucket, bucket_of, choose_buckets
from mmgen.errors import UserError

TABLES = st.lists(st.tuples(st.integers(4, 64), st.integers(0, 100)), min_size=1, max_size=200)


def caption_tables(count=4000, seed=0):
    rng = np.random.default_rng(seed)
    lengths = np.minimum(12 + rng.geometric(0.25, count), 64)
    return lengths, np.minimum(rng.poisson(7, count), 40)


def expected_positions(lengths, counts, buckets, batch, draws=2000):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(lengths), (draws, batch))
    return np.mean([bucket_of(lengths[r], counts[r], buckets).positions for r in rows])


@settings(deadline=None, max_examples=60)
@given(table=TABLES, max_buckets=st.integers(1, 3), batch=st.sampled_from([1, 8, 64]))
def test_every_batch_fits_and_buckets_are_nested(table, max_buckets, batch):
    lengths, counts = np.array(table).T
    buckets = choose_buckets(lengths, counts, max_buckets, batch=batch)
    assert buckets == choose_buckets(lengths, counts, max_buckets, batch=batch)
    assert 1 <= len(buckets) <= max_buckets
    for small, large in itertools.pairwise(buckets):
        assert small.text <= large.text and small.objects <= large.objects and small != large
    assert buckets[-1] == Bucket(max(lengths), max(1, *counts, 1))
    assert bucket_of(lengths, counts, buckets) == buckets[-1]


@settings(deadline=None, max_examples=60)
@given(table=TABLES)
def test_bucket_of_is_the_smallest_that_holds_every_row(table):
    lengths, counts = np.array(table).T
    buckets = (Bucket(16, 4), Bucket(24, 20), Bucket(64, 100))
    chosen = bucket_of(lengths, counts, buckets)
    fitting = [b for b in buckets if max(lengths) <= b.text and max(counts) <= b.objects]
    assert chosen == fitting[0]


def test_rows_beyond_the_largest_bucket_are_a_defect():
    with pytest.raises(ValueError, match="largest bucket"):
        bucket_of(np.array([9]), np.array([1]), (Bucket(8, 2),))


def test_a_batch_of_padding_takes_the_smallest_bucket():
    nothing = np.zeros(0, int)
    assert bucket_of(nothing, nothing, (Bucket(8, 2), Bucket(9, 3))) == Bucket(8, 2)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_choice_equals_an_exhaustive_search(number, monkeypatch):
    monkeypatch.setattr("mmgen.data.buckets.MIN_SAVING", 0.0)
    rng = np.random.default_rng(3)
    lengths, counts, batch = rng.integers(5, 12, 300), rng.integers(1, 5, 300), 4
    texts, objects = np.unique(lengths), np.unique(counts)
    grid = [Bucket(int(t), int(o)) for t in texts for o in objects]
    share = {b: np.mean((lengths <= b.text) & (counts <= b.objects)) ** batch for b in grid}

    def cost(buckets):
        total, below = 0.0, 0.0
        for bucket in buckets:
            total += (share[bucket] - below) * bucket.positions
            below = share[bucket]
        return total

    chains = (
        chain
        for chain in itertools.combinations(grid, number)
        if chain[-1] == grid[-1]
        and all(a.text <= b.text and a.objects <= b.objects for a, b in itertools.pairwise(chain))
    )
    best = min(map(cost, chains))
    assert cost(choose_buckets(lengths, counts, number, batch=batch)) == pytest.approx(best)


def test_buckets_are_nested_where_long_texts_have_few_objects():
    # Two shapes of examples, neither inside the other: only one of them gets a bucket.
    lengths, counts = np.repeat([[10, 30], [60, 2]], [40, 60], axis=0).T
    buckets = choose_buckets(lengths, counts, batch=1)
    assert buckets == (Bucket(10, 30), Bucket(60, 30))


def test_more_buckets_save_padding_on_captions():
    lengths, counts = caption_tables()
    costs = [
        expected_positions(lengths, counts, choose_buckets(lengths, counts, k, batch=64), 64)
        for k in (1, 2, 3)
    ]
    assert costs[0] > 1.1 * costs[1]
    assert costs[1] > 1.03 * costs[2]


def test_no_bucket_is_added_that_saves_nothing():
    same = np.full(100, 9)
    assert choose_buckets(same, same) == (Bucket(9, 9),)


def test_larger_batches_get_larger_buckets():
    lengths, counts = caption_tables()
    few, many = (choose_buckets(lengths, counts, batch=batch) for batch in (8, 256))
    assert few[0].text < many[0].text


@pytest.mark.parametrize("number", [0, 4])
def test_number_of_buckets_is_checked(number):
    with pytest.raises(UserError, match=r"config\.buckets\.max"):
        choose_buckets(np.array([3]), np.array([1]), number)


def test_an_empty_table_is_refused():
    with pytest.raises(UserError, match="at least one example"):
        choose_buckets(np.zeros(0, int), np.zeros(0, int))
