"""Which clips are drawn, and that they are."""

import sys

import numpy as np
import pytest
from small_compact import make_dataset

from mmgen.compact import projection
from mmgen.compact.projection import main, project, sample_clips
from mmgen.data.compact.clip_features import write_clip_features
from mmgen.errors import UserError


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """Every clip but one of "wash cup" has a feature that says which verb it has."""
    found = make_dataset(tmp_path)
    clips = {
        clip: (verb, noun)
        for split in found.info["splits"]
        for one in found.split(split)
        for clip, verb, noun in zip(one["narration_ids"], one["verbs"], one["nouns"], strict=True)
    }
    absent = next(clip for clip, compound in clips.items() if compound == ("wash", "cup"))
    write_clip_features(
        found.root / "features" / "audio",
        (
            (clip, None if clip == absent else np.full((2, 2), float(verb == "wash")))
            for clip, (verb, _) in clips.items()
        ),
        {"modality": "audio", "extractor": "none", "trained_on": "nothing"},
    )
    monkeypatch.setitem(found.info, "features", {"audio": {}})
    monkeypatch.setattr(projection, "open_compact", lambda path: found)
    return found


def test_equally_many_clips_of_each_frequent_compound(dataset):
    sample = sample_clips(dataset, "audio", compounds=3, clips=4)
    counts = {compound: sample.compounds.count(compound) for compound in sample.compounds}
    # Six of "take knife"; five of "wash cup", one of them without a feature.
    assert set(counts.values()) == {4}
    assert {("take", "knife"), ("wash", "cup")} <= set(counts)
    assert len(set(sample.clips)) == len(sample.clips)
    assert sample.features.shape == (len(sample.clips), 4)
    assert (sample.features[:, 0] == [verb == "wash" for verb, _ in sample.compounds]).all()


def test_the_draw_is_that_of_the_seed(dataset):
    first = sample_clips(dataset, "audio", clips=2, seed=1)
    assert first.clips == sample_clips(dataset, "audio", clips=2, seed=1).clips
    assert first.clips != sample_clips(dataset, "audio", clips=2, seed=2).clips


def test_too_rare_compounds_and_unknown_names_are_one_sentence(dataset, tmp_path):
    with pytest.raises(UserError, match="has 25 clips with features"):
        sample_clips(dataset, "audio")
    with pytest.raises(UserError, match="no features called 'vision'"):
        sample_clips(dataset, "vision")
    options = ["x", "--modality=audio", "--clips=2", "--out", str(tmp_path / "out")]
    with pytest.raises(UserError, match="none of the 20 compounds drawn has 'rinse'"):
        main([*options, "--verb=rinse"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--clips=0", "--clips=-3", "--compounds=0", "--seed=-1"])
def test_numbers_out_of_range_are_refused_before_anything_is_read(option, tmp_path):
    name, value = option.split("=")
    with pytest.raises(UserError, match=rf"{name} is {value}; it must be . or more"):
        main([str(tmp_path / "none"), "--modality=audio", "--out", str(tmp_path / "out"), option])


def test_without_scikit_learn_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[projection\]'"):
        project(np.zeros((3, 2)), 0)


def test_the_highlighted_compounds_are_drawn_and_every_point_is_kept(
    dataset, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("matplotlib")
    # The plane of t-SNE itself is scikit-learn's.
    monkeypatch.setattr(projection, "project", lambda features, seed: features[:, :2])
    main(["x", "--modality=audio", "--clips=2", "--verb=wash", "--out", str(tmp_path / "out")])
    assert "clips of" in capsys.readouterr().out
    text = (tmp_path / "out" / "audio_tsne.svg").read_text()
    assert text.startswith("<?xml")
    lines = (tmp_path / "out" / "audio_tsne.csv").read_text().splitlines()
    assert lines[0] == "clip,verb,noun,x,y"
    assert all(line.split(",")[3] == str(float(",wash," in line)) for line in lines[1:])


def test_clusters_stay_together():
    pytest.importorskip("sklearn")
    features = np.repeat(np.eye(3), 8, axis=0) * 20
    features += np.random.default_rng(0).normal(size=features.shape)
    points = project(features.astype(np.float32), seed=0)
    centres = points.reshape(3, 8, 2).mean(axis=1)
    nearest = np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == np.repeat(np.arange(3), 8)).all()
