"""COCO-shift rebuilt from captions against the released streams."""

import gzip
import json
import pathlib
from collections import Counter

import numpy as np
import pytest
from tiny_data import Release

from mmgen.data import tokenizer
from mmgen.data.builders import find_builder
from mmgen.data.builders.coco_shift import read_part
from mmgen.data.builders.heldout import read_heldout
from mmgen.data.builders.released import coco_names, read_image_map
from mmgen.data.builders.request import BuildRequest
from mmgen.data.checks import shared_images
from mmgen.data.columns import open_dataset
from mmgen.data.phrases import read_noun_table
from mmgen.data.tagging import read_captions, write_tags
from mmgen.data.tokenizer import load_wordpiece
from mmgen.data.unpickle import load_plain_pickle
from mmgen.errors import UserError

pytestmark = pytest.mark.skipif(
    tokenizer._packaged_vocabulary() is None,
    reason="no package with the BERT vocabulary is installed",
)


def copy_captions(source: pathlib.Path, raw: pathlib.Path, images: int | None) -> None:
    """Raw folder with the captions of the first `images` images of the map (all if None)."""
    raw.mkdir()
    viscoll = source / "viscoll"
    for name in ("coco_nouns.txt", "coco_val_map.json"):
        (raw / name).symlink_to(viscoll / name)
    data = gzip.decompress((source / "coco_subset" / "captions_val2017.json.gz").read_bytes())
    value = json.loads(data)
    if images is not None:
        kept = set(read_image_map(viscoll / "coco_val_map.json")[:images])
        value["annotations"] = [a for a in value["annotations"] if a["image_id"] in kept]
    (raw / "captions_val2017.json").write_text(json.dumps(value))
    captions = read_captions(raw / "captions_val2017.json")
    write_tags(captions, raw / "tags_val2017.jsonl.gz")


def agreement(source: pathlib.Path, raw: pathlib.Path, part: str) -> tuple[float, float, int]:
    """Precision, recall and released instances of a part on the images in `raw`."""
    table = read_noun_table(raw / "coco_nouns.txt", "release")
    ours = read_part(raw, "val", table, "release", load_wordpiece())
    images = set(ours.caption_images.tolist())
    novel = np.isin(
        ours.instances.image_id, read_heldout(source / "compositional_captioning").images
    )
    rows = np.flatnonzero(novel == (part == "novel"))
    rebuilt = Counter(
        (
            int(ours.instances.caption[row]),
            table.tasks[ours.instances.task[row]],
            *ours.instances.span[row].tolist(),
        )
        for row in rows
    )
    known = set(read_image_map(source / "viscoll" / "coco_val_map.json"))
    released = Counter(
        (row["annotation"]["id"], row["task"], row["mask"][0], row["mask"][1] + 1)
        for row in load_plain_pickle(source / "viscoll" / "pickles" / coco_names(part)[0])
        if row["annotation"]["image_id"] in images & known
    )
    equal = (rebuilt & released).total()
    return equal / rebuilt.total(), equal / released.total(), released.total()


@pytest.fixture(scope="module")
def sample(real_data, tmp_path_factory):
    pytest.importorskip("spacy")
    raw = tmp_path_factory.mktemp("rebuild") / "raw"
    copy_captions(real_data, raw, 300)
    return raw


def test_a_sample_of_the_rebuilt_test_stream_equals_the_released_one(real_data, sample):
    precision, recall, count = agreement(real_data, sample, "test")
    assert count > 1_500
    # All 4,181 images: 96.9 and 96.5 %; a sample of 300 may lie 1.5 points away.
    assert precision > 0.95
    assert recall > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("part", ["test", "novel"])
def test_the_rebuilt_streams_equal_the_released_ones_in_95_percent(real_data, tmp_path, part):
    copy_captions(real_data, tmp_path / "raw", None)
    precision, recall, _ = agreement(real_data, tmp_path / "raw", part)
    assert precision >= 0.95
    assert recall >= 0.95


def request(real_data, raw, out, **settings):
    pairs = real_data / "compositional_captioning"
    return BuildRequest(
        "coco_shift_rebuilt", out, raw, train_from="val", pairs=pairs, settings=settings
    )


def test_val2017_alone_gives_four_splits_without_a_common_image(real_data, sample, tmp_path):
    root = find_builder("coco_shift_rebuilt").build(request(real_data, sample, tmp_path))
    dataset = open_dataset(root)
    assert dataset.info["name"] == "coco_shift_rebuilt_valtrain"
    assert list(dataset.info["splits"]) == ["train", "validation", "test", "novel"]
    assert not shared_images(dataset)
    assert dataset.info["settings"]["taggers"][0].startswith("spacy")
    heldout = read_heldout(real_data / "compositional_captioning").images
    for name in dataset.info["splits"]:
        held = np.isin(dataset.split(name).columns["image_id"], heldout)
        assert held.all() if name == "novel" else not held.any()
    assert sum(pair["novel"] for pair in dataset.info["pairs"]) == 24


def test_all_80_categories_are_another_data_set(real_data, sample, tmp_path):
    asked = request(real_data, sample, tmp_path, objects="fixed", grammar="vbz")
    dataset = open_dataset(find_builder("coco_shift_rebuilt").build(asked))
    assert dataset.info["name"] == "coco_shift_rebuilt_fixed_vbz_valtrain"
    present = {dataset.info["tasks"][t] for t in dataset.split("train").columns["task"]}
    # Lost in the release by its line number and by WordPiece.
    assert {"stop sign", "umbrella", "skateboard"} <= present


def test_train2017_gives_train_and_validation(real_data, sample, tmp_path):
    # The sample's val2017 captions stand for those of train2017; no held-out image is left.
    raw = tmp_path / "raw"
    raw.mkdir()
    for file in sample.iterdir():
        for part in ("val", "train"):
            (raw / file.name.replace("val", part)).exists() or (
                raw / file.name.replace("val", part)
            ).symlink_to(file)
    asked = request(real_data, raw, tmp_path / "out", validation_captions=200)
    dataset = open_dataset(
        find_builder("coco_shift_rebuilt").build(asked._replace(train_from=None))
    )
    assert dataset.info["name"] == "coco_shift_rebuilt"
    assert ("train", "validation") not in shared_images(dataset)
    counts = dataset.info["splits"]
    assert 0 < counts["validation"]["images"] <= 200
    assert (
        counts["train"]["examples"] + counts["validation"]["examples"] == counts["test"]["examples"]
    )
    assert dataset.info["paper_scale"]


def test_tags_of_other_captions_are_refused(real_data, sample, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for file in sample.iterdir():
        if not file.name.startswith("tags"):
            (raw / file.name).symlink_to(file)
    captions = read_captions(raw / "captions_val2017.json")[1:3]
    write_tags(captions, raw / "tags_val2017.jsonl.gz")
    with pytest.raises(UserError, match=r"tags_val2017.*is due: tag this captions file"):
        find_builder("coco_shift_rebuilt").build(request(real_data, raw, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_what_is_missing_is_said(real_data, tmp_path):
    release = Release(tmp_path / "raw")
    asked = request(real_data, release.folder, tmp_path / "out")
    with pytest.raises(UserError, match="--train-from=val"):
        find_builder("coco_shift_rebuilt").build(asked._replace(train_from=None))
    with pytest.raises(UserError, match="can train on train or val"):
        find_builder("coco_shift_rebuilt").build(asked._replace(train_from="dev"))
    with pytest.raises(UserError, match=r"captions_val2017\.json"):
        find_builder("coco_shift_rebuilt").build(asked)
    with pytest.raises(UserError, match="choose release or vbz"):
        find_builder("coco_shift_rebuilt").build(asked._replace(settings={"grammar": "x"}))
