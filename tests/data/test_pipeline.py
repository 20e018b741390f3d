"""Feeds as pure functions of the step."""

# ruff: noqa: F401, F811 (fixtures are imported)

import subprocess
import sys

import numpy as np
import pytest
from small_split import (
    DIM,
    IMAGES,
    LARGE,
    MAX_SPAN,
    ROWS,
    VOCABULARY,
    check_row,
    split,
    store,
)

from mmgen.algorithms.base import Feed
from mmgen.data.assemble import object_counts, text_lengths
from mmgen.data.buckets import Bucket, bucket_of, choose_buckets
from mmgen.data.columns import Split
from mmgen.data.pipeline import FeedSource, read_ahead
from mmgen.data.schema import IGNORE_ID, MASKED_SPAN_FIELDS
from mmgen.errors import UserError
from mmgen.memory.live import Drawn
from mmgen.memory.plan import Plan


def changed(split, **columns):
    return Split("train", split.columns | columns)


def with_span(split, row, span):
    spans = split.columns["span"].copy()
    spans[row] = span
    return changed(split, span=spans)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ((3, 3), r"row 7 \(caption 1007\): the span \[3, 3\) is outside its caption"),
        ((-1, 1), "outside its caption"),
        ((2, 99), "outside its caption"),
        ((0, 4), "longer than 3 tokens"),
    ],
)
def test_bad_spans_are_named_at_the_door(split, store, span, words):
    with pytest.raises(UserError, match=words):
        make_source(with_span(split, 7, span), store)


def test_store_and_split_must_fit(split, store):
    images = split.columns["image"].copy()
    images[4] = IMAGES
    with pytest.raises(UserError, match=r"row 4: image \d+ is not among the 9 images"):
        make_source(changed(split, image=images), store)
    with pytest.raises(UserError, match="have 6 numbers, the data set says 7"):
        make_source(split, store, feature_dim=7)
    with pytest.raises(UserError, match="only text-only runs are possible"):
        make_source(split, None)
    with pytest.raises(UserError, match=r"config\.text_only is 'none'"):
        make_source(split, store, text_only="none")


BATCH, DRAWS = 4, (4, 2)


def make_plan_like(steps, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(IGNORE_ID, ROWS, (steps, sum(DRAWS))).astype(np.int32)
    ids[0] = IGNORE_ID
    slots = rng.integers(0, 30, ids.shape).astype(np.int32)
    return Plan(ids, slots, rng.integers(0, 30, (steps, BATCH)).astype(np.int32))


def make_source(split, store, *, rows=None, plan=None, **kwargs):
    given = {
        "split": split,
        "store": store,
        "vocabulary": VOCABULARY,
        "stream_rows": np.random.default_rng(2).permutation(ROWS) if rows is None else rows,
        "batch_size": BATCH,
        "buckets": (Bucket(12, 2), Bucket(16, 4), LARGE),
        "max_span": MAX_SPAN,
        "feature_dim": DIM,
        "plan": plan,
        "draws": DRAWS if plan else (),
    }
    return FeedSource(**given | kwargs)


def assert_same_feed(left, right):
    assert isinstance(left, Feed) and isinstance(right, Feed)
    for a, b in zip((left.stream, *left.replay), (right.stream, *right.replay), strict=True):
        assert a.keys() == b.keys()
        for name in a:
            assert type(a[name]) is np.ndarray and a[name].dtype == b[name].dtype
            np.testing.assert_array_equal(a[name], b[name])
    np.testing.assert_array_equal(left.insert_slot, right.insert_slot)
    for a, b in zip(left.replay_slot, right.replay_slot, strict=True):
        np.testing.assert_array_equal(a, b)


def test_feeds_follow_stream_and_plan(split, store):
    plan = make_plan_like(ROWS // BATCH)
    rows = np.random.default_rng(2).permutation(ROWS)
    source = make_source(split, store, rows=rows, plan=plan)
    lengths, counts = text_lengths(split), object_counts(split, store)
    assert len(source) == ROWS // BATCH
    for step in range(len(source)):
        feed = source[step]
        np.testing.assert_array_equal(feed.stream["ids"], rows[step * BATCH : (step + 1) * BATCH])
        np.testing.assert_array_equal(feed.replay[0]["ids"], plan.replay_ids[step, :4])
        np.testing.assert_array_equal(feed.replay[1]["ids"], plan.replay_ids[step, 4:])
        np.testing.assert_array_equal(feed.insert_slot, plan.insert_slot[step])
        np.testing.assert_array_equal(np.concatenate(feed.replay_slot), plan.replay_slot[step])
        bucket = source.buckets[source.bucket_index[step]]
        read = np.concatenate([rows[step * BATCH : (step + 1) * BATCH], plan.replay_ids[step]])
        read = read[read != IGNORE_ID]
        assert bucket == bucket_of(lengths[read], counts[read], source.buckets)
        for batch in (feed.stream, *feed.replay):
            assert batch["tokens"].shape[1] == bucket.text
            assert batch["features"].shape[1] == bucket.objects
            for at, row in enumerate(batch["ids"]):
                check_row(batch, at, split, store, row, bucket.text)
    assert not source[0].replay[0]["mask"].any()


def test_a_bucket_cuts_only_padding(split, store):
    source = make_source(split, store, batch_size=2)
    unbucketed = make_source(split, store, batch_size=2, buckets=(LARGE,))
    assert len(np.unique(source.bucket_index)) == 3
    for step in range(len(source)):
        small, large = source[step].stream, unbucketed[step].stream
        text, objects = small["tokens"].shape[1], small["features"].shape[1]
        for name, (axes, _) in MASKED_SPAN_FIELDS.items():
            cut = large[name]
            if " t" in axes:
                assert not cut[:, text:].any()
                cut = cut[:, :text]
            if " o" in axes:
                assert not cut[:, objects:].any()
                cut = cut[:, :objects]
            np.testing.assert_array_equal(small[name], cut)


def test_last_batch_is_padded_and_epochs_are_a_longer_stream(split, store):
    rows = np.tile(np.arange(7), 2)
    source = make_source(split, store, rows=rows)
    assert len(source) == 4
    read = np.concatenate([source[step].stream["ids"] for step in range(4)])
    np.testing.assert_array_equal(read, [*rows, IGNORE_ID, IGNORE_ID])
    assert source[3].stream["mask"].tolist() == [True, True, False, False]
    assert source[0].replay == () and source[0].insert_slot == () and source[0].replay_slot == ()


def test_processes_share_the_global_batch(split, store):
    plan = make_plan_like(ROWS // BATCH)
    whole = make_source(split, store, plan=plan)
    halves = [
        make_source(
            split, store, plan=plan, local_rows=lambda n, i=i: np.arange(n)[i * n // 2 :][: n // 2]
        )
        for i in (0, 1)
    ]
    for step in range(len(whole)):
        parts = [half[step] for half in halves]
        expected = whole[step]
        for batches in zip(
            (expected.stream, *expected.replay),
            *((part.stream, *part.replay) for part in parts),
            strict=True,
        ):
            for name in batches[0]:
                joined = np.concatenate([batch[name] for batch in batches[1:]])
                np.testing.assert_array_equal(joined, batches[0][name])
        for part in parts:
            np.testing.assert_array_equal(part.insert_slot, expected.insert_slot)
            np.testing.assert_array_equal(part.replay_slot[1], expected.replay_slot[1])


def test_feeds_are_pure_and_in_any_order(split, store):
    source = make_source(split, store, plan=make_plan_like(ROWS // BATCH))
    first = [source[step] for step in range(len(source))]
    for step in reversed(range(len(source))):
        assert_same_feed(source[step], first[step])
    for step in (-1, len(source)):
        with pytest.raises(IndexError):
            source[step]


@pytest.mark.parametrize("start", [0, 11, 15])
def test_read_ahead_yields_the_same_feeds(split, store, start):
    source = make_source(split, store, plan=make_plan_like(ROWS // BATCH))
    feeds = list(source.read_ahead(start))
    assert len(feeds) == len(source) - start
    for step, feed in enumerate(feeds, start):
        assert_same_feed(feed, source[step])


def test_read_ahead_passes_errors_on_and_can_be_left_early():
    class Failing:
        def __len__(self):
            return 9

        def __getitem__(self, step):
            if step == 3:
                raise UserError("the third feed is bad")
            return Feed({"ids": np.array([step])})

    feeds = read_ahead(Failing())
    assert [int(next(feeds).stream["ids"][0]) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError, match="the third feed is bad"):
        next(feeds)
    left_early = read_ahead(Failing())
    next(left_early)
    left_early.close()


def test_rows_drawn_during_training_make_the_feed_of_a_plan(split, store):
    plan = make_plan_like(ROWS // BATCH)
    words = np.arange(3 * ROWS).reshape(ROWS, 3)
    planned = make_source(split, store, plan=plan, side_of_rows=words)
    live = make_source(split, store, draws=DRAWS, side_of_rows=words)
    for step in (0, 7):
        expected = planned[step]
        ids = tuple(batch["ids"] for batch in expected.replay)
        feed = live.with_replay(step, Drawn(ids, expected.replay_slot))
        assert feed.insert_slot == ()
        np.testing.assert_array_equal(feed.side, words[feed.stream["ids"]])
        assert_same_feed(feed._replace(insert_slot=expected.insert_slot), expected)
        unknown = live[step]
        assert [batch["mask"].any() for batch in unknown.replay] == [False, False]
        np.testing.assert_array_equal(unknown.stream["ids"], expected.stream["ids"])
    assert len({live.buckets[b] for b in live.bucket_index}) > 1


def test_stream_plan_and_draws_must_fit(split, store):
    plan = make_plan_like(ROWS // BATCH)
    with pytest.raises(ValueError, match="fit into the next"):
        make_source(split, store, buckets=(Bucket(16, 2), Bucket(12, 4), LARGE))
    with pytest.raises(ValueError, match="replay_ids has shape"):
        make_source(split, store, plan=plan, draws=(4,))
    with pytest.raises(ValueError, match="insert_slot has shape"):
        make_source(split, store, plan=plan, rows=np.arange(8))
    for rows in (np.zeros(0, int), np.array([ROWS]), np.array([-2]), np.zeros((2, 2), int)):
        with pytest.raises(ValueError, match="stream_rows"):
            make_source(split, store, rows=rows)


def test_few_shapes_whatever_the_batches(split, store):
    tables = text_lengths(split), object_counts(split, store)
    buckets = choose_buckets(*tables, batch=BATCH + sum(DRAWS))
    source = make_source(split, store, plan=make_plan_like(15), buckets=buckets)
    shapes = {source[s].stream["tokens"].shape + source[s].stream["boxes"].shape for s in range(15)}
    assert 1 <= len(shapes) <= len(buckets) <= 3
    assert object_counts(split, store, "drop").sum() == object_counts(split, None).sum() == 0


def test_feeds_need_neither_grain_nor_tfds():
    blocked = ("grain", "tensorflow_datasets", "array_record", "clu", "tensorboard", "h5py")
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked}))\nimport mmgen.data.pipeline"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
