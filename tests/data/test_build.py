import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
from test_columns import bytes_of
from tiny_data import Release, write_tiny

from mmgen.data.build import build, main
from mmgen.data.builders import BUILDERS
from mmgen.data.builders.rawfiles import read_json, read_lines
from mmgen.data.builders.request import BuildRequest
from mmgen.data.checks import verify_dataset
from mmgen.data.columns import open_dataset
from mmgen.data.features import write_feature_store
from mmgen.data.tfds_export import export_tfds
from mmgen.errors import UserError
from mmgen.settings.defaults import default_config

ROWS = [
    {"image_id": 7, "caption": "A brown dog runs", "span": [0, 3], "task": "dog"},
    {"image_id": 7, "caption": "A brown dog runs", "span": [3, 4], "task": "dog"},
    {"image_id": 8, "caption": "A cat", "span": [0, 2], "task": "cat"},
    {"image_id": 9, "caption": "The cat", "span": [0, 2], "task": "cat"},
]


def write_rows(folder, **splits):
    folder.mkdir(exist_ok=True)
    for name, rows in splits.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text)
    return folder


@pytest.fixture
def own(tmp_path):
    return write_rows(tmp_path / "raw", train=ROWS, validation=ROWS[2:], test=ROWS[:1])


def own_request(own, tmp_path, **more):
    settings = {"vocabulary": "words"} | more.pop("settings", {})
    return BuildRequest("captions", tmp_path / "out", own, settings=settings, **more)


def feature_items(ids):
    generator = np.random.default_rng(0)
    for image in ids:
        count = image % 3
        boxes = np.tile(np.array([0.0, 0.0, 0.5, 1.0], np.float32), (count, 1))
        features = generator.normal(size=(count, 4)).astype(np.float32)
        yield image, features, boxes, features.sum(0)


ORIGIN = {"extractor": "none", "trained_on": "nothing", "box_convention": "xyxy in [0, 1]"}


def test_own_captions_become_a_data_set(own, tmp_path):
    dataset = build(own_request(own, tmp_path, settings={"name": "mine"}), tfds=False)
    assert dataset.root.name == dataset.info["name"] == "mine"
    train = dataset.split("train")
    assert dataset.info["tasks"] == ["cat", "dog"]
    assert train.columns["task"].tolist() == [1, 1, 0, 0]
    assert train.columns["span"].tolist() == [[0, 3], [3, 4], [0, 2], [0, 2]]
    assert dataset.vocabulary.tokens_of(train.tokens(0)) == ["a", "brown", "dog", "runs"]
    assert train.columns["caption"].tolist() == [0, 0, 1, 2]
    assert dataset.images.tolist() == [7, 8, 9]
    assert train.columns["image"].tolist() == [0, 0, 1, 2]
    assert (train.columns["pair"] == -1).all()


def test_spans_of_words_cover_all_their_wordpieces(tmp_path):
    row = {"image_id": 1, "caption": "A skateboarder, riding.", "span": [1, 2], "task": "person"}
    raw = write_rows(tmp_path / "raw", train=[row], validation=[row], test=[row])
    dataset = build(BuildRequest("captions", tmp_path / "out", raw), tfds=False)
    train = dataset.split("train")
    start, stop = train.columns["span"][0]
    tokens = dataset.vocabulary.tokens_of(train.tokens(0))
    assert tokens[start:stop] == ["skate", "##board", "##er", ","]


def test_missing_splits_are_cut_from_train_by_image(tmp_path):
    rows = [ROWS[i % 4] | {"image_id": i // 2} for i in range(80)]
    raw = write_rows(tmp_path / "raw", train=rows)
    dataset = build(own_request(raw, tmp_path), tfds=False)
    ids = {
        name: set(dataset.split(name).columns["image_id"].tolist())
        for name in dataset.info["splits"]
    }
    assert {name: len(images) for name, images in ids.items()} == {
        "train": 32,
        "validation": 4,
        "test": 4,
    }
    assert len(ids["train"] | ids["validation"] | ids["test"]) == 40
    other = build(own_request(raw, tmp_path / "b", data_seed=1), tfds=False)
    assert set(other.split("test").columns["image_id"].tolist()) != ids["test"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", r"train\.jsonl:3 is no JSON"),
        ("[]", r"train\.jsonl:3 needs image_id"),
        ('{"image_id": 1, "caption": "a", "task": "dog"}', "needs .*span"),
        (json.dumps(ROWS[0] | {"span": [0, 5]}), r":3: the span \[0, 5\) lies outside"),
        (json.dumps(ROWS[0] | {"span": [1, 1]}), r":3: the span \[1, 1\)"),
        (json.dumps(ROWS[0] | {"span": [0, 1.0]}), "must be integers"),
        (json.dumps(ROWS[0] | {"image_id": "7"}), "must be integers"),
        (json.dumps(ROWS[0] | {"caption": " "}), "empty caption"),
        (json.dumps(ROWS[0] | {"task": ""}), "task must be a name"),
        (json.dumps(ROWS[0] | {"caption_id": 5}) + "\n" + json.dumps(ROWS[2] | {"caption_id": 5}),
         ":4: caption_id 5 is a duplicate"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(own, tmp_path, line, complaint):
    lines = (own / "train.jsonl").read_text().splitlines()[:2]
    (own / "train.jsonl").write_text("\n".join([*lines, line, ""]))
    with pytest.raises(UserError, match=complaint):
        build(own_request(own, tmp_path))
    assert not (tmp_path / "out").exists()


def test_a_task_that_train_lacks_is_named(own, tmp_path):
    write_rows(own, test=[ROWS[0] | {"task": "cow"}])
    with pytest.raises(UserError, match=r"test\.jsonl:1 has the task 'cow', which train lacks"):
        build(own_request(own, tmp_path))


def test_an_unknown_or_ill_typed_setting_is_named(own, tmp_path):
    with pytest.raises(UserError, match="no such setting, it has: name, vocabulary"):
        build(own_request(own, tmp_path, settings={"nme": "x"}))
    with pytest.raises(UserError, match="--set cut=half: expected float"):
        build(own_request(own, tmp_path, settings={"cut": "half"}))
    with pytest.raises(UserError, match="choose wordpiece or words"):
        build(own_request(own, tmp_path, settings={"vocabulary": "letters"}))


def test_a_feature_store_is_attached_and_images_point_into_it(own, tmp_path):
    write_feature_store(tmp_path / "store", feature_items([9, 5, 8, 7]), dict(ORIGIN))
    dataset = build(own_request(own, tmp_path, features=tmp_path / "store"), tfds=False)
    assert dataset.images.tolist() == [9, 5, 8, 7]
    train = dataset.split("train")
    assert train.columns["image"].tolist() == [3, 3, 2, 0]
    store = dataset.features
    assert store.image_ids[train.columns["image"]].tolist() == train.columns["image_id"].tolist()
    assert dataset.info["features"]["extractor"] == "none"
    assert (dataset.info["max_objects"], dataset.info["feature_dim"]) == (2, 4)
    verify_dataset(dataset)
    plain = build(own_request(own, tmp_path / "b"), tfds=False)
    assert plain.info["features"] is None
    assert plain.info["fingerprint"] != dataset.info["fingerprint"]


def test_a_feature_store_without_an_image_is_refused(own, tmp_path):
    write_feature_store(tmp_path / "store", feature_items([7, 8]), dict(ORIGIN))
    with pytest.raises(UserError, match="has no image 9"):
        build(own_request(own, tmp_path, features=tmp_path / "store"))
    assert not (tmp_path / "out").exists()


def test_tfds_has_row_i_of_the_columns_at_i_and_the_same_bytes_twice(own, tmp_path):
    import tensorflow_datasets as tfds

    dataset = build(own_request(own, tmp_path))
    folder = dataset.root / "tfds"
    first = bytes_of(dataset.root)
    for name in dataset.info["splits"]:
        source = tfds.builder_from_directory(folder).as_data_source(name)
        split = dataset.split(name)
        assert len(source) == len(split)
        for row, example in enumerate(source):
            np.testing.assert_array_equal(example.pop("tokens"), split.tokens(row))
            assert set(example) == set(split.columns) - {"tokens", "token_start"}
            for column, value in example.items():
                np.testing.assert_array_equal(value, split.columns[column][row])
                assert value.dtype == split.columns[column].dtype
    assert "tensorflow" not in sys.modules
    # Another process orders what is hashed differently.
    out = str(tmp_path / "b")
    arguments = ["captions", "--raw", str(own), "--out", out, "--set", "vocabulary=words"]
    command = [sys.executable, "-m", "mmgen.data.build", *arguments]
    subprocess.run(command, check=True, capture_output=True)
    assert bytes_of(tmp_path / "b" / "captions") == first
    export_tfds(dataset)
    assert bytes_of(dataset.root) == first


def test_the_released_streams_give_the_same_bytes_twice(tmp_path):
    release = Release(tmp_path / "raw")
    request = BuildRequest("flickr_shift", tmp_path / "a", release.folder, train_from="val")
    first = build(request, tfds=False)
    second = build(request._replace(out=tmp_path / "b"), tfds=False)
    assert bytes_of(first.root) == bytes_of(second.root)
    assert str(tmp_path) not in (first.root / "dataset.json").read_text()


def test_the_command_builds_prints_counts_and_checks(own, tmp_path, capsys):
    arguments = ["captions", "--raw", str(own), "--out", str(tmp_path / "out"), "--no-tfds"]
    arguments += ["--set", "vocabulary=words", "--set", "name=mine"]
    main(arguments)
    printed = capsys.readouterr().out
    assert "per task, mean" in printed
    assert "none: text-only runs" in printed
    # Image 7 stands in train and in test: the user must know.
    assert "warning: train and test share 1 images" in printed
    with pytest.raises(UserError, match="--force"):
        main(arguments)
    main([*arguments, "--force"])
    main(["--check", str(tmp_path / "out" / "mine")])
    assert "every checksum is right" in capsys.readouterr().out


def test_data_sets_are_built_where_runs_look(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["captions", "--raw", str(own), "--no-tfds", "--set", "vocabulary=words"])
    assert (tmp_path / default_config().data_dir / "captions" / "dataset.json").exists()


def test_the_list_names_every_builder(capsys):
    main(["--list"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in BUILDERS)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give the NAME"),
        (["captoins", "--out", "x"], "did you mean captions"),
        (["cobsat", "--prompts-only"], "--out"),
        (["captions", "--out", "x"], "--raw"),
        (["captions", "--rawr", "x"], "unrecognized arguments: --rawr"),
        (["captions", "--out", "x", "--raw", ".", "--set", "name"], "expected key=value"),
        (["--check", "nowhere"], "no finished data set"),
        (["flickr_shift", "--out", "x", "--raw", ".", "--pairs", "."], "defined on COCO"),
        (["coco_shift_rebuilt", "--out", "x", "--raw", "."], "--pairs"),
        (["scene_world", "--out", "x", "--raw", "."], "no meaning for the built-in"),
    ],
)
def test_a_bad_command_line_is_one_sentence(arguments, complaint):
    with pytest.raises(UserError, match=complaint) as caught:
        main(arguments)
    assert "\n" not in str(caught.value)


def test_errors_leave_with_status_2_and_one_line():
    command = [sys.executable, "-m", "mmgen.data.build", "--check", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_gzipped_lines_are_read(own, tmp_path):
    data = (own / "train.jsonl").read_bytes()
    (own / "train.jsonl").unlink()
    (own / "train.jsonl.gz").write_bytes(gzip.compress(data))
    assert len(build(own_request(own, tmp_path), tfds=False).split("train")) == 4
    (own / "train.jsonl.gz").write_bytes(gzip.compress(data)[:-9])
    with pytest.raises(UserError, match=r"train\.jsonl\.gz cannot be read"):
        build(own_request(own, tmp_path, force=True), tfds=False)


def test_a_damaged_gzip_file_is_one_sentence(tmp_path):
    for name, read in (("x.json.gz", read_json), ("x.jsonl.gz", lambda path: [*read_lines(path)])):
        raw = bytearray(gzip.compress(b'{"a": "a text that is long enough"}\n'))
        # The first byte behind the header: a block of a kind that there is not.
        raw[10] = 0xFF
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(UserError, match=rf"{name} "):
            read(tmp_path / name)


def test_a_full_disk_in_the_tfds_copy_leaves_the_data_set(tmp_path, monkeypatch):
    dataset = open_dataset(write_tiny(tmp_path / "tiny"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mmgen.data.tfds_export._examples", full)
    with pytest.raises(UserError, match="No space left"):
        export_tfds(dataset)
    assert not [path for path in dataset.root.iterdir() if "tfds" in path.name]
    verify_dataset(dataset)


def test_a_world_is_built_by_the_same_command_with_its_settings(tmp_path):
    sizes = {"instances": 60, "validation_items": 20, "test_items": 20, "novel_items": 20}
    request = BuildRequest("scene_world", tmp_path, settings=sizes)
    dataset = build(request, tfds=False)
    assert dataset.root.name.startswith("scene_world-")
    assert dataset.info["world"]
    assert len(dataset.split("train")) == 60
    verify_dataset(dataset)
    with pytest.raises(UserError, match="no such setting"):
        build(request._replace(settings={"instnces": 60}))
