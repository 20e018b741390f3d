"""Importers of clip features: what is in the source comes out, and nothing else."""

import importlib.util
import json
import sys

import numpy as np
import pytest
from damage import encrypted, inflated, unclosed
from tiny_epic import write_raw

from mmgen.data.builders.compact import read_raw
from mmgen.data.compact.clip_features import ClipFeatures
from mmgen.data.compact.importers import rulstm
from mmgen.data.compact.importers.__main__ import main
from mmgen.data.compact.importers.rulstm import frame_key, read_rulstm
from mmgen.data.compact.keyframes import clip_span
from mmgen.errors import UserError

CLIPS = ("P01_01_2", "P01_01_10", "P02_01_0")
"""In the order of narrations, not of file names."""


def value(row):
    return np.arange(4, dtype=np.float32) + 10 * row


def imported(tmp_path, capsys, *command):
    out = tmp_path / "features" / "audio"
    options = ("--modality", "audio", "--out", str(out), "--dtype", "float32")
    if main([*map(str, command), *options]):
        raise UserError(capsys.readouterr().err.strip())
    return ClipFeatures.open(out, verify=True)


def check(store):
    assert store.clips == CLIPS
    assert store.present.tolist() == [True, False, True]
    np.testing.assert_array_equal(store.features[0], value(0))
    np.testing.assert_array_equal(store.features[2], value(2))
    assert store.manifest["modality"] == "audio"


def write_files(folder, ending="npy"):
    for row, clip in enumerate(CLIPS):
        path = folder / clip.rpartition("_")[0] / f"{clip}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        array = value(row) if row != 1 else np.zeros(0, np.float32)
        np.save(path, array) if ending == "npy" else np.savez(path, vec=array, other=array)
    return folder


def test_one_npy_file_per_clip(tmp_path, capsys):
    check(imported(tmp_path, capsys, "npz", write_files(tmp_path / "in")))
    assert "without a feature: 1" in capsys.readouterr().out


def test_one_npz_file_per_clip(tmp_path, capsys):
    folder = write_files(tmp_path / "in", "npz")
    check(imported(tmp_path, capsys, "npz", folder, "--array", "vec"))
    with pytest.raises(UserError, match=r"P01_01_2\.npz has the arrays other, vec: name one"):
        imported(tmp_path / "again", capsys, "npz", folder)


def test_bad_files_are_one_sentence_and_leave_nothing(tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(UserError, match=r"holds no \.npy or \.npz file"):
        imported(tmp_path, capsys, "npz", folder)
    (folder / "P01_01_3.npy").write_bytes(b"?")
    with pytest.raises(UserError, match=r"P01_01_3\.npy is damaged"):
        imported(tmp_path, capsys, "npz", folder)
    np.save(folder / "P01_01_3.npy", np.array([np.inf]))
    with pytest.raises(UserError, match="clip P01_01_3: its feature is NaN"):
        imported(tmp_path, capsys, "npz", folder)
    np.savez_compressed(folder / "P01_01_3.npz", np.arange(40) % 3)
    (folder / "P01_01_3.npy").unlink()
    for damage in (inflated, encrypted):
        damage(folder / "P01_01_3.npz")
        with pytest.raises(UserError, match=r"P01_01_3\.npz is damaged"):
            imported(tmp_path, capsys, "npz", folder)
    (folder / "P01_01_3.npz").unlink()
    np.save(folder / "P01_01_3.npy", np.zeros(3))
    unclosed(folder / "P01_01_3.npy")
    with pytest.raises(UserError, match=r"P01_01_3\.npy is damaged"):
        imported(tmp_path, capsys, "npz", folder)
    assert not (tmp_path / "features").exists() or not list((tmp_path / "features").iterdir())


def test_hdf5_by_clip_and_by_row(tmp_path, capsys):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        for row, clip in enumerate(CLIPS):
            file[f"clips/{clip}"] = value(row) if row != 1 else np.zeros(0, np.float32)
        file["rows"] = np.stack([value(row) for row in range(3)])
        file["names"] = [clip.encode() for clip in CLIPS]
        file["two"] = [b"a_1", b"a_2"]
    check(imported(tmp_path, capsys, "hdf5", path, "--features", "clips"))
    rows = imported(tmp_path / "b", capsys, "hdf5", path, "--features", "rows", "--ids", "names")
    assert rows.clips == CLIPS
    np.testing.assert_array_equal(rows.features[1], value(1))
    for arguments, complaint in (
        (("--features", "rows"), "name the data set of their clips: --ids"),
        (("--features", "rows", "--ids", "two"), "not a data set with the 2 rows"),
        (
            ("--features", "nothing"),
            "has no 'nothing', only clips, names, rows, two",
        ),
        ((), "clips is a group"),
    ):
        with pytest.raises(UserError, match=complaint):
            imported(tmp_path / "c", capsys, "hdf5", path, *arguments)
    (tmp_path / "no.h5").write_text("?")
    with pytest.raises(UserError, match="missing or not an HDF5 file"):
        imported(tmp_path / "c", capsys, "hdf5", tmp_path / "no.h5")


def test_odd_members_of_hdf5_files_are_one_sentence(tmp_path, capsys):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        file["clips/P01_01_2"] = value(0)
        file["rows"] = np.stack([value(0), value(1)])
        file["number"] = 1.0
        file["names"] = [b"P01_01_2", b"P01_01_3"]
        file["latin"] = [b"P01_01_2", b"P01_01_\xe9"]
        file["linked/P01_01_2"] = h5py.SoftLink("/gone")
        file["odd"] = h5py.Empty("f")
        file[b"latin_group/\xe9_1"] = value(0)
    for arguments, complaint in (
        (("--features", "rows", "--ids", "clips"), "clips is no list of narration ids"),
        (("--features", "rows", "--ids", "number"), "number is no list of narration ids"),
        (("--features", "rows", "--ids", "odd"), "odd is no list of narration ids"),
        (("--features", "number", "--ids", "names"), "number is not a data set with the 2 rows"),
        (("--features", "odd", "--ids", "names"), "odd is not a data set with the 2 rows"),
        (("--features", "rows", "--ids", "latin"), r"narration id b'P01_01_\\xe9' is no UTF-8"),
        (("--features", "latin_group"), "narration id .* is no UTF-8"),
        (("--features", "linked"), "'P01_01_2' is a link that leads nowhere"),
    ):
        with pytest.raises(UserError, match=complaint) as caught:
            imported(tmp_path, capsys, "hdf5", path, *arguments)
        assert str(path) in str(caught.value)


def test_a_damaged_chunk_of_an_hdf5_file_is_named(tmp_path, capsys):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        rows = np.random.default_rng(0).normal(size=(2, 64))
        data = file.create_dataset("rows", data=rows, chunks=(1, 64), compression="gzip")
        file["names"] = [b"P01_01_2", b"P01_01_3"]
        chunk = data.id.get_chunk_info(1)
    raw = bytearray(path.read_bytes())
    raw[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"in\.h5: the data set /rows cannot be read"):
        imported(tmp_path, capsys, "hdf5", path, "--features", "rows", "--ids", "names")


@pytest.fixture
def clips(tmp_path):
    return read_raw(write_raw(tmp_path / "raw"), strict=True)[0].clips[:4]


def database(clips, frames_of):
    """Keys as RULSTM writes them; frame f holds (f, f + 1)."""
    return {
        f"{clip.video_id}_frame_{frame:010d}.jpg".encode(): np.array(
            [frame, frame + 1], "<f4"
        ).tobytes()
        for clip in clips
        for frame in frames_of(clip_span(clip, 30.0))
    }


def test_another_thread_may_ask_for_another_video_at_any_time(tmp_path):
    for number in (1, 2):
        text = json.dumps({"frame": number, "detections": []})
        (tmp_path / f"V{number}_detections.jsonl").write_text(text + "\n")
    proposals = rulstm.proposals_of(tmp_path, 0.0)

    class Interrupted(str):
        """A name at whose second look-up the other thread comes first."""

        looked_up = 0

        def __hash__(self):
            self.looked_up += 1
            if self.looked_up == 2:
                assert proposals("V2") == {2: 0}
            return super().__hash__()

    assert proposals("V1") == {1: 0}
    assert proposals(Interrupted("V1")) == {1: 0}


def test_the_key_of_a_frame_is_rulstms():
    assert frame_key("P01_01", 123) == b"P01_01_frame_0000000123.jpg"


def test_frames_become_clips(clips):
    missing = []
    whole = database(clips, lambda span: range(span.first, span.last + 1))
    middle = dict(read_rulstm(whole, clips, rule="middle", missing=missing))
    mean = dict(read_rulstm(whole, clips, rule="all", missing=missing))
    for clip in clips:
        span = clip_span(clip, 30.0)
        assert middle[clip.narration_id][0] == span.first + (span.last - span.first) // 2
        assert mean[clip.narration_id][0] == pytest.approx(span.middle)
    assert not missing
    busy = {clip.video_id: {clip_span(clip, 30.0).last: 5} for clip in clips[:1]}
    busy[clips[0].video_id][clip_span(clips[1], 30.0).first] = 2
    most = dict(
        read_rulstm(whole, clips, rule="proposals", missing=missing, proposals=busy.__getitem__)
    )
    assert most[clips[0].narration_id][0] == clip_span(clips[0], 30.0).last
    assert most[clips[1].narration_id][0] == clip_span(clips[1], 30.0).first
    assert missing == [clip.narration_id for clip in clips[2:]]


def test_clips_without_a_frame_are_listed(clips):
    missing = []
    some = database(clips[1:], lambda span: [span.last])
    found = dict(read_rulstm(some, clips, rule="middle", missing=missing))
    assert missing == [clips[0].narration_id]
    assert found[clips[1].narration_id][0] == clip_span(clips[1], 30.0).last


def test_values_that_are_no_vectors_are_refused(clips):
    whole = database(clips, lambda span: range(span.first, span.last + 1))
    key = frame_key(clips[1].video_id, clip_span(clips[1], 30.0).first)
    for bytes_, complaint in ((b"123", "3 bytes are no float32"), (b"12345678" * 2, "4 numbers,")):
        with pytest.raises(UserError, match=complaint):
            list(read_rulstm(whole | {key: bytes_}, clips, rule="all", missing=[]))
    with pytest.raises(UserError, match="needs --detections"):
        list(read_rulstm(whole, clips, rule="proposals", missing=[]))


def test_without_lmdb_the_command_says_how_to_install_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lmdb", None)
    command = ("rulstm", tmp_path / "db", "--raw", write_raw(tmp_path / "raw"))
    with pytest.raises(UserError, match="pip install lmdb"):
        imported(tmp_path, capsys, *command)


@pytest.mark.skipif(importlib.util.find_spec("lmdb") is None, reason="lmdb is not installed")
def test_a_real_lmdb(tmp_path, capsys):
    import lmdb

    raw = write_raw(tmp_path / "raw")
    clips = read_raw(raw, strict=True)[0].clips
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 24).begin(write=True) as transaction:
        for key, frame in database(clips, lambda span: [span.first]).items():
            transaction.put(key, frame)
    store = imported(tmp_path, capsys, "rulstm", tmp_path / "db", "--raw", raw)
    assert len(store) == len(clips)
    assert store.present.all()
    with pytest.raises(UserError, match="is missing"):
        rulstm.open_lmdb(tmp_path / "nothing")
