"""Features of clips through the builder: taken, masked, counted, refused."""

import json

import numpy as np
import pytest
from tiny_epic import rows

from mmgen.compact.experiment import build as build_experiment
from mmgen.compact.experiment import prepare
from mmgen.data.build import build
from mmgen.data.builders.request import BuildRequest
from mmgen.data.compact.clip_features import write_clip_features
from mmgen.data.compact.dataset import open_compact, verify_compact
from mmgen.errors import UserError
from mmgen.settings.compact import compact_config, resolve

SETTINGS = {"sizes": [60, 20, 20], "split": "random", "report_seeds": 0, "figures": False}


def build_with(raw, out, features, **settings):
    request = BuildRequest("compact", out, raw, features=features, settings=SETTINGS | settings)
    return build(request)


def write_source(folder, modality, *, leave_out=0, silent=(), video=None, shape=(4,)):
    """Features of all clips of the tiny csv but the first ones of a video."""
    rng = np.random.default_rng(0)
    items = []
    for row in rows():
        place = int(row["narration_id"].rpartition("_")[2])
        if place >= leave_out:
            clip = row["narration_id"] if video is None else f"{video}_{len(items)}"
            items.append((clip, None if clip in silent else rng.normal(size=shape)))
    facts = {"modality": modality, "extractor": "drawn", "trained_on": "nothing"}
    write_clip_features(folder / modality, items, facts)
    return folder


def test_clips_of_the_instances_are_taken_and_counted(raw, tmp_path):
    bare = build_with(raw, tmp_path / "bare", None)
    clip = bare.split("train")[0]["narration_ids"][0]
    source = write_source(tmp_path / "source", "audio", leave_out=1, silent=(clip,))
    write_source(source, "vision", shape=(2, 3))
    dataset = build_with(raw, tmp_path / "out", source)
    assert dataset.modalities == ("audio", "vision")
    audio = dataset.features("audio")
    instances = [one for name in dataset.info["splits"] for one in dataset.split(name)]
    assert set(audio.clips) == {clip for one in instances for clip in one["narration_ids"]}
    missing = [clip for clip in audio.clips if clip.endswith("_0")]
    assert audio.manifest["missing"] == missing
    assert missing
    assert not audio.present[audio.rows([*missing, clip])].any()
    assert audio.present.sum() == len(audio) - len(missing) - 1
    facts = json.loads((dataset.root / "report.json").read_text())["features"]["audio"]
    assert facts["missing"] == len(missing)
    assert facts["absent"] == len(missing) + 1
    assert "| audio | 4 | drawn |" in (dataset.root / "report.md").read_text()
    assert dataset.info["fingerprint"] != bare.info["fingerprint"]
    assert bare.modalities == ()
    verify_compact(open_compact(dataset.root))


def test_too_many_missing_clips_fail_the_build(raw, tmp_path):
    source = write_source(tmp_path / "source", "audio", leave_out=20)
    with pytest.raises(UserError, match=r"lacks [\d,]+ of the [\d,]+ clips .*--max-missing=0.05"):
        build_with(raw, tmp_path / "out", source)
    assert not list((tmp_path / "out").iterdir())
    dataset = build_with(raw, tmp_path / "out", source, max_missing=1)
    assert 0.2 < dataset.features("audio").present.mean() < 0.8


def test_a_run_says_itself_how_many_clips_may_lack_a_modality(raw, tmp_path):
    source = write_source(tmp_path / "source", "audio", leave_out=20)
    write_source(source, "vision")
    dataset = build_with(raw, tmp_path / "out", source, max_missing=1)
    config = compact_config()
    config.data_dir, config.dataset.name = str(tmp_path / "out"), dataset.root.name
    config.model.size = "smoke"
    for inputs, allowed in ((("audio",), 0.7), (("vision",), 0.0)):
        config.model.inputs, config.dataset.max_missing = inputs, allowed
        assert prepare(config).splits["train"].present()[inputs[0]] > 0.3
    config.model.inputs, config.dataset.max_missing = ("vision+audio",), 0.05
    with pytest.raises(UserError, match=r"^28\.2 % .*'audio'.*config\.dataset\.max_missing=0\.05"):
        prepare(config)
    # A run that was trained before its data set was asked is opened as it is.
    assert build_experiment(resolve(config, dataset.info), dataset)


def test_features_of_other_videos_fail_the_build(raw, tmp_path):
    source = write_source(tmp_path / "source", "audio", video="P90_01")
    with pytest.raises(UserError, match="features of other videos"):
        build_with(raw, tmp_path / "out", source, max_missing=1.0)


def test_a_folder_without_features_is_refused(raw, tmp_path):
    with pytest.raises(UserError, match="has no folder with a manifest"):
        build_with(raw, tmp_path / "out", raw)
    with pytest.raises(UserError, match="expected a share from 0 to 1"):
        build_with(raw, tmp_path / "out", None, max_missing=3)


@pytest.mark.parametrize("name", ["text", "target", "label", "ids", "mask"])
def test_a_modality_that_batches_have_another_use_for_is_refused(raw, tmp_path, name):
    source = write_source(tmp_path / "source", name)
    with pytest.raises(UserError, match=rf"{name}/manifest\.json: .* be called '{name}'"):
        build_with(raw, tmp_path / "out", source)
    assert not list((tmp_path / "out").iterdir())


def test_two_folders_of_one_modality_are_refused(raw, tmp_path):
    source = write_source(tmp_path / "source", "audio")
    (source / "audio").rename(source / "a")
    write_source(source, "audio")
    with pytest.raises(UserError, match=r"/audio and .*/a both hold the modality 'audio'"):
        build_with(raw, tmp_path / "out", source)
    assert not list((tmp_path / "out").iterdir())


def test_changed_features_are_found(raw, tmp_path):
    source = write_source(tmp_path / "source", "audio")
    dataset = build_with(raw, tmp_path / "out", source)
    with pytest.raises(UserError, match="has no features called 'vision', only audio"):
        dataset.features("vision")
    path = dataset.root / "features" / "audio" / "present.npy"
    present = np.load(path)
    present[0] = False
    np.save(path, present)
    with pytest.raises(UserError, match="checksum is not the manifest's"):
        verify_compact(open_compact(dataset.root))
