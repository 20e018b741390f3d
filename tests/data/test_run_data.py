"""What a run reads of a data set as profile and settings say: stream, padded shapes, spans."""

# ruff: noqa: F401, F811 (fixtures are imported)

from types import SimpleNamespace

import numpy as np
import pytest
from small_split import DIM, split, store

from mmgen.data.assemble import check_inputs
from mmgen.data.buckets import Bucket
from mmgen.data.columns import Split, masked_span_columns
from mmgen.data.run_data import seen_split, split_buckets, training_stream
from mmgen.errors import UserError
from mmgen.settings.defaults import default_config
from mmgen.settings.resolve import resolve

FLICKR, COCO = 456_299, 639_592


def dataset_of(split, store=None, paper_size=COCO, world=False):
    info = {
        "world": world,
        "paper_scale": True,
        "paper_size": paper_size,
        "vocabulary": {"rows": 120},
        "splits": {split.name: {"examples": len(split)}},
    }
    return SimpleNamespace(info=info, features=store, split=lambda name: split)


def resolved(dataset, **changes):
    config = default_config()
    config.update_from_flattened_dict(changes)
    return resolve(config, dataset.info)


@pytest.mark.parametrize("reshuffle", [True, False])
def test_later_epochs_have_another_order_if_asked(split, reshuffle):
    dataset = dataset_of(split)
    kind = {"stream.kind": "iid_epochs", "total.epochs": 2.0, "stream.reshuffle": reshuffle}
    rows, steps = training_stream(resolved(dataset, **kind, batch_size=10), dataset)
    first, second = rows.reshape(2, len(split))
    assert steps == 2 * len(split) // 10
    for epoch in (first, second):
        assert sorted(epoch) == list(range(len(split)))
    assert np.array_equal(first, second) != reshuffle


@pytest.mark.parametrize("world", [True, False])
def test_the_released_lxmert_has_one_shape_of_99_objects(split, store, world):
    dataset = dataset_of(split, store, world=world)
    text = int(split.lengths.max()) + 3

    def shapes(**changes):
        return split_buckets(resolved(dataset, **changes), dataset, "train", 8)

    lxmert = {"profile": "release", "model.factory": "lxmert"}
    assert shapes(**lxmert) == (Bucket(text, 99),)
    assert shapes(**lxmert, text_only="zero") == (Bucket(text, 99),)
    assert shapes(**lxmert, text_only="drop")[-1].objects == 1
    given = {"buckets.text": (text,), "buckets.objects": (7,)}
    assert shapes(**lxmert, **given) == (Bucket(text, 7),)
    for other in ({"profile": "release"}, {"model.factory": "lxmert"}):
        assert max(bucket.objects for bucket in shapes(**other)) < 99


@pytest.mark.parametrize(
    "buckets", [{"buckets.max": 2}, {"buckets.text": (9, 18), "buckets.objects": (4, 8)}]
)
def test_several_shapes_are_refused_where_padding_is_attended(split, buckets):
    lxmert = {"model.factory": "lxmert", **buckets}
    resolved(dataset_of(split), **lxmert)
    with pytest.raises(UserError, match=r"config\.buckets\.(max|objects) is .* released 99"):
        resolved(dataset_of(split), profile="release", **lxmert)


def long_caption(*span):
    """A caption of 70 tokens, of which the window of 64 holds 62 behind its leading two."""
    columns = masked_span_columns(
        [list(range(7, 77))], span=[span], task=[0], image=[0], caption=[0], image_id=[0]
    )
    return Split("train", columns)


@pytest.mark.parametrize(
    ("profile", "paper_size", "start", "stop"),
    [("release", FLICKR, 60, 62), ("release", COCO, 60, 66), ("paper", FLICKR, 60, 66)],
)
def test_the_released_flickr_ends_spans_with_the_window(profile, paper_size, start, stop):
    data = long_caption(60, 66)
    dataset = dataset_of(data, paper_size=paper_size)
    config = resolved(dataset, profile=profile, text_only="zero")
    seen = seen_split(config, dataset, "train")
    assert seen.columns["span"].tolist() == [[start, stop]]
    assert data.columns["span"].tolist() == [[60, 66]]
    if stop == 62:
        window = split_buckets(config, dataset, "train", 1)[-1].text
        check_inputs(seen, None, window=window, max_span=6, feature_dim=DIM, text_only="zero")


def test_a_span_that_begins_beyond_the_window_is_one_sentence():
    dataset = dataset_of(long_caption(62, 66), paper_size=FLICKR)
    config = resolved(dataset, profile="release", text_only="zero")
    seen = seen_split(config, dataset, "train")
    with pytest.raises(UserError, match=r"\[62, 66\) leaves the text window of 64"):
        check_inputs(seen, None, window=64, max_span=6, feature_dim=DIM, text_only="zero")
