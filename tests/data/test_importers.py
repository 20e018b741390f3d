"""Importers: real bottom-up-attention files, and the formats whose real files nobody has."""

import base64
import json
import re

import numpy as np
import pytest

from mmgen.data.features import FeatureStore
from mmgen.data.importers.__main__ import main
from mmgen.data.importers.boxes import to_unit_corners
from mmgen.errors import UserError

DIM = 6


def run(*args):
    return main([str(arg) for arg in args])


def refused(capsys, *args):
    """The one line that a refused import prints; nothing of it stays."""
    out = args[args.index("--out") + 1]
    assert run(*args) == 2
    assert not out.exists()
    assert [path for path in out.parent.iterdir() if "partial" in path.name] == []
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


# Bottom-up-attention TSV


@pytest.mark.parametrize("kind", ["detectron2_obj36", "caffe_trainval36"])
def test_real_bottom_up_files(real_data, tmp_path, capsys, kind):
    tsv = real_data / "bottom_up_features" / f"COCO_train2014_150367_{kind}.tsv"
    assert run("bottom_up", tsv, "--out", tmp_path / "store", "--dtype", "float32") == 0
    assert "1 images, 36 boxes, 2048 numbers each, float32" in capsys.readouterr().out
    store = FeatureStore.open(tmp_path / "store", verify=True)
    assert store.image_ids.tolist() == [150367] and store.counts.tolist() == [36]
    assert store.manifest["box_convention"] == "xyxy_pixels"
    assert store.manifest["whole_image"] == "mean of the image's regions"

    fields = tsv.read_text().rstrip("\n").split("\t")
    pixels = np.frombuffer(base64.b64decode(fields[4]), np.float32).reshape(36, 4)
    features = np.frombuffer(base64.b64decode(fields[5]), np.float32).reshape(36, 2048)
    gathered = store.gather(np.array([0]), 40)
    np.testing.assert_array_equal(gathered.features[0, :36], features)
    np.testing.assert_allclose(gathered.boxes[0, :36], pixels / [640, 480, 640, 480], rtol=1e-6)
    np.testing.assert_allclose(gathered.image_feature[0], features.mean(0), rtol=1e-6)
    assert gathered.object_mask.sum() == 36


def test_real_features_fit_into_half_precision(real_data, tmp_path):
    tsv = real_data / "bottom_up_features" / "COCO_train2014_150367_detectron2_obj36.tsv"
    for dtype in ("float16", "float32"):
        assert run("bottom_up", tsv, "--out", tmp_path / dtype, "--dtype", dtype) == 0
    half, full = (FeatureStore.open(tmp_path / dtype) for dtype in ("float16", "float32"))
    np.testing.assert_allclose(half.features, full.features, rtol=1e-3, atol=1e-6)


def encode(values):
    return base64.b64encode(np.asarray(values, np.float32).tobytes()).decode()


def tsv_line(image_id=7, count=2, boxes=None, features=None, width=20):
    boxes = [[0, 0, 10, 5], [2, 3, 20, 10]] if boxes is None else boxes
    features = np.arange(count * DIM) if features is None else features
    return f"{image_id}\t{width}\t10\t{count}\t{encode(boxes)}\t{encode(features)}\n"


def test_lines_of_several_files_become_rows_in_order(tmp_path):
    (tmp_path / "a.tsv").write_text(tsv_line(9) + tsv_line("COCO_val2014_000000000003"))
    # The ten columns of the files that LXMERT's authors distribute: height before width.
    objects = "\t".join(["x"] * 4)
    ten = f"5\t10\t20\t{objects}\t1\t{encode([0, 0, 20, 10])}\t{encode(range(DIM))}\n"
    (tmp_path / "b.tsv").write_text(ten)
    assert run("bottom_up", tmp_path / "a.tsv", tmp_path / "b.tsv", "--out", tmp_path / "s") == 0
    store = FeatureStore.open(tmp_path / "s", verify=True)
    assert store.image_ids.tolist() == [9, 3, 5] and store.counts.tolist() == [2, 2, 1]
    np.testing.assert_array_equal(store.boxes[4], [0, 0, 1, 1])
    assert store.dtype == np.float16


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("7\t20\t10\n", "a.tsv:2 has 3 tab-separated columns"),
        (tsv_line(image_id="cat"), "a.tsv:2 has a column that is not a number"),
        (tsv_line(count=3, features=range(18)), "a.tsv:2: column boxes does not decode"),
        (tsv_line(features=range(13)), "a.tsv:2: column features does not decode"),
        (tsv_line().rstrip()[:-3] + "\n", "a.tsv:2: column features does not decode"),
        (tsv_line(boxes=[[0, 0, 1]] * 2), "a.tsv:2: 6 box numbers for 2 boxes"),
        (tsv_line(width=10), "a.tsv:2: read as xyxy_pixels"),
        (tsv_line(width=0), "a.tsv:2: the image size is 0.0 x 10.0"),
        (tsv_line(image_id=1), "image 1 comes twice"),
        (tsv_line(features=[np.nan] * 12), "image 7: a feature is NaN"),
        (tsv_line(features=[1e5] * 12), "image 7: .* too large for float16"),
        (tsv_line(features=range(14)), "image 7: features are float16"),
        ("\xe9\n", "a.tsv cannot be read as a bottom-up"),
    ],
)
def test_a_bad_line_is_named(tmp_path, capsys, line, words):
    (tmp_path / "a.tsv").write_text(tsv_line(1) + line, encoding="latin-1")
    error = refused(capsys, "bottom_up", tmp_path / "a.tsv", "--out", tmp_path / "s")
    assert re.search(words, error)


def test_a_missing_tsv_file_is_named(tmp_path, capsys):
    error = refused(capsys, "bottom_up", tmp_path / "no.tsv", "--out", tmp_path / "s")
    assert "no.tsv" in error and "No such file" in error


# Box conventions


def test_conventions_agree():
    corners = np.array([[0.25, 0.2, 0.75, 0.6]])
    size = (200, 100)
    pixels = corners * np.tile(size, 2)
    for boxes, convention in (
        (corners, "xyxy_unit"),
        (pixels, "xyxy_pixels"),
        (np.hstack([corners[:, :2], corners[:, 2:] - corners[:, :2]]), "xywh_unit"),
        (np.hstack([pixels[:, :2], pixels[:, 2:] - pixels[:, :2]]), "xywh_pixels"),
    ):
        unit = to_unit_corners(boxes, convention, size, "here")
        np.testing.assert_allclose(unit, corners, rtol=1e-6)


def test_one_pixel_outside_is_moved_to_the_border_and_more_is_refused():
    unit = to_unit_corners(np.array([[-1.0, 0, 201, 100]]), "xyxy_pixels", (200, 100), "here")
    np.testing.assert_array_equal(unit, [[0, 0, 1, 1]])
    with pytest.raises(UserError, match="here: read as xyxy_pixels"):
        to_unit_corners(np.array([[0.0, 0, 202, 100]]), "xyxy_pixels", (200, 100), "here")
    with pytest.raises(UserError, match="outside"):
        to_unit_corners(np.array([[0.0, 0, 1.01, 1]]), "xyxy_unit", None, "here")
    with pytest.raises(UserError, match="give --sizes"):
        to_unit_corners(np.ones((1, 4)), "xywh_pixels", None, "here")


# VisCOLL HDF5


@pytest.fixture
def viscoll(tmp_path):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    # Three images with 3, 1 and 2 used slots of 4; slot 0 is the whole image.
    features = np.zeros((3, 4, DIM), np.float32)
    boxes = np.zeros((3, 4, 4), np.float32)
    for row, count in enumerate((3, 1, 2)):
        features[row, :count] = rng.standard_normal((count, DIM))
        boxes[row, :count] = [1, 2, 15, 9]
        boxes[row, 0] = [0, 0, 20, 10]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["bbox_features"], file["bboxes"] = features, boxes
        file["num_boxes"] = np.array([[3], [0], [2]])
    (tmp_path / "map.json").write_text(json.dumps({"0": 42, "2": 8, "1": "13"}))
    (tmp_path / "sizes.json").write_text(
        json.dumps({"42": [20, 10], "13": [20, 10], "8": [20, 10]})
    )
    return tmp_path, features


def hdf5_args(folder, *more, boxes="xyxy_pixels"):
    given = ["--boxes", boxes, "--sizes", folder / "sizes.json", "--out", folder / "s", *more]
    return ["hdf5", folder / "f.h5", "--map", folder / "map.json", *given]


@pytest.mark.parametrize("drop", [False, True])
def test_viscoll_hdf5(viscoll, drop):
    folder, features = viscoll
    assert run(*hdf5_args(folder, *(["--drop-whole"] if drop else []))) == 0
    store = FeatureStore.open(folder / "s", verify=True)
    assert store.image_ids.tolist() == [42, 13, 8]
    assert store.counts.tolist() == ([2, 0, 1] if drop else [3, 1, 2])
    gathered = store.gather(np.arange(3), 4)
    half = features.astype(np.float16)
    np.testing.assert_array_equal(gathered.image_feature, half[:, 0])
    expected = np.roll(half, -1, axis=1) if drop else half
    np.testing.assert_array_equal(
        gathered.features[0], expected[0] * gathered.object_mask[0, :, None]
    )
    np.testing.assert_allclose(gathered.boxes[2, store.counts[2] - 1], [0.05, 0.2, 0.75, 0.9])
    assert store.manifest["whole_image"] == "slot 0 of the source"


def test_the_convention_must_be_given(viscoll, capsys):
    folder, _ = viscoll
    args = hdf5_args(folder)
    at = args.index("--boxes")
    with pytest.raises(SystemExit):
        run(*args[:at], *args[at + 2 :])
    assert "--boxes" in capsys.readouterr().err
    assert "image 42" in refused(capsys, *hdf5_args(folder, boxes="xyxy_unit"))


def edit_h5(folder, name, change):
    import h5py

    with h5py.File(folder / "f.h5", "r+") as file:
        values = file[name][()]
        del file[name]
        changed = change(values)
        if changed is not None:
            file[name] = changed


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda f: edit_h5(f, "bboxes", lambda a: None), "no data set 'bboxes'"),
        (lambda f: edit_h5(f, "num_boxes", lambda a: a[:2]), "num_boxes has 2 rows, the map 3"),
        (lambda f: edit_h5(f, "bboxes", lambda a: a[:, :3]), "do not fit"),
        (lambda f: edit_h5(f, "num_boxes", lambda a: a * 2), "row 0 (image 42): 3 boxes are not"),
        (lambda f: edit_h5(f, "bboxes", lambda a: a[:, ::-1]), "an empty box stands before"),
        (lambda f: (f / "f.h5").write_bytes(b"no"), "not an HDF5 file"),
        (lambda f: (f / "map.json").write_text("[1]"), "not a JSON map of row to image id"),
        (lambda f: (f / "map.json").write_text('{"1": 2}'), "the rows are not 0 to 0"),
        (lambda f: (f / "sizes.json").write_text('{"1": 2}'), "--sizes"),
        (lambda f: (f / "sizes.json").write_text("{}"), "give --sizes FILE"),
    ],
)
def test_damaged_viscoll_files_are_named(viscoll, capsys, break_it, words):
    folder, _ = viscoll
    break_it(folder)
    assert words in refused(capsys, *hdf5_args(folder))


# npz


def test_npz_files_of_both_spellings(tmp_path):
    features = np.random.default_rng(0).standard_normal((3, DIM)).astype(np.float32)
    boxes = np.float32([[0, 0, 20, 10], [1, 2, 15, 9], [0, 5, 5, 10]])
    folder = tmp_path / "npz"
    folder.mkdir()
    np.savez(folder / "12.npz", features=features, boxes=boxes, whole_image=features[0] * 2)
    # As bottom-up-attention.pytorch writes them, transposed, with a pickled extra.
    extra = np.array({"objects": [1]}, object)
    size = {"image_w": 20, "image_h": 10}
    np.savez(folder / "COCO_9.npz", x=features.T, bbox=boxes, info=extra, **size)
    sizes = tmp_path / "sizes.json"
    sizes.write_text(json.dumps({"images": [{"id": 12, "width": 20, "height": 10}]}))
    args = ["--boxes", "xyxy_pixels", "--sizes", sizes, "--dtype", "float32"]
    assert run("npz", folder, *args, "--out", tmp_path / "s") == 0
    store = FeatureStore.open(tmp_path / "s", verify=True)
    assert store.image_ids.tolist() == [9, 12]
    gathered = store.gather(np.arange(2), 3)
    np.testing.assert_array_equal(gathered.features, [features] * 2)
    np.testing.assert_allclose(gathered.image_feature[0], features.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(gathered.image_feature[1], features[0] * 2)


@pytest.mark.parametrize(
    ("name", "arrays", "words"),
    [
        ("cat.npz", {"features": np.ones((1, DIM)), "boxes": np.ones((1, 4))}, "an image id"),
        ("1.npz", {"features": np.ones((1, DIM))}, "no array 'boxes'"),
        ("1.npz", {"features": np.ones((2, DIM)), "boxes": np.ones((1, 4))}, "expected floating"),
        ("1.npz", {"features": np.ones((1, DIM)), "boxes": np.ones(4)}, "expected [k, 4]"),
        ("1.npz", {"features": np.array([{}], object), "boxes": np.ones((1, 4))}, "damaged"),
        ("1.npz", {"features": np.ones((0, DIM)), "boxes": np.ones((0, 4))}, "neither a region"),
    ],
)
def test_damaged_npz_files_are_named(tmp_path, capsys, name, arrays, words):
    folder = tmp_path / "npz"
    folder.mkdir()
    np.savez(folder / name, **arrays)
    args = ("npz", folder, "--boxes", "xyxy_unit", "--out", tmp_path / "s")
    assert words in refused(capsys, *args)


def test_an_empty_folder_and_a_false_npz_are_named(tmp_path, capsys):
    folder = tmp_path / "npz"
    folder.mkdir()
    args = ("npz", folder, "--boxes", "xyxy_unit", "--out", tmp_path / "s")
    assert "holds no .npz file" in refused(capsys, *args)
    (folder / "3.npz").write_bytes(b"not a zip")
    assert "3.npz is damaged" in refused(capsys, *args)
