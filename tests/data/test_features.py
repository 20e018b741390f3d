"""The feature store: what is written comes back, and every damage is named."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.data.features import FeatureStore, write_feature_store
from mmgen.errors import UserError

DIM = 5
ORIGIN = {"extractor": "random numbers", "trained_on": "nothing", "box_convention": "xyxy_unit"}


def make_items(counts, dtype=np.float16, seed=0, first_id=100):
    rng = np.random.default_rng(seed)
    for index, count in enumerate(counts):
        corners = np.sort(rng.random((count, 2, 2), np.float32), axis=1)
        features = rng.standard_normal((count, DIM)).astype(dtype)
        whole = rng.standard_normal(DIM).astype(dtype)
        # Ids neither start at 0 nor rise.
        yield first_id - 7 * index, features, corners.reshape(count, 4), whole


@pytest.fixture
def folder(tmp_path):
    write_feature_store(tmp_path / "features", make_items([3, 0, 7, 1]), ORIGIN)
    return tmp_path / "features"


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    rows=st.lists(st.integers(-1, 5), min_size=1, max_size=9),
    max_objects=st.integers(1, 8),
    dtype=st.sampled_from([np.float16, np.float32]),
)
def test_gather_returns_what_was_written(tmp_path_factory, counts, rows, max_objects, dtype):
    path = tmp_path_factory.mktemp("store") / "features"
    items = list(make_items(counts, dtype))
    write_feature_store(path, items, ORIGIN)
    store = FeatureStore.open(path, verify=True)
    rows = np.minimum(rows, len(counts) - 1)
    features, boxes, mask, image_feature = store.gather(rows, max_objects)
    assert features.shape == (len(rows), max_objects, DIM) and features.dtype == dtype
    assert boxes.dtype == np.float32 and image_feature.dtype == dtype
    for position, row in enumerate(rows):
        kept = min(counts[row], max_objects) if row >= 0 else 0
        np.testing.assert_array_equal(mask[position], np.arange(max_objects) < kept)
        if row >= 0:
            _, true_features, true_boxes, whole = items[row]
            np.testing.assert_array_equal(features[position, :kept], true_features[:kept])
            np.testing.assert_array_equal(boxes[position, :kept], true_boxes[:kept])
            np.testing.assert_array_equal(image_feature[position], whole)
        else:
            assert not image_feature[position].any()
        assert not features[position, kept:].any() and not boxes[position, kept:].any()


def test_facts_of_a_store(folder):
    store = FeatureStore.open(folder)
    assert len(store) == 4 and store.dim == DIM and store.dtype == np.float16
    np.testing.assert_array_equal(store.counts, [3, 0, 7, 1])
    assert store.counts.dtype == np.int32
    assert store.manifest["extractor"] == "random numbers"
    assert store.manifest["shapes"]["features"] == [11, DIM]
    # The map, not a copy of it.
    assert not store.features.flags.writeable and not store.features.flags.owndata


def test_gather_beyond_the_store_is_an_error(folder):
    with pytest.raises(IndexError):
        FeatureStore.open(folder).gather(np.array([4]), 3)


def test_rows_are_found_by_image_id(folder):
    store = FeatureStore.open(folder)
    np.testing.assert_array_equal(store.rows_of(np.array([79, 100, 86, 79])), [3, 0, 2, 3])
    with pytest.raises(UserError, match=r"has no image 5 \(2 images are missing\)"):
        store.rows_of(np.array([100, 7, 5, 7]))


def test_two_writes_give_the_same_bytes(folder, tmp_path):
    write_feature_store(tmp_path / "again", make_items([3, 0, 7, 1]), ORIGIN)
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def one_item(**changes):
    item = {
        "image_id": 3,
        "features": np.zeros((2, DIM), np.float16),
        "boxes": np.tile(np.float32([0, 0, 1, 1]), (2, 1)),
        "whole": np.zeros(DIM, np.float16),
    }
    return tuple((item | changes).values())


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (one_item(features=np.zeros((2, DIM))), "features are float64"),
        (one_item(features=np.zeros((2, 1, DIM), np.float16)), r"features are float16\[2, 1, 5\]"),
        (one_item(features=np.zeros((2, DIM + 1), np.float16)), "those of the first image"),
        (one_item(features=np.zeros((2, DIM), np.float32)), "those of the first image"),
        (one_item(features=np.full((2, DIM), np.nan, np.float16)), "NaN"),
        (one_item(whole=np.full(DIM, np.inf, np.float16)), "infinite"),
        (one_item(whole=np.zeros(DIM, np.float32)), "whole-image feature"),
        (one_item(boxes=np.zeros((1, 4), np.float32)), "boxes have shape"),
        (one_item(boxes=np.float32([[0, 0, 1, 1.01]] * 2)), "box convention"),
        (one_item(boxes=np.float32([[0, 0, np.nan, 1]] * 2)), "box convention"),
        # x, y, width, height passes for corners only by accident.
        (one_item(boxes=np.float32([[0.6, 0.1, 0.3, 0.5]] * 2)), "box convention"),
        (one_item(image_id=100), "image 100 comes twice"),
    ],
)
def test_a_bad_image_is_named_and_nothing_stays(tmp_path, item, words):
    items = [*make_items([1]), item]
    with pytest.raises(UserError, match=words):
        write_feature_store(tmp_path / "deep" / "features", items, ORIGIN)
    assert list((tmp_path / "deep").iterdir()) == []


def test_no_image_an_existing_folder_and_an_unknown_origin_are_refused(tmp_path):
    with pytest.raises(UserError, match="has no image"):
        write_feature_store(tmp_path / "new", [], ORIGIN)
    (tmp_path / "old").mkdir()
    with pytest.raises(UserError, match="exists already"):
        write_feature_store(tmp_path / "old", make_items([1]), ORIGIN)
    with pytest.raises(ValueError, match="trained_on"):
        write_feature_store(tmp_path / "new", make_items([1]), {"extractor": "", "boxes": ""})
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mmgen.data.store_files.NpyWriter.append", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_feature_store(tmp_path / "features", make_items([2]), ORIGIN)
    assert list(tmp_path.iterdir()) == []


def rewrite(folder, name, change):
    """Change an array and let the manifest's checksum follow, as a foreign writer would."""
    values = np.load(folder / f"{name}.npy")
    changed = change(values)
    np.save(folder / f"{name}.npy", changed)
    edit_manifest(folder, lambda m: m["shapes"].update({name: list(changed.shape)}))


def edit_manifest(folder, change):
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("features", lambda a: a.astype(np.float32), "float32.*manifest says float16"),
        ("features", lambda a: a[:-1], "boxes.npy.*shape"),
        ("features", lambda a: a.reshape(-1), "expected float16 or float32"),
        ("boxes", lambda a: a[:, :3], "boxes.npy.*shape"),
        ("boxes", lambda a: a.astype(np.float64), "float64"),
        ("whole_image", lambda a: a[:, 1:], "whole_image.npy.*shape"),
        ("offsets", lambda a: a[::-1].copy(), "does not rise"),
        ("offsets", lambda a: np.insert(a, 1, 9)[:-1], "does not rise"),
        ("offsets", lambda a: a[1:], "offsets.npy.*shape"),
        ("image_ids", lambda a: np.full_like(a, 3), "names an image twice"),
    ],
)
def test_wrong_shapes_and_dtypes_are_named_on_opening(folder, name, change, words):
    rewrite(folder, name, change)
    with pytest.raises(UserError, match=words):
        FeatureStore.open(folder)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda f: (f / "manifest.json").unlink(), "no finished feature store"),
        (lambda f: (f / "manifest.json").write_text("{"), "manifest.json: it is damaged"),
        (lambda f: edit_manifest(f, lambda m: m.pop("dtype")), "manifest.json: it is damaged"),
        (
            lambda f: edit_manifest(f, lambda m: m["sha256"].pop("boxes.npy")),
            "no shape or checksum",
        ),
        (lambda f: (f / "boxes.npy").unlink(), "boxes.npy: it is missing or damaged"),
        (lambda f: (f / "boxes.npy").write_bytes(b"PK"), "boxes.npy: it is missing or damaged"),
        (
            lambda f: (f / "features.npy").write_bytes((f / "features.npy").read_bytes()[:-8]),
            "features.npy: it is missing or damaged",
        ),
        (
            lambda f: np.save(f / "boxes.npy", np.array([{}], object), allow_pickle=True),
            "boxes.npy: it is missing or damaged",
        ),
    ],
)
def test_damaged_files_are_named_on_opening(folder, break_it, words):
    break_it(folder)
    with pytest.raises(UserError, match=words):
        FeatureStore.open(folder)


def set_value(name, row, value):
    def change(values):
        values[row] = value
        return values

    return lambda folder: rewrite(folder, name, change)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (set_value("features", 3, np.nan), "image 86 has a value that is NaN"),
        (set_value("whole_image", 1, np.inf), "image 93 has a value that is NaN"),
        (set_value("boxes", 10, 2.0), "image 79 has the box"),
    ],
)
def test_verify_reads_every_value(folder, break_it, words):
    break_it(folder)
    FeatureStore.open(folder)
    with pytest.raises(UserError, match="checksum"):
        FeatureStore.open(folder, verify=True)

    def trust(manifest):
        from mmgen.data.checks import file_sha256

        manifest["sha256"] = {file: file_sha256(folder / file) for file in manifest["sha256"]}

    edit_manifest(folder, trust)
    with pytest.raises(UserError, match=words):
        FeatureStore.open(folder, verify=True)
