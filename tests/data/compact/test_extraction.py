"""Extraction: the plumbing with a fake model, real frames, and tiny random checkpoints."""

import argparse
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import sys
from typing import ClassVar

import numpy as np
import pytest
from damage import encrypted, inflated
from tiny_epic import write_raw

from mmgen.data.builders.compact import read_raw
from mmgen.data.compact import extract as command
from mmgen.data.compact.clip_features import ClipFeatures
from mmgen.data.compact.extraction import extract
from mmgen.data.compact.media import FrameReader, SoundReader
from mmgen.errors import UserError

FACTS = {"modality": "vision", "trained_on": "nothing"}
SAMPLE_PATTERN = "{video}_frame_{frame:010d}.jpg"


class Fake:
    """The media's number and its square; None for 13; dies at a call."""

    facts: ClassVar = {"extractor": "fake"}

    def __init__(self, dies_at=None):
        self.calls, self.seen, self.dies_at = 0, [], dies_at

    def __call__(self, media):
        self.calls += 1
        if self.calls == self.dies_at:
            raise KeyboardInterrupt
        self.seen += media
        return [None if m == 13 else np.array([m, m * m], np.float32) for m in media]


def read(clip):
    """The clip's number; clips 4 and 5 have no file."""
    return None if clip.number in (4, 5) else clip.number


@pytest.fixture
def clips(tmp_path):
    return read_raw(write_raw(tmp_path / "raw"), strict=True)[0].clips[:23]


def run(clips, out, extractor=None, **options):
    options = {"batch_size": 3, "part_size": 5, "dtype": "float32"} | options
    return extract(clips, read, extractor or Fake(), out, FACTS, **options)


def bytes_of(root):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(root.iterdir())
    }


def test_every_clip_is_extracted_once_and_the_missing_are_listed(clips, tmp_path):
    fake = Fake()
    found = run(clips, tmp_path / "vision", fake)
    store = ClipFeatures.open(tmp_path / "vision", verify=True)
    assert found.missing == [c.narration_id for c in clips if c.number in (4, 5)]
    assert store.clips == tuple(c.narration_id for c in clips if c.number not in (4, 5))
    assert store.present.sum() == len(clips) - 2 - 1
    assert not store.present[store.rows([f"{clips[0].video_id}_13"])].any()
    row = store.rows([f"{clips[0].video_id}_9"])[0]
    assert store.features[row].tolist() == [9, 81]
    assert sorted(fake.seen) == [n for n in range(23) if n not in (4, 5)]
    assert store.manifest["extractor"] == "fake"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw", "vision"]


def test_neither_batch_nor_part_changes_a_number(clips, tmp_path):
    run(clips, tmp_path / "a")
    run(clips, tmp_path / "b", batch_size=16, part_size=100, threads=1)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


@pytest.mark.parametrize("dies_at", [1, 2, 5, 9])
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(clips, tmp_path, dies_at):
    run(clips, tmp_path / "whole")
    out = tmp_path / "vision"
    with pytest.raises(KeyboardInterrupt):
        run(clips, out, Fake(dies_at))
    assert not out.exists()
    # What a kill in the middle of writing leaves.
    (tmp_path / ".vision.parts" / "00004.partial").write_bytes(b"half")
    again = Fake()
    found = run(clips, out, again)
    assert found.resumed == 5 * ((dies_at - 1) // 2)
    assert len(again.seen) <= 21 - found.resumed + 2
    assert bytes_of(out) == bytes_of(tmp_path / "whole")
    assert found.missing == [c.narration_id for c in clips if c.number in (4, 5)]
    assert not (tmp_path / ".vision.parts").exists()


def test_parts_of_other_settings_are_refused(clips, tmp_path):
    out = tmp_path / "vision"
    with pytest.raises(KeyboardInterrupt):
        run(clips, out, Fake(4))
    other = Fake()
    other.facts = {"extractor": "another"}
    with pytest.raises(UserError, match="made with another extractor"):
        run(clips, out, other)
    with pytest.raises(UserError, match="made with another clips"):
        run(clips[1:], out)
    with pytest.raises(UserError, match="made with another part_size"):
        run(clips, out, part_size=6)
    part = tmp_path / ".vision.parts" / "00000.npz"
    np.savez_compressed(part, clips=np.array(["a"] * 40))
    for damage in (inflated, encrypted, lambda path: path.write_bytes(b"?")):
        damage(part)
        with pytest.raises(UserError, match=r"00000\.npz is damaged"):
            run(clips, out)
    assert not out.exists()


def test_parts_of_clips_at_other_times_are_refused(clips, tmp_path):
    out = tmp_path / "vision"
    with pytest.raises(KeyboardInterrupt):
        run(clips, out, Fake(4))
    later = [clips[0]._replace(stop_time="00:00:01.80"), *clips[1:]]
    with pytest.raises(UserError, match="made with another clips"):
        run(later, out)


MEDIA = {
    "vision": {"frames": "rgb", "pattern": "{video}/{frame}.jpg", "detections": "found"},
    "audio": {"sounds": "wavs", "sound-pattern": "{clip}.wav"},
}


def media_args(root, kind, **changed):
    """The command's arguments with its media below `root`."""
    options = MEDIA[kind] | changed
    paths = {"frames", "detections", "sounds"}
    for name in paths & set(options):
        (root / options[name]).mkdir(parents=True, exist_ok=True)
    given = [
        f"--{name}={root / value if name in paths else value}" for name, value in options.items()
    ]
    rule = ["--frame=proposals"] if kind == "vision" else []
    fixed = [f"--raw={root / 'raw'}", "--model=none", f"--out={root / 'features' / kind}"]
    return command._parser().parse_args([kind, *fixed, *given, *rule])


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("vision", "frames", "other_rgb"),
        ("vision", "pattern", "{video}_{frame}.jpg"),
        ("vision", "detections", "other_found"),
        ("audio", "sounds", "other_wavs"),
        ("audio", "sound-pattern", "{video}_{number}.wav"),
    ],
)
def test_parts_of_other_media_are_refused(tmp_path, kind, option, value):
    write_raw(tmp_path / "raw")
    args = media_args(tmp_path, kind)
    with pytest.raises(KeyboardInterrupt):
        command.run(args, Fake(2), read)
    other = media_args(tmp_path, kind, **{option: value})
    with pytest.raises(UserError, match=f"made with another {option.replace('-', '_')} "):
        command.run(other, Fake(), read)
    assert command.run(args, Fake(), read).resumed == 0


def test_an_extraction_goes_on_where_its_folders_were_moved_to(tmp_path):
    write_raw(tmp_path / "a" / "raw")
    with pytest.raises(KeyboardInterrupt):
        command.run(media_args(tmp_path / "a", "vision"), Fake(20), read)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    found = command.run(media_args(tmp_path / "link", "vision"), Fake(), read)
    assert found.resumed == 256
    assert "rgb" not in (tmp_path / "b" / "features" / "vision" / "manifest.json").read_text()


def test_two_processes_do_not_write_the_same_parts(clips, tmp_path):
    folder = tmp_path / ".vision.parts"
    folder.mkdir()
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(UserError, match="another process extracts"):
            run(clips, tmp_path / "vision")
    finally:
        os.close(held)


def test_bad_features_are_one_sentence(clips, tmp_path):
    def uneven(media):
        return [np.zeros(2 + m % 2, np.float32) for m in media]

    uneven.facts = {"extractor": "fake"}
    with pytest.raises(UserError, match="features of different shapes"):
        run(clips, tmp_path / "vision", uneven)
    with pytest.raises(UserError, match="no clip to extract"):
        run([], tmp_path / "b")
    (tmp_path / "c").mkdir()
    with pytest.raises(UserError, match="exists already"):
        run(clips, tmp_path / "c")


@pytest.fixture
def first_clip(real):
    return next(clip for clip in real[0].clips if clip.narration_id == "P01_01_0")


def test_real_frames_are_chosen_by_rule(real_data, first_clip):
    frames = real_data / "epic_frames_sample" / "rgb"
    middle = FrameReader(frames, SAMPLE_PATTERN, 30.0)
    assert middle.path(first_clip).name == "P01_01_frame_0000000052.jpg"
    picture = middle(first_clip)
    assert (picture.shape, picture.dtype) == ((256, 456, 3), np.uint8)
    proposals = {52: 1, 77: 6}
    most = FrameReader(frames, SAMPLE_PATTERN, 30.0, "proposals", lambda video: proposals)
    assert most.path(first_clip).name == "P01_01_frame_0000000077.jpg"
    later = first_clip._replace(start_time="00:01:00.00", stop_time="00:01:02.00")
    assert middle(later) is None
    assert most(later) is None


def test_the_command_on_real_frames_with_a_fake_model(real_data, tmp_path):
    class Mean(Fake):
        def __call__(self, media):
            return [picture.mean(axis=(0, 1)) for picture in media]

    sample = real_data / "epic_frames_sample"
    args = command._parser().parse_args(
        [
            *("vision", "--model", "none", "--raw", str(real_data / "epic100")),
            *("--out", str(tmp_path / "vision"), "--videos", "P01_01", "--batch", "4"),
            *("--frames", str(sample / "rgb"), "--pattern", SAMPLE_PATTERN),
            *("--frame", "proposals", "--detections", str(sample)),
        ]
    )
    found = command.run(args, Mean(), command.make_reader(args, None))
    store = ClipFeatures.open(tmp_path / "vision", verify=True)
    # The sample shows the first narration; the second begins within its frames or later.
    assert store.clips[0] == "P01_01_0"
    assert store.shape == (3,)
    assert len(found.missing) > 100
    assert store.manifest["frame"] == "proposals"
    with pytest.raises(UserError, match="has no such video"):
        command.chosen_clips(args.raw, ["P99_01"])


def test_frame_files_and_patterns_are_checked(tmp_path, first_clip):
    for pattern, complaint in (
        ("{video}.jpg", r"lacks \{frame\}"),
        ("{video}_{farme}.jpg", "is none"),
        ("{video}{frame:q}", "is none"),
    ):
        with pytest.raises(UserError, match=complaint):
            FrameReader(tmp_path, pattern, 30.0)
    with pytest.raises(UserError, match=r"^--sound-pattern '\{clp\}\.wav' is none"):
        SoundReader(tmp_path, "{clp}.wav", 16000)
    with pytest.raises(UserError, match="is not a folder"):
        FrameReader(tmp_path / "nothing", SAMPLE_PATTERN, 30.0)
    with pytest.raises(UserError, match="belong together"):
        FrameReader(tmp_path, SAMPLE_PATTERN, 30.0, "proposals")
    (tmp_path / "P01_01_frame_0000000052.jpg").write_bytes(b"?")
    with pytest.raises(UserError, match=r"0052\.jpg is no readable picture"):
        FrameReader(tmp_path, SAMPLE_PATTERN, 30.0)(first_clip)


def test_sounds_are_mono_at_the_wanted_rate(tmp_path, clips):
    from scipy.io import wavfile

    reader = SoundReader(tmp_path, "{clip}.wav", 8000)
    assert reader(clips[0]) is None
    tone = np.sin(np.arange(16000) / 16000 * 2 * np.pi * 200)
    stereo = np.stack([tone, tone], axis=1)
    wavfile.write(
        tmp_path / f"{clips[0].narration_id}.wav", 16000, (stereo * 32767).astype(np.int16)
    )
    samples = reader(clips[0])
    assert (samples.shape, samples.dtype) == ((8000,), np.float32)
    assert np.abs(samples[100:-100] - tone[200:-200:2]).max() < 0.01
    (tmp_path / f"{clips[1].narration_id}.wav").write_bytes(b"RIFF?")
    with pytest.raises(UserError, match=r"no readable \.wav"):
        reader(clips[1])


def test_without_torch_the_command_says_how_to_install_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    arguments = ["vision", "--model", str(tmp_path), "--raw", str(tmp_path), "--out", "x"]
    assert command.main(arguments) == 2
    assert "pip install torch" in capsys.readouterr().err


def test_a_kind_without_its_media_is_refused():
    args = argparse.Namespace(kind="vision", frames=None)
    with pytest.raises(UserError, match="give their folder with --frames"):
        command.make_reader(args, None)
    args = argparse.Namespace(kind="audio", sounds=None)
    with pytest.raises(UserError, match="give their folder with --sounds"):
        command.make_reader(args, 16000)


TORCH = importlib.util.find_spec("torch") is not None
with_torch = pytest.mark.skipif(not TORCH, reason="torch is not installed")


@with_torch
def test_a_tiny_image_model_gives_its_pooled_output(tmp_path):
    import torch
    import transformers

    from mmgen.data.compact.extractors import TorchExtractor

    torch.manual_seed(0)
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    model = transformers.ResNetModel(transformers.ResNetConfig(**sizes, layer_type="basic"))
    model.eval().save_pretrained(tmp_path)
    transformers.ConvNextImageProcessor(size={"shortest_edge": 32}).save_pretrained(tmp_path)
    extractor = TorchExtractor("vision", tmp_path, "cpu")
    pictures = [np.random.default_rng(n).integers(0, 255, (40, 50, 3), np.uint8) for n in range(3)]
    found = extractor(pictures)
    assert [row.shape for row in found] == [(16,)] * 3
    np.testing.assert_allclose(extractor(pictures[1:2])[0], found[1], atol=1e-5)
    assert not np.allclose(found[0], found[1])
    assert extractor.facts["extractor"] == "ResNetModel, vision"


@with_torch
def test_a_tiny_detector_gives_objects_and_tags(tmp_path):
    import torch
    import transformers

    from mmgen.data.compact.extractors import TorchExtractor

    torch.manual_seed(0)
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        num_queries=7,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        num_labels=4,
    )
    transformers.DetrForObjectDetection(config).eval().save_pretrained(tmp_path)
    transformers.DetrImageProcessor(size={"shortest_edge": 32, "longest_edge": 64}).save_pretrained(
        tmp_path
    )
    pictures = [np.random.default_rng(n).integers(0, 255, (40, 50, 3), np.uint8) for n in range(2)]
    found = TorchExtractor("objects", tmp_path, "cpu", threshold=0.0)(pictures)
    assert [row.shape for row in found] == [(5, 16)] * 2
    tags = TorchExtractor("tags", tmp_path, "cpu", threshold=0.0)(pictures)
    assert [row.tolist() for row in tags] == [[1.0] * 4] * 2
    for kind in ("objects", "tags"):
        assert TorchExtractor(kind, tmp_path, "cpu", threshold=0.99)(pictures) == [None, None]


@with_torch
def test_a_tiny_sound_model_and_silence(tmp_path):
    import torch
    import transformers

    from mmgen.data.compact.extractors import TorchExtractor

    torch.manual_seed(0)
    config = transformers.ASTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_length=64,
        num_mel_bins=32,
    )
    transformers.ASTModel(config).eval().save_pretrained(tmp_path)
    transformers.ASTFeatureExtractor(max_length=64, num_mel_bins=32).save_pretrained(tmp_path)
    extractor = TorchExtractor("audio", tmp_path, "cpu")
    assert extractor.rate == 16000
    noise = np.random.default_rng(0).normal(size=16000).astype(np.float32)
    loud, silent, again = extractor([noise, np.zeros(16000, np.float32), noise])
    assert silent is None
    assert loud.shape == (16,)
    np.testing.assert_allclose(loud, again, atol=1e-5)


@with_torch
def test_a_tiny_joint_model_embeds_pictures_and_texts():
    from mmgen.data.compact.extractors import TorchExtractor

    folder = pathlib.Path(__file__).parents[2] / "fixtures" / "clip"
    picture = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
    (seen,) = TorchExtractor("joint_vision", folder, "cpu")([picture])
    said = TorchExtractor("joint_text", folder, "cpu")(["open door", "wash the cup"])
    assert seen.shape == said[0].shape == said[1].shape == (8,)
    assert not np.allclose(said[0], said[1])


@with_torch
def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    from mmgen.data.compact.extractors import TorchExtractor

    with pytest.raises(UserError, match=r"config\.json is missing"):
        TorchExtractor("vision", tmp_path, "cpu")
    (tmp_path / "config.json").write_text('{"model_type": "resnet"}')
    with pytest.raises(UserError, match="cannot be loaded as a model of kind vision"):
        TorchExtractor("vision", tmp_path, "cpu")
    with pytest.raises(UserError, match="extractor 'smell' is none of"):
        TorchExtractor("smell", tmp_path, "cpu")
