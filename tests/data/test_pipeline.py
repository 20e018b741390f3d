"""Batches against a literal per-example assembly; feeds as pure functions of the step."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.algorithms.base import Feed
from mmgen.data.assemble import assemble, check_inputs, object_counts, text_lengths
from mmgen.data.buckets import Bucket, bucket_of, choose_buckets
from mmgen.data.columns import Split, masked_span_columns
from mmgen.data.features import FeatureStore, write_feature_store
from mmgen.data.pipeline import FeedSource, read_ahead
from mmgen.data.schema import IGNORE_ID, MASKED_SPAN_FIELDS
from mmgen.data.tokenizer import world_vocabulary
from mmgen.errors import UserError
from mmgen.memory.live import Drawn
from mmgen.memory.plan import Plan

DIM, ROWS, MAX_SPAN, IMAGES = 6, 60, 3, 9
VOCABULARY = world_vocabulary([f"word{i}" for i in range(40)])
LARGE = Bucket(text=20, objects=5)


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    tokens = [rng.integers(7, 47, rng.integers(4, 15)).tolist() for _ in range(ROWS)]
    start = [int(rng.integers(0, len(t) - 2)) for t in tokens]
    stop = [min(len(t), s + int(rng.integers(1, 4))) for t, s in zip(tokens, start, strict=True)]
    columns = masked_span_columns(
        tokens,
        span=np.stack([start, stop], 1),
        task=rng.integers(0, 4, ROWS),
        image=rng.integers(0, IMAGES, ROWS),
        caption=np.arange(1000, 1000 + ROWS),
        image_id=rng.integers(0, 99, ROWS),
    )
    return Split("train", columns)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(1)

    def items():
        for image in range(IMAGES):
            count = image % 6
            boxes = np.sort(rng.random((count, 2, 2), np.float32), axis=1).reshape(count, 4)
            features = rng.standard_normal((count + 1, DIM)).astype(np.float16)
            yield image, features[1:], boxes, features[0]

    path = tmp_path_factory.mktemp("store") / "features"
    origin = {"extractor": "random", "trained_on": "nothing", "box_convention": "xyxy_unit"}
    write_feature_store(path, items(), origin)
    return FeatureStore.open(path)


def make(split, store, rows, bucket=LARGE, text_only=""):
    return assemble(
        split,
        store,
        VOCABULARY,
        np.array(rows),
        bucket,
        max_span=MAX_SPAN,
        feature_dim=DIM,
        text_only=text_only,
    )


def literal_text(split, row, text):
    """Tokens, positions and targets of one row, token by token."""
    start, stop = split.columns["span"][row].tolist()
    pieces = split.tokens(row).tolist()
    masked = [VOCABULARY.mask if start <= i < stop else p for i, p in enumerate(pieces)]
    sequence = [VOCABULARY.img, VOCABULARY.txt, *masked, VOCABULARY.sep][:text]
    positions = [i + 2 for i in range(start, stop) if i + 2 < text]
    return sequence, positions, [pieces[p - 2] for p in positions]


def check_row(batch, at, split, store, row, text):
    if row == IGNORE_ID:
        for name, values in batch.items():
            assert name == "ids" or not values[at].any(), name
        return
    sequence, positions, targets = literal_text(split, row, text)
    pad = text - len(sequence)
    assert batch["tokens"][at].tolist() == sequence + [0] * pad
    assert batch["text_mask"][at].tolist() == [True] * len(sequence) + [False] * pad
    rest = MAX_SPAN - len(positions)
    assert batch["span_positions"][at].tolist() == positions + [0] * rest
    assert batch["targets"][at].tolist() == targets + [0] * rest
    assert batch["target_mask"][at].tolist() == [True] * len(positions) + [False] * rest
    gathered = store.gather(split.columns["image"][row : row + 1], batch["features"].shape[1])
    for name, values in gathered._asdict().items():
        np.testing.assert_array_equal(batch[name][at], values[0])


@settings(deadline=None, max_examples=80)
@given(
    rows=st.lists(st.integers(-1, ROWS - 1), min_size=1, max_size=8),
    text=st.integers(7, 24),
    objects=st.integers(1, 7),
)
def test_batch_equals_a_literal_assembly(split, store, rows, text, objects):
    batch = make(split, store, rows, Bucket(text, objects))
    assert batch["ids"].tolist() == rows
    assert batch["mask"].tolist() == [row != IGNORE_ID for row in rows]
    for at, row in enumerate(rows):
        check_row(batch, at, split, store, row, text)


@pytest.mark.parametrize("text_only", ["", "zero", "drop"])
def test_fields_axes_and_dtypes_are_the_schema(split, store, text_only):
    batch = make(split, store, [3, IGNORE_ID, 5], text_only=text_only)
    assert batch.keys() == MASKED_SPAN_FIELDS.keys()
    objects = 1 if text_only == "drop" else LARGE.objects
    axes = {"b": 3, "t": LARGE.text, "m": MAX_SPAN, "o": objects, "d": DIM, "4": 4}
    for name, (shape, dtype) in MASKED_SPAN_FIELDS.items():
        assert batch[name].shape == tuple(axes[axis] for axis in shape.split()), name
        travels = store.dtype if name in ("features", "image_feature") else dtype
        assert batch[name].dtype == travels, name


def test_zero_keeps_the_objects_and_shows_nothing(split, store):
    full, zero = (make(split, store, [1, 2, 3, 4], text_only=kind) for kind in ("", "zero"))
    assert full["object_mask"].any()
    for name, values in full.items():
        if name in ("features", "boxes", "image_feature"):
            assert not zero[name].any()
        else:
            np.testing.assert_array_equal(zero[name], values)


@pytest.mark.parametrize("text_only", ["zero", "drop"])
def test_without_a_store_there_is_one_empty_slot(split, text_only):
    batch = make(split, None, [1, 2], text_only=text_only)
    assert batch["object_mask"].tolist() == [[False], [False]]
    assert batch["features"].shape == (2, 1, DIM) and not batch["features"].any()


def test_a_multimodal_batch_needs_a_store(split):
    with pytest.raises(UserError, match="text-only"):
        make(split, None, [1])


def test_released_window_loses_the_separator_of_long_captions():
    pieces = list(range(7, 47)) + list(range(7, 30))
    columns = masked_span_columns(
        [pieces, pieces[:61]],
        span=[[0, 2], [59, 61]],
        task=[0, 0],
        image=[0, 0],
        caption=[0, 1],
        image_id=[0, 0],
    )
    batch = make(Split("train", columns), None, [0, 1], Bucket(64, 1), "drop")
    assert VOCABULARY.sep not in batch["tokens"][0] and batch["text_mask"][0].all()
    assert batch["tokens"][1, 63] == VOCABULARY.sep
    assert batch["span_positions"][1].tolist() == [61, 62, 0]


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


def test_a_span_outside_the_window_is_refused(split, store):
    longest = int(np.argmax(split.columns["span"][:, 1]))
    window = int(split.columns["span"][longest, 1]) + 2
    settings = {"max_span": MAX_SPAN, "feature_dim": DIM, "text_only": ""}
    check_inputs(split, store, window=window, **settings)
    with pytest.raises(UserError, match=f"row {longest} .*leaves the text window of {window - 1}"):
        check_inputs(split, store, window=window - 1, **settings)


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
