"""Batches gathered on the device against those assembled on the host, field by field."""

import jax
import numpy as np
import pytest

from mmgen.benchmark.workload import device_tables, host_store, make_workload
from mmgen.data import tables as tables_module
from mmgen.data.assemble import assemble
from mmgen.data.buckets import Bucket
from mmgen.data.columns import Split
from mmgen.data.schema import IGNORE_ID
from mmgen.data.tables import build_tables, gather_batch
from mmgen.errors import UserError

DIM, MAX_SPAN = 5, 8
WORKLOAD = make_workload(30, 200, feature_dim=DIM, pieces=40, word_rows=60)
STORE = host_store(WORKLOAD)
ROWS = np.array([3, IGNORE_ID, 199, 17, 3, 64, IGNORE_ID, 120], np.int32)
CUTS = Bucket(text=12, objects=3)
HOLDS_ALL = Bucket(text=65, objects=93)


def both(store, bucket, text_only):
    """The batch of ROWS as the host and as the device makes it."""
    host = assemble(
        WORKLOAD.split,
        store,
        WORKLOAD.vocabulary,
        ROWS,
        bucket,
        max_span=MAX_SPAN,
        feature_dim=DIM,
        text_only=text_only,
    )
    tables = build_tables(WORKLOAD.split, store, feature_dim=DIM, text_only=text_only)
    gather = jax.jit(
        lambda tables, rows: gather_batch(
            tables, rows, bucket, vocabulary=WORKLOAD.vocabulary, max_span=MAX_SPAN
        )
    )
    return host, jax.device_get(gather(tables, ROWS))


@pytest.mark.parametrize("bucket", [CUTS, HOLDS_ALL])
@pytest.mark.parametrize(
    ("store", "text_only"),
    [(STORE, ""), (STORE, "zero"), (STORE, "drop"), (None, "zero"), (None, "drop")],
)
def test_gathered_batch_is_the_assembled_one(store, text_only, bucket):
    host, device = both(store, bucket, text_only)
    assert host.keys() == device.keys()
    for name, expected in host.items():
        assert device[name].dtype == expected.dtype, name
        np.testing.assert_array_equal(device[name], expected, err_msg=name)
    assert text_only or device["features"].any()


@pytest.mark.parametrize("what", ["tokens", "regions"])
def test_what_an_int32_cannot_number_is_refused(monkeypatch, what):
    sizes = {"tokens": int(WORKLOAD.split.lengths.sum()), "regions": int(WORKLOAD.counts.sum())}
    assert sizes["regions"] < sizes["tokens"]
    split = WORKLOAD.split
    if what == "regions":
        columns = split.columns
        split = Split("train", columns | {"tokens": columns["tokens"][:10]})
    monkeypatch.setattr(tables_module, "INT32_END", sizes[what])
    with pytest.raises(UserError, match=rf"{what}.*residency='host'"):
        build_tables(split, STORE, feature_dim=DIM)


def test_features_drawn_on_the_device_fill_the_table():
    tables = device_tables(WORKLOAD, np.float16)
    assert tables.features.shape == STORE.features.shape
    assert (np.asarray(tables.features) != 0).any(axis=1).all()
