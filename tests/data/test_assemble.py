"""Batches against a literal per-example assembly."""

# ruff: noqa: F401, F811 (fixtures are imported)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_split import (
    DIM,
    LARGE,
    MAX_SPAN,
    ROWS,
    VOCABULARY,
    check_row,
    make_batch,
    split,
    store,
)

from mmgen.data.assemble import check_inputs
from mmgen.data.buckets import Bucket
from mmgen.data.columns import Split, masked_span_columns
from mmgen.data.schema import IGNORE_ID, MASKED_SPAN_FIELDS
from mmgen.errors import UserError


@settings(deadline=None, max_examples=80)
@given(
    rows=st.lists(st.integers(-1, ROWS - 1), min_size=1, max_size=8),
    text=st.integers(7, 24),
    objects=st.integers(1, 7),
)
def test_batch_equals_a_literal_assembly(split, store, rows, text, objects):
    batch = make_batch(split, store, rows, Bucket(text, objects))
    assert batch["ids"].tolist() == rows
    assert batch["mask"].tolist() == [row != IGNORE_ID for row in rows]
    for at, row in enumerate(rows):
        check_row(batch, at, split, store, row, text)


@pytest.mark.parametrize("text_only", ["", "zero", "drop"])
def test_fields_axes_and_dtypes_are_the_schema(split, store, text_only):
    batch = make_batch(split, store, [3, IGNORE_ID, 5], text_only=text_only)
    assert batch.keys() == MASKED_SPAN_FIELDS.keys()
    objects = 1 if text_only == "drop" else LARGE.objects
    axes = {"b": 3, "t": LARGE.text, "m": MAX_SPAN, "o": objects, "d": DIM, "4": 4}
    for name, (shape, dtype) in MASKED_SPAN_FIELDS.items():
        assert batch[name].shape == tuple(axes[axis] for axis in shape.split()), name
        travels = store.dtype if name in ("features", "image_feature") else dtype
        assert batch[name].dtype == travels, name


def test_zero_keeps_the_objects_and_shows_nothing(split, store):
    full, zero = (make_batch(split, store, [1, 2, 3, 4], text_only=kind) for kind in ("", "zero"))
    assert full["object_mask"].any()
    for name, values in full.items():
        if name in ("features", "boxes", "image_feature"):
            assert not zero[name].any()
        else:
            np.testing.assert_array_equal(zero[name], values)


@pytest.mark.parametrize("text_only", ["zero", "drop"])
def test_without_a_store_there_is_one_empty_slot(split, text_only):
    batch = make_batch(split, None, [1, 2], text_only=text_only)
    assert batch["object_mask"].tolist() == [[False], [False]]
    assert batch["features"].shape == (2, 1, DIM) and not batch["features"].any()


def test_a_multimodal_batch_needs_a_store(split):
    with pytest.raises(UserError, match="text-only"):
        make_batch(split, None, [1])


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
    batch = make_batch(Split("train", columns), None, [0, 1], Bucket(64, 1), "drop")
    assert VOCABULARY.sep not in batch["tokens"][0] and batch["text_mask"][0].all()
    assert batch["tokens"][1, 63] == VOCABULARY.sep
    assert batch["span_positions"][1].tolist() == [61, 62, 0]


def test_a_span_outside_the_window_is_refused(split, store):
    longest = int(np.argmax(split.columns["span"][:, 1]))
    window = int(split.columns["span"][longest, 1]) + 2
    settings = {"max_span": MAX_SPAN, "feature_dim": DIM, "text_only": ""}
    check_inputs(split, store, window=window, **settings)
    with pytest.raises(UserError, match=f"row {longest} .*leaves the text window of {window - 1}"):
        check_inputs(split, store, window=window - 1, **settings)
