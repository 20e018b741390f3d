import os
import pickle
import pickletools

import numpy as np
import pytest
from tiny_data import Release, coco_row, flickr_row

from mmgen.data import tokenizer
from mmgen.data.builders import find_builder
from mmgen.data.builders.released import (
    coco_names,
    coco_tasks,
    read_coco_rows,
    read_image_map,
)
from mmgen.data.builders.request import BuildRequest
from mmgen.data.columns import open_dataset
from mmgen.data.composition import lemmas
from mmgen.data.unpickle import load_plain_pickle
from mmgen.errors import UserError

needs_bert = pytest.mark.skipif(
    tokenizer._packaged_vocabulary() is None,
    reason="no package with the BERT vocabulary is installed",
)
DEV, TEST = "train_split_val_novel_comps_False", "val_split_val_novel_comps_False"
NOVEL = "val_split_val_novel_comps_True"


@pytest.fixture
def release(tmp_path):
    return Release(tmp_path / "raw")


def build(name, raw, out, **more):
    return open_dataset(find_builder(name).build(BuildRequest(name, out, raw, **more)))


@pytest.fixture(scope="module")
def coco(real_data, tmp_path_factory):
    pairs = real_data / "compositional_captioning"
    out = tmp_path_factory.mktemp("coco")
    return build("coco_shift", real_data / "viscoll", out, train_from="dev", pairs=pairs)


@pytest.fixture(scope="module")
def flickr(real_data, tmp_path_factory):
    out = tmp_path_factory.mktemp("flickr")
    return build("flickr_shift", real_data / "viscoll", out, train_from="val")


@needs_bert
def test_counts_of_the_released_coco_streams(coco):
    splits = coco.info["splits"]
    assert coco.info["name"] == "coco_shift_devtrain"
    assert splits["train"]["examples"] + splits["validation"]["examples"] == 27_918
    assert (splits["test"]["examples"], splits["novel"]["examples"]) == (28_720, 4_426)
    assert (splits["test"]["tasks"], splits["novel"]["tasks"]) == (58, 54)
    assert splits["train"]["images"] + splits["validation"]["images"] == 4_058
    assert (splits["test"]["images"], splits["novel"]["images"]) == (4_181, 567)
    assert len(coco.info["tasks"]) == 80
    assert not coco.info["paper_scale"]


@needs_bert
def test_coco_spans_are_half_open_wordpieces_that_hold_a_noun_of_their_task(coco, real_data):
    test = coco.split("test")
    widths = np.bincount(np.diff(test.columns["span"], axis=1).ravel())
    # viscoll.md 1.1 on the 28,743 unfiltered rows; the filter drops 23.
    np.testing.assert_allclose(widths[1:5], [3_134, 12_689, 9_321, 2_765], rtol=0.002)
    lines = (real_data / "viscoll" / "coco_nouns.txt").read_text().splitlines()
    nouns = [{noun.strip() for noun in line.split(",") if noun.strip()} for line in lines]
    hits = 0
    for row in range(2_000):
        start, stop = test.columns["span"][row]
        words = coco.vocabulary.tokens_of(test.tokens(row)[start:stop])
        # Two-word nouns by their last word.
        known = {noun.split()[-1] for noun in nouns[test.columns["task"][row]]}
        hits += bool(frozenset().union(*map(lemmas, words)) & known)
    assert hits >= 1_998


@needs_bert
def test_dev_rows_keep_their_order_and_no_image_is_in_two_splits(coco):
    ids = {name: set(coco.split(name).columns["image_id"].tolist()) for name in coco.info["splits"]}
    names = list(ids)
    assert names == ["train", "validation", "test", "novel"]
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            assert not ids[first] & ids[second]
    assert len(ids["validation"]) == round(0.1 * 4_058)
    # Captions of the release are sorted by annotation file, which is not sorted by id.
    captions = coco.split("train").columns["caption"]
    assert (np.diff(captions) < 0).any()
    images = coco.split("test").columns["image"]
    np.testing.assert_array_equal(coco.images[images], coco.split("test").columns["image_id"])


@needs_bert
def test_held_out_pairs_are_found_in_the_novel_stream(coco):
    pairs = coco.info["pairs"]
    novel = [pair["name"] for pair in pairs if pair["novel"]]
    assert len(novel) == 24
    assert sum(pair["kind"] == "verb" for pair in pairs if pair["novel"]) == 8
    counts = {name: np.bincount(coco.split(name).columns["pair"] + 1, minlength=len(pairs) + 1)[1:]
              for name in ("test", "novel")}  # fmt: skip
    # Every pair has 7 to 63 spans in the novel stream under the release's matching; ours adds the
    # words that stand in two lists.
    assert (counts["novel"][:24] >= 7).all()
    assert counts["novel"][:24].sum() > 650
    assert counts["test"][:24].sum() < 60
    assert counts["test"][24:].sum() > 600


@needs_bert
def test_pair_tokens_are_the_atom_and_the_noun(coco):
    split = coco.split("novel")
    names = [pair["name"] for pair in coco.info["pairs"]]
    rows = np.flatnonzero(split.columns["pair"] == names.index("black_cat"))
    for row in rows:
        atom, noun = coco.vocabulary.tokens_of(split.tokens(row)[split.columns["pair_tokens"][row]])
        assert atom == "black"
        assert noun in {"cat", "cats", "kitten", "kittens", "feline", "tabby"}


def test_counts_of_the_released_flickr_stream(flickr):
    splits = flickr.info["splits"]
    assert flickr.info["name"] == "flickr_shift_valtrain"
    assert sum(facts["examples"] for facts in splits.values()) == 15_406
    assert [facts["images"] for facts in splits.values()] == [800, 100, 100]
    assert sum(facts["captions"] for facts in splits.values()) == 4_980
    tasks = np.concatenate([flickr.split(name).columns["task"] for name in splits])
    assert len(np.unique(tasks)) == 885
    spans = np.concatenate([flickr.split(name).columns["span"] for name in splits])
    assert np.diff(spans, axis=1).mean() == pytest.approx(2.373, abs=5e-4)


def test_flickr_spans_are_half_open_words_that_hold_their_task(flickr):
    split = flickr.split("train")
    hits = 0
    for row in range(1_000):
        start, stop = split.columns["span"][row]
        words = flickr.vocabulary.tokens_of(split.tokens(row)[start:stop])
        task = flickr.info["tasks"][split.columns["task"][row]]
        hits += any(word.startswith(task[:3]) for word in words)
    assert hits > 950


@needs_bert
def test_json_lines_are_the_same_rows_as_the_pickles(real_data):
    raw = real_data / "viscoll"
    pickled, lines = coco_names("novel")
    images = set(read_image_map(raw / "coco_val_map.json"))
    wordpiece, tasks = tokenizer.load_wordpiece(), coco_tasks(raw)
    first = read_coco_rows(raw / "pickles" / pickled, tasks, images, wordpiece)
    second = read_coco_rows(raw / lines, tasks, images, wordpiece)
    assert first.tokens == second.tokens
    for column in ("span", "task", "caption", "image_id"):
        np.testing.assert_array_equal(getattr(first, column), getattr(second, column))


@needs_bert
def test_rows_of_images_in_no_map_are_dropped(release, tmp_path):
    release.json("coco_train_map.json", {"0": 11})
    rows = [coco_row(0, "dog", 0, 2), coco_row(2, "cat", 1, 3), coco_row(3, "dog", 0, 1)]
    release.pickle("coco", "train_split_train_novel_comps_False", rows)
    dataset = build("coco_shift", release.folder, tmp_path / "out")
    assert dataset.split("train").columns["image_id"].tolist() == [11, 13]


@needs_bert
def test_with_the_train_stream_it_is_the_published_data_set(release, tmp_path):
    rows = [coco_row(2, "cat", 2, 3), coco_row(0, "dog", 0, 2)]
    release.pickle("coco", "train_split_train_novel_comps_False", rows)
    dataset = build("coco_shift", release.folder, tmp_path / "out")
    assert dataset.info["name"] == "coco_shift"
    assert dataset.info["paper_scale"]
    assert dataset.info["paper_size"] == 639_592
    train = dataset.split("train")
    # Inclusive (2, 3) over "a skate ##boarding cat runs" becomes [2, 4), in stream order.
    assert train.columns["span"].tolist() == [[2, 4], [0, 3]]
    assert dataset.vocabulary.tokens_of(train.tokens(0))[2:4] == ["##boarding", "cat"]
    assert len(dataset.split("validation")) == 3


@pytest.mark.parametrize(("name", "part"), [("coco_shift", "dev"), ("flickr_shift", "val")])
def test_without_the_train_stream_one_sentence_says_what_to_do(release, tmp_path, name, part):
    with pytest.raises(UserError, match=f"--train-from={part}"):
        build(name, release.folder, tmp_path / "out")
    with pytest.raises(UserError, match=f"can train on train or {part}"):
        build(name, release.folder, tmp_path / "out", train_from="test")
    assert not (tmp_path / "out").exists()


@needs_bert
@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([coco_row(0, "dog", 0, 2), coco_row(1, "cat", 0, 2)], r"row 2: the span 0\.\.2 lies out"),
        ([coco_row(0, "dog", 2, 1)], r"row 1: the span 2\.\.1"),
        ([coco_row(0, "cow", 0, 1)], "row 1 has the task 'cow'"),
        ([{"task": "dog", "mask": (0, 1)}], r"row 1 is no row of a COCO stream \(KeyError"),
        ([coco_row(0, "dog", 0, 1), 7], "row 2 is no row"),
        ([coco_row(0, "dog", 0, "1")], "row 1 is no row .*wrong type"),
        ([coco_row(0, "dog", 0, 1) | {"mask": (0, 1, 2)}], "row 1 is no row"),
        ([], "expected a list of rows"),
        ([coco_row(3, "dog", 0, 1) | {"annotation": {"image_id": 1, "id": 2, "caption": " "}}],
         "row 1 has an empty caption"),
        ([coco_row(0, "dog", 0, 1),
          {"annotation": {"image_id": 11, "id": 1, "caption": "Another"}, "task": "dog",
           "mask": (0, 0)}],
         "row 2: caption id 1 is a duplicate"),
    ],
)  # fmt: skip
def test_a_bad_coco_row_is_named(release, tmp_path, rows, complaint):
    release.pickle("coco", DEV, rows)
    with pytest.raises(UserError, match=f"{DEV}.*{complaint}"):
        build("coco_shift", release.folder, tmp_path / "out", train_from="dev")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([flickr_row(0, "a man", 0, (0, 3))], r"row 1: the span \[0, 3\) lies outside"),
        ([flickr_row(0, "a man", 0, (1, 1))], r"row 1: the span \[1, 1\)"),
        ([flickr_row(0, "a man", 2, (0, 2))], r"row 1 has the task 2, there are only 0\.\.1"),
        ([flickr_row(0, "", 0, (0, 1))], "row 1 has an empty caption"),
        ([flickr_row(0, "a man", 0, (0, 1)), flickr_row(0, "a man", 0, (0, 2))],
         "row 2: instance id 0 is a duplicate"),
        ([flickr_row(0, "a walrus", 0, (0, 1))], "row 1: the word 'walrus' is not in"),
        ([flickr_row(0, "a man", 0, (0, 1), image="x")], "row 1 is no row"),
        ([{}], "row 1 is no row of a Flickr stream"),
    ],
)  # fmt: skip
def test_a_bad_flickr_row_is_named(release, tmp_path, rows, complaint):
    release.pickle("flickr", "val", rows)
    with pytest.raises(UserError, match=f"flickr_task_buffer_val.*{complaint}"):
        build("flickr_shift", release.folder, tmp_path / "out", train_from="val")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("coco_val_map.json", '{"0": 11', "no readable JSON"),
        ("coco_val_map.json", '{"1": 11}', "no map from row number"),
        ("coco_val_map.json", '{"0": 11, "1": 11}', "names an image twice"),
        ("coco_nouns.txt", "dog\n", "has 1 categories"),
    ],
)
def test_a_bad_side_file_is_named(release, tmp_path, name, content, complaint):
    release.text(name, content)
    with pytest.raises(UserError, match=f"{name}.*{complaint}"):
        build("coco_shift", release.folder, tmp_path / "out", train_from="dev")


def test_a_missing_file_and_a_missing_folder_are_named(release, tmp_path):
    (release.folder / "coco_nouns.txt").unlink()
    with pytest.raises(UserError, match=r"coco_nouns\.txt is missing below"):
        build("coco_shift", release.folder, tmp_path / "out", train_from="dev")
    with pytest.raises(UserError, match="is not a folder"):
        build("coco_shift", tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UserError, match="give their folder with --raw"):
        build("coco_shift", None, tmp_path / "out")


def test_the_layout_of_the_released_repository_is_found(release, tmp_path):
    (release.folder / "pickles").rename(release.folder / "flickr_buffer")
    (release.folder / "flickr30k").mkdir()
    vocabulary = release.folder / "flickr_vocab.txt"
    vocabulary.rename(release.folder / "flickr30k" / vocabulary.name)
    assert build("flickr_shift", release.folder, tmp_path / "out", train_from="val")


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (pickle.dumps([Evil()]), "posix.system"),
        (pickle.dumps([coco_row(0, "dog", 0, 1), Evil()]), "posix.system"),
        (b"cbuiltins\neval\n(S'1'\ntR.", "builtins.eval"),
        (b"(S'touch evil'\nios\nsystem\n.", "os.system"),
        (pickle.dumps(np.arange(3)), "numpy"),
    ],
)
def test_a_pickle_that_names_anything_is_refused_and_not_run(tmp_path, monkeypatch, payload, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.pkl").write_bytes(payload)
    with pytest.raises(UserError, match=rf"x\.pkl is refused: it names {name}"):
        load_plain_pickle(tmp_path / "x.pkl")
    assert not (tmp_path / "evil").exists()


def test_every_truncation_of_a_pickle_is_one_sentence(tmp_path):
    payload = pickle.dumps([coco_row(0, "dog", 0, 1)], protocol=3)
    assert len(list(pickletools.genops(payload))) > 10
    for stop in range(len(payload)):
        (tmp_path / "x.pkl").write_bytes(payload[:stop])
        with pytest.raises(UserError, match="truncated"):
            load_plain_pickle(tmp_path / "x.pkl")


@pytest.mark.parametrize("payload", [b"PK\x03\x04", b"{}", b"\x89HDF\r\n", b"]r\xff\xff\xff\x7f."])
def test_a_foreign_file_is_one_sentence(tmp_path, payload):
    (tmp_path / "x.pkl").write_bytes(payload)
    with pytest.raises(UserError, match="truncated"):
        load_plain_pickle(tmp_path / "x.pkl")


def test_a_missing_pickle_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        load_plain_pickle(tmp_path / "x.pkl")


def test_released_maps_have_the_published_sizes(real_data):
    train = read_image_map(real_data / "viscoll" / "coco_train_map.json")
    val = read_image_map(real_data / "viscoll" / "coco_val_map.json")
    assert (len(train), len(val)) == (117_266, 4_952)
    assert not set(train) & set(val)


def test_unfiltered_rows_of_the_pickles(real_data):
    folder = real_data / "viscoll" / "pickles"
    counts = [len(load_plain_pickle(folder / coco_names(p)[0])) for p in ("dev", "test", "novel")]
    assert counts == [27_945, 28_743, 4_427]
