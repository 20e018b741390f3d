"""Clip features on disk: what is absent stays absent, and what is wrong is said."""

import json

import numpy as np
import pytest
from damage import unclosed

from mmgen.data.compact.clip_features import (
    ClipFeatures,
    copy_clips,
    require_rows,
    write_clip_features,
)
from mmgen.errors import UserError

FACTS = {"modality": "audio", "extractor": "drawn", "trained_on": "nothing"}


def items(count=4, shape=(3,), absent=(1,), seed=0):
    values = np.random.default_rng(seed).normal(size=(count, *shape)).astype(np.float32)
    return [(f"P01_01_{n}", None if n in absent else values[n]) for n in range(count)]


def make(path, made=None, dtype="float32", **options):
    write_clip_features(path, items(**options) if made is None else made, FACTS, dtype=dtype)
    return ClipFeatures.open(path, verify=True)


@pytest.mark.parametrize("absent", [(1,), (0, 3), ()])
@pytest.mark.parametrize("shape", [(3,), (5, 2)])
def test_what_was_written_is_read_back(tmp_path, absent, shape):
    store = make(tmp_path / "audio", shape=shape, absent=absent)
    assert (store.modality, store.shape, len(store)) == ("audio", shape, 4)
    assert store.manifest["absent"] == len(absent)
    rows = store.rows(["P01_01_2", "P01_01_1", "P09_99_0"])
    assert rows.tolist() == [2, 1, -1]
    values, here = store.gather(rows.reshape(1, 3))
    assert values.dtype == np.float32
    assert here.tolist() == [[2 not in absent, 1 not in absent, False]]
    for place, (_, value) in enumerate((items(shape=shape, absent=absent))[2:0:-1]):
        expected = np.zeros(shape) if value is None else value
        np.testing.assert_array_equal(values[0, place], expected)
    assert not values[0, 2].any()


def test_absent_is_not_the_same_as_zero(tmp_path):
    store = make(tmp_path / "audio", [("a_0", np.zeros(2, np.float32)), ("a_1", None)])
    values, here = store.gather(np.array([[0, 1]]))
    assert here.tolist() == [[True, False]]
    assert not values.any()


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        ([("a_0", np.zeros(3)), ("a_1", np.zeros(4))], r"clip a_1: its feature has shape \[4\]"),
        ([("a_0", np.zeros(3)), ("a_0", np.zeros(3))], "clip a_0 comes twice"),
        ([("a_0", np.array([np.nan, 0]))], "clip a_0: its feature is NaN"),
        ([("a_0", np.array([1e9, 0]))], "too large for float16"),
        ([("a_0", np.array(["x"]))], "expected numbers"),
        ([("a_0", np.float32(3))], "expected numbers"),
        ([("a_0", None)], "no clip with a feature"),
        ([], "no clip with a feature"),
    ],
)
def test_a_bad_feature_leaves_nothing(tmp_path, made, complaint):
    with pytest.raises(UserError, match=complaint):
        write_clip_features(tmp_path / "audio", made, FACTS)
    assert not list(tmp_path.iterdir())


def test_what_exists_is_not_overwritten(tmp_path):
    make(tmp_path / "audio")
    with pytest.raises(UserError, match="exists already"):
        make(tmp_path / "audio")
    with pytest.raises(ValueError, match="trained_on"):
        write_clip_features(tmp_path / "b", items(), {"modality": "audio", "extractor": "x"})


def rewrite(folder, name, value):
    """Another array, and a checksum that does not tell."""
    np.save(folder / f"{name}.npy", value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda p: rewrite(p, "features", np.zeros((4, 9), np.float32)), r"float32\[4, 9\] where"),
        (lambda p: rewrite(p, "features", np.zeros((4, 3))), r"float64\[4, 3\] where"),
        (lambda p: rewrite(p, "present", np.ones(3, bool)), r"present\.npy: it is bool\[3\]"),
        (lambda p: (p / "features.npy").unlink(), r"features\.npy: it is missing"),
        (lambda p: (p / "features.npy").write_bytes(b"?"), r"features\.npy: it is missing or dam"),
        (lambda p: unclosed(p / "features.npy"), r"features\.npy: it is missing or dam"),
        (lambda p: (p / "clips.json").write_text("[1,[2],3,4]"), "narration id in it is no text"),
        (lambda p: (p / "clips.json").write_text("[]"), "no list of 4 clips"),
        (lambda p: (p / "clips.json").write_text('["a","a","b","c"]'), "names a clip twice"),
        (lambda p: (p / "manifest.json").unlink(), "holds no finished clip features"),
        (lambda p: (p / "manifest.json").write_text("{}"), "is damaged"),
    ],
)
def test_a_damaged_folder_is_one_sentence(tmp_path, change, complaint):
    make(tmp_path / "audio")
    change(tmp_path / "audio")
    with pytest.raises(UserError, match=complaint) as caught:
        ClipFeatures.open(tmp_path / "audio")
    assert "\n" not in str(caught.value)


def _trust(folder):
    """Let the manifest's checksums be those of the files."""
    from mmgen.data.checks import file_sha256

    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["sha256"] = {name: file_sha256(folder / name) for name in manifest["sha256"]}
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("row", "value", "complaint"),
    [(2, np.nan, "clip P01_01_2 has a value that is NaN"), (1, 1.0, "P01_01_1 is marked absent")],
)
def test_verifying_reads_every_byte(tmp_path, row, value, complaint):
    make(tmp_path / "audio")
    values = np.load(tmp_path / "audio" / "features.npy")
    values[row, 0] = value
    rewrite(tmp_path / "audio", "features", values)
    ClipFeatures.open(tmp_path / "audio")
    with pytest.raises(UserError, match="its checksum is not"):
        ClipFeatures.open(tmp_path / "audio", verify=True)
    _trust(tmp_path / "audio")
    with pytest.raises(UserError, match=complaint):
        ClipFeatures.open(tmp_path / "audio", verify=True)


def test_a_few_clips_may_be_missing_but_not_many_or_all(tmp_path):
    store = make(tmp_path / "audio")
    ids = ["P01_01_0", "P01_01_9", "P01_01_0", "P01_01_3"]
    assert require_rows(store, ids, max_missing=0.34).tolist() == [0, -1, 0, 3]
    with pytest.raises(UserError, match=r"lacks 1 of the 3 clips .* the first is P01_01_9"):
        require_rows(store, ids, max_missing=0.33)
    with pytest.raises(UserError, match="features of other videos: none of the 2 clips"):
        require_rows(store, ["P30_01_0", "P30_01_1"], max_missing=1.0)


def test_copied_clips_say_which_are_missing(tmp_path):
    store = make(tmp_path / "all")
    ids = ["P01_01_3", "P01_01_8", "P01_01_1"]
    manifest = copy_clips(store, ids, tmp_path / "some", max_missing=0.5)
    some = ClipFeatures.open(tmp_path / "some", verify=True)
    assert some.clips == tuple(ids)
    assert some.present.tolist() == [True, False, False]
    assert manifest["missing"] == ["P01_01_8"]
    assert manifest["extractor"] == "drawn"
    np.testing.assert_array_equal(some.features[0], store.features[3])
