"""Batches of windows: the three inputs, their features where there are any, no fourth clip."""

import numpy as np
import pytest

from mmgen.data.compact.batches import (
    CompactSource,
    EncodedSplit,
    Inputs,
    Widths,
    choose_widths,
    eval_batches,
    example_batch,
)
from mmgen.data.compact.clip_features import ClipFeatures, write_clip_features
from mmgen.data.compact.samples import make_instance
from mmgen.data.compact.vocabulary import EOS, PAD, SEP, UNK, AtomLabels, CompactVocabulary
from mmgen.data.schema import IGNORE_ID
from mmgen.errors import UserError

FACTS = {"modality": "audio", "extractor": "drawn", "trained_on": "nothing"}
ABSENT = 5
"""Every so many clips have no audio."""


@pytest.fixture
def windows(tiny):
    """Twenty windows of several videos; no clip is both the fourth of one and in another."""
    table, found = tiny
    clips, taken, targets = [], set(), set()
    for rows in found.clips.tolist():
        if not targets & set(rows) and rows[3] not in taken:
            clips.append(rows)
            taken |= set(rows)
            targets.add(rows[3])
    return [make_instance([table.clips[row] for row in rows]) for rows in clips[:20]]


def store(folder, instances, change=None):
    ids = sorted({clip for one in instances for clip in one["narration_ids"]})
    values = np.random.default_rng(0).normal(size=(len(ids), 2, 3)).astype(np.float32)
    if change:
        values[[clip in change for clip in ids]] += 1
    items = [(c, None if n % ABSENT == 0 else values[n]) for n, c in enumerate(ids)]
    write_clip_features(folder, items, FACTS, dtype="float32")
    return ClipFeatures.open(folder)


@pytest.fixture
def audio(tmp_path, windows):
    return store(tmp_path / "audio", windows)


def encoded(windows, train=None, task="utterance", **options):
    train = windows if train is None else train
    labels = None if task == "utterance" else AtomLabels.of(train, task)
    return EncodedSplit(windows, Inputs(CompactVocabulary.of(train), task, labels, **options))


def whole(split):
    """All rows as one batch."""
    (widths,) = choose_widths([split], len(split), most=1)
    return split.assemble(np.arange(len(split)), widths)


def test_a_batch_holds_text_target_and_features(windows, audio):
    split = encoded(windows, features={"audio": audio})
    vocabulary = CompactVocabulary.of(windows)
    batch = split.assemble(np.array([4, IGNORE_ID]), Widths(30, 12))
    assert {name: (value.dtype.name, value.shape) for name, value in batch.items()} == {
        "ids": ("int32", (2,)),
        "mask": ("bool", (2,)),
        "text": ("int32", (2, 30)),
        "target": ("int32", (2, 12)),
        "audio": ("float32", (2, 3, 2, 3)),
        "audio_present": ("bool", (2, 3)),
    }
    one = windows[4]
    assert vocabulary.decode(batch["text"][0]) == one["src"]
    assert (batch["text"][0] == SEP).sum() == 2
    assert vocabulary.decode(batch["target"][0]) == one["trg"]
    assert (batch["target"][0] == EOS).sum() == 1
    rows = audio.rows(one["narration_ids"][:3])
    expected, here = audio.gather(rows)
    np.testing.assert_array_equal(batch["audio"][0], expected)
    np.testing.assert_array_equal(batch["audio_present"][0], here)
    for name in ("mask", "text", "target", "audio", "audio_present"):
        assert not batch[name][1].any(), name


@pytest.mark.parametrize("task", ["verb", "noun"])
def test_labels_unseen_in_train_are_minus_one(windows, task):
    key = f"trg{task}"
    train = [one for one in windows if one[key] != windows[0][key]]
    batch = whole(encoded(windows, train, task))
    assert batch["label"][0] == -1
    strings = AtomLabels.of(train, task).strings
    for one, label in zip(windows, batch["label"], strict=True):
        assert (strings[label] if label >= 0 else windows[0][key]) == one[key]
    assert "target" not in batch
    assert (whole(encoded(windows, windows[:1]))["target"] == UNK).any()


def test_the_fourth_clip_is_never_read(windows, audio, tmp_path):
    fourth = {one["narration_ids"][3] for one in windows}
    other = store(tmp_path / "other", windows, change=fourth)
    assert (np.asarray(other.features) != np.asarray(audio.features)).any()
    mine, theirs = (whole(encoded(windows, features={"audio": one})) for one in (audio, other))
    for name, value in mine.items():
        np.testing.assert_array_equal(value, theirs[name])
    first = {windows[0]["narration_ids"][0]}
    changed = whole(
        encoded(windows, features={"audio": store(tmp_path / "third", windows, change=first)})
    )
    # The same comparison sees a change of an input clip.
    assert (changed["audio"] != mine["audio"]).any() or not mine["audio_present"][0, 0]


def test_absent_clips_are_masked_and_counted(windows, audio):
    split = encoded(windows, features={"audio": audio})
    batch = whole(split)
    assert 0 < batch["audio_present"].mean() < 1
    assert split.present() == {"audio": pytest.approx(batch["audio_present"].mean())}
    assert not batch["audio"][~batch["audio_present"]].any()
    assert batch["audio"][batch["audio_present"]].any(axis=(1, 2)).all()


def test_controls_take_features_away_or_from_another_window(windows, audio):
    given = {"audio": audio}
    mine = whole(encoded(windows, features=given))
    dropped = whole(encoded(windows, features=given, dropped=("audio",)))
    assert not dropped["audio"].any()
    assert not dropped["audio_present"].any()
    shuffled = whole(encoded(windows, features=given, shuffled=("audio",)))
    np.testing.assert_array_equal(shuffled["audio"], np.roll(mine["audio"], 10, axis=0))
    np.testing.assert_array_equal(shuffled["text"], mine["text"])
    with pytest.raises(UserError, match="'vision' is not one of the run's modalities: audio"):
        encoded(windows, features=given, dropped=("vision",))


def test_features_of_other_videos_are_refused(windows, audio):
    foreign = [one | {"narration_ids": ["P99_01_1"] * 4} for one in windows]
    with pytest.raises(UserError, match=r"lacks clip P99_01_1 .* build the data set again"):
        encoded([*windows, foreign[0]], features={"audio": audio})


def test_an_epoch_reads_every_row_once_and_epochs_differ(windows):
    split = encoded(windows)
    source = CompactSource(split, choose_widths([split], 8), batch_size=8, num_steps=9, seed=3)
    assert (len(source), source.steps_per_epoch) == (9, 3)
    epochs = [np.concatenate([source.rows(3 * e + s) for s in range(3)]) for e in range(3)]
    for rows in epochs:
        assert sorted(rows[rows != IGNORE_ID]) == list(range(20))
        assert (rows[20:] == IGNORE_ID).all()
    assert not np.array_equal(epochs[0], epochs[1])
    other = CompactSource(split, choose_widths([split], 8), batch_size=8, num_steps=9, seed=4)
    assert not np.array_equal(other.rows(0), source.rows(0))
    # Random access: the same feed in any order of asking.
    late = {name: value.copy() for name, value in source[7].stream.items()}
    _ = source[0], source[4]
    for name, value in source[7].stream.items():
        np.testing.assert_array_equal(value, late[name])
    with pytest.raises(IndexError):
        source[9]
    assert [feed.stream["ids"].tolist() for feed in source.read_ahead(5)] == [
        source.rows(step).tolist() for step in range(5, 9)
    ]


def test_processes_share_a_batch_and_its_shape(windows, audio):
    split = encoded(windows, features={"audio": audio})
    widths = choose_widths([split], 4)
    options = {"batch_size": 4, "num_steps": 5, "seed": 0}
    together = CompactSource(split, widths, **options)
    parts = [
        CompactSource(
            split, widths, local_rows=lambda size, h=half: np.arange(size)[h::2], **options
        )
        for half in (0, 1)
    ]
    for step in range(5):
        for name, value in together[step].stream.items():
            for half in (0, 1):
                np.testing.assert_array_equal(parts[half][step].stream[name], value[half::2])


def test_evaluation_reads_every_row_once_by_length(windows):
    split = encoded(windows)
    widths = choose_widths([split], 6)
    batches = list(eval_batches(split, widths, 6))
    ids = np.concatenate([batch["ids"] for batch in batches])
    assert sorted(ids[ids != IGNORE_ID]) == list(range(20))
    assert [len(batch["ids"]) for batch in batches] == [6, 6, 6, 6]
    assert (np.diff(split.text_length[ids[ids != IGNORE_ID]]) >= 0).all()
    some = np.concatenate([b["ids"] for b in eval_batches(split, widths, 6, rows=np.arange(3, 9))])
    assert sorted(some) == list(range(3, 9))
    assert example_batch(split, widths[-1])["text"].shape == (1, widths[-1].text)


def test_the_padded_shape_changes_no_token(windows):
    split = encoded(windows)
    narrow, wide = (split.assemble(np.arange(4), Widths(w, 9)) for w in (30, 40))
    assert (wide["text"][:, 30:] == PAD).all()
    np.testing.assert_array_equal(wide["text"][:, :30], narrow["text"])
    with pytest.raises(ValueError, match="longer than the padded width 2"):
        split.assemble(np.arange(4), Widths(2, 9))


def test_bad_choices_are_refused(windows, audio):
    with pytest.raises(UserError, match="task 'verbs' is none of utterance, verb, noun"):
        Inputs(CompactVocabulary([]), "verbs")
    with pytest.raises(UserError, match="cannot be called 'text'"):
        encoded(windows, features={"text": audio})
    with pytest.raises(UserError, match="without instances"):
        encoded([], windows)
