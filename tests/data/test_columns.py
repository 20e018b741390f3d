import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tiny_data import INFO, tiny_columns, write_tiny

from mmgen.data import columns as module
from mmgen.data.checks import shared_images, verify_dataset
from mmgen.data.columns import DatasetWriter, open_dataset
from mmgen.data.tokenizer import world_vocabulary
from mmgen.errors import UserError


def bytes_of(folder):
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_what_was_written_is_read_back(tmp_path):
    dataset = open_dataset(write_tiny(tmp_path / "tiny"))
    split = dataset.split("train")
    assert len(split) == 3
    np.testing.assert_array_equal(split.tokens(1), [7, 10])
    np.testing.assert_array_equal(split.lengths, [4, 2, 2])
    np.testing.assert_array_equal(dataset.images, [11, 12])
    assert dataset.vocabulary.tokens_of(split.tokens(0)) == ["a", "brown", "dog", "runs"]
    assert dataset.features is None
    assert split.columns["span"].dtype == np.int32
    assert not split.columns["span"].flags.writeable
    verify_dataset(dataset)


def test_counts_in_the_manifest(tmp_path):
    facts = open_dataset(write_tiny(tmp_path / "tiny")).info["splits"]["train"]
    del facts["sha256"]
    assert facts == {
        "examples": 3,
        "images": 2,
        "captions": 3,
        "tasks": 2,
        "mean_span": 2.0,
        "max_span": 3,
        "max_tokens": 4,
        "instances_per_task_mean": 1.5,
        "instances_per_task_median": 1.5,
    }


def test_building_twice_gives_the_same_bytes(tmp_path):
    first = bytes_of(write_tiny(tmp_path / "a" / "tiny"))
    assert bytes_of(write_tiny(tmp_path / "b" / "tiny")) == first


@pytest.mark.parametrize(
    "change",
    [{"info": {"settings": {"size": 4}}}, {"info": {"data_seed": 1}}, {"task": [0, 1, 1]}],
)
def test_fingerprint_follows_whatever_decides_the_numbers(tmp_path, change):
    first = open_dataset(write_tiny(tmp_path / "a")).info["fingerprint"]
    assert open_dataset(write_tiny(tmp_path / "b", **change)).info["fingerprint"] != first


def test_fingerprint_does_not_follow_where_files_came_from(tmp_path):
    first = open_dataset(write_tiny(tmp_path / "a")).info["fingerprint"]
    other = write_tiny(tmp_path / "b", {"sources": ["file"], "licences": ["other"]})
    assert open_dataset(other).info["fingerprint"] == first


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"span": [[0, 5], [0, 2], [1, 2]]}, "row 0 .*outside its caption"),
        ({"span": [[0, 3], [2, 2], [1, 2]]}, "row 1 .*span is empty"),
        ({"span": [[0, 3], [0, 2], [-1, 2]]}, "row 2 .*span is empty"),
        ({"task": [0, 2, 0]}, "row 1 .*task is unknown"),
        ({"image": [0, 0, 2]}, "row 2 .*not in images.npy"),
        ({"image": [0, 1, 1]}, "row 1 .*different images"),
        ({"pair": [0, -1, -1]}, "row 0 .*pair is unknown"),
        ({"pair_tokens": [[0, 1], [-1, -1], [-1, -1]]}, "row 0 .*pair_tokens"),
        ({"optimum_": [0, 0, 0]}, "column optimum_ is unknown"),
        ({"optimum": [0, 0]}, r"column optimum is float32\[2\], expected float32\[3\]"),
    ],
)
def test_a_broken_rule_is_named_and_leaves_nothing(tmp_path, changed, rule):
    with pytest.raises(UserError, match=rule):
        write_tiny(tmp_path / "tiny", **changed)
    assert not list(tmp_path.iterdir())


def test_an_empty_caption_and_an_unknown_token_are_refused(tmp_path):
    columns = tiny_columns()
    columns["token_start"] = np.array([0, 0, 6, 8])
    for name, value in (("empty", columns), ("vocabulary", tiny_columns())):
        if name == "vocabulary":
            value["tokens"][0] = 12
        with (
            pytest.raises(UserError, match=name),
            DatasetWriter(tmp_path / "tiny", INFO) as writer,
        ):
            writer.write_vocabulary(world_vocabulary(("a", "brown", "dog", "cat", "runs")))
            writer.write_images(np.array([11, 12]))
            writer.write_split("train", value)


def test_a_finished_data_set_is_only_replaced_by_force(tmp_path):
    root = write_tiny(tmp_path / "tiny")
    with pytest.raises(UserError, match="--force"):
        write_tiny(root)
    write_tiny(root, task=[1, 1, 1], force=True)
    assert open_dataset(root).info["splits"]["train"]["tasks"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_a_failed_rebuild_keeps_the_old_data_set(tmp_path):
    root = write_tiny(tmp_path / "tiny")
    with pytest.raises(UserError):
        write_tiny(root, task=[0, 9, 0], force=True)
    verify_dataset(open_dataset(root))


def test_a_folder_of_somebody_else_is_never_touched(tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "thesis.txt").write_text("words")
    with pytest.raises(UserError, match="no data set"):
        write_tiny(tmp_path / "tiny", force=True)
    assert (tmp_path / "tiny" / "thesis.txt").read_text() == "words"


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import numpy as np
from tiny_data import INFO, tiny_columns
from mmgen.data.columns import DatasetWriter
writer = DatasetWriter({root!r}, INFO).__enter__()
writer.write_images(np.array([11, 12]))
writer.write_split("train", tiny_columns())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_build_is_not_mistaken_for_a_finished_one(tmp_path):
    root = tmp_path / "tiny"
    script = KILLED.format(tests=os.path.dirname(__file__), root=str(root))
    assert subprocess.run([sys.executable, "-c", script]).returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == [".tiny.partial"]
    with pytest.raises(UserError, match="no finished data set"):
        open_dataset(root)
    verify_dataset(open_dataset(write_tiny(root)))
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_two_builds_of_one_data_set_do_not_mix(tmp_path):
    root = tmp_path / "tiny"
    with DatasetWriter(root, INFO) as writer:
        writer.write_vocabulary(world_vocabulary(("a", "brown", "dog", "cat", "runs")))
        writer.write_images(np.array([11, 12]))
        with pytest.raises(UserError, match="another process"):
            write_tiny(root)
        writer.write_split("train", tiny_columns())
    verify_dataset(open_dataset(root))


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_tiny(tmp_path / "tiny")
    assert not list(tmp_path.iterdir())


def test_another_failure_keeps_its_traceback_and_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), DatasetWriter(tmp_path / "tiny", INFO) as writer:
        writer.write_images(np.array([11]))
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_a_changed_file_is_found(tmp_path):
    root = write_tiny(tmp_path / "tiny")
    file = root / "columns" / "train" / "task.npy"
    data = bytearray(file.read_bytes())
    data[-4] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(UserError, match=r"task\.npy is not the file that was built"):
        verify_dataset(open_dataset(root))


def test_a_changed_manifest_is_found(tmp_path):
    root = write_tiny(tmp_path / "tiny")
    info = json.loads((root / "dataset.json").read_text())
    info["tasks"] = ["cat", "dog"]
    (root / "dataset.json").write_text(json.dumps(info))
    with pytest.raises(UserError, match="changed after the build"):
        verify_dataset(open_dataset(root))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "windows"}'])
def test_a_damaged_manifest_is_one_sentence(tmp_path, content):
    (tmp_path / "dataset.json").write_text(content)
    with pytest.raises(UserError, match=r"dataset\.json is"):
        open_dataset(tmp_path)


def test_a_truncated_column_is_one_sentence(tmp_path):
    root = write_tiny(tmp_path / "tiny")
    file = root / "columns" / "train" / "span.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(UserError, match=r"span\.npy is missing or damaged"):
        open_dataset(root).split("train")


def test_an_unknown_split_names_those_there_are(tmp_path):
    with pytest.raises(UserError, match="no split 'dev', only train"):
        open_dataset(write_tiny(tmp_path / "tiny")).split("dev")


def test_images_in_two_splits_are_counted(tmp_path):
    with DatasetWriter(tmp_path / "tiny", INFO) as writer:
        writer.write_vocabulary(world_vocabulary(("a", "brown", "dog", "cat", "runs")))
        writer.write_images(np.array([11, 12]))
        writer.write_split("train", tiny_columns())
        writer.write_split("test", tiny_columns(image=[0, 0, 0], image_id=[11, 11, 11]))
    assert shared_images(open_dataset(tmp_path / "tiny")) == {("train", "test"): 1}
