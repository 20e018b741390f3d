"""From parameters to records on a hand-made data set, and what may and may not change them."""

import shutil

import jax
import numpy as np
import pytest
from compact.small_compact import TEST, TRAIN, make_dataset, windows

from mmgen.compact.evaluation import predict_split
from mmgen.compact.experiment import build, input_groups
from mmgen.compact.run import words_and_labels
from mmgen.core.mesh import make_mesh
from mmgen.core.rng import stream_key
from mmgen.data.compact.clip_features import write_clip_features
from mmgen.data.compact.dataset import open_compact
from mmgen.data.compact.vocabulary import AtomLabels, CompactVocabulary
from mmgen.data.compact.windows import TARGET
from mmgen.errors import UserError
from mmgen.settings.compact import compact_config, resolve


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Text alone."""
    splits = {
        "train": windows(TRAIN),
        "validation": windows(TEST, start=500),
        "test": windows(TEST, start=1000),
    }
    return make_dataset(tmp_path_factory.mktemp("data"), splits, world=True)


@pytest.fixture
def with_audio(plain, tmp_path):
    """`(changed) -> data set` with audio; at the `changed` places of a window it is another."""

    def make(*changed):
        rng = np.random.default_rng(0)
        items = []
        for split in plain.info["splits"]:
            for one in plain.split(split):
                for place, clip in enumerate(one["narration_ids"]):
                    value = rng.normal(size=4).astype(np.float32)
                    items.append((clip, -value if place in changed else value))
        folder = tmp_path / f"changed-{len(list(tmp_path.iterdir()))}"
        facts = {"modality": "audio", "extractor": "none", "trained_on": "nothing"}
        shutil.copytree(plain.root, folder)
        manifest = write_clip_features(folder / "features" / "audio", items, facts)
        found = open_compact(folder)
        found.info["features"] = {"audio": manifest}
        return found

    return make


def settings(dataset, **changes):
    config = compact_config()
    config.model.inputs = ("audio",)
    config.model.size = "smoke"
    config.update_from_flattened_dict(changes)
    return resolve(config.lock(), dataset.info)


def records_of(dataset, **changes):
    experiment = build(settings(dataset, **changes), dataset)
    params = experiment.init(stream_key(0, "init")).params
    return predict_split(experiment, params, make_mesh(), "test")


def test_the_clip_that_is_asked_for_is_never_seen(with_audio):
    """Whatever its features are, nothing changes; those of an input clip do change the loss."""
    expected = records_of(with_audio())
    assert records_of(with_audio(TARGET)) == expected
    other = records_of(with_audio(TARGET - 1))
    assert [record["nll"] for record in other] != [record["nll"] for record in expected]


def test_records_say_what_was_asked_and_answered(plain, with_audio):
    records = records_of(with_audio(), task="verb")
    instances = plain.split("test")
    known = {one["trgverb"] for one in plain.split("train")}
    assert [record["id"] for record in records] == [0, 1, 2]
    assert [record["target"] for record in records] == [one["trgverb"] for one in instances]
    for record in records:
        assert record["prediction"] in known
        assert (record["nll"] is None) == (record["target"] not in known)
    assert {record["nll"] is None for record in records} == {True, False}


@pytest.mark.parametrize(
    ("changes", "system"),
    [
        ({}, "AL"),
        ({"dataset.dropped": ("audio",)}, "L"),
        ({"dataset.shuffled": ("audio",)}, "L"),
    ],
    ids=str,
)
def test_the_optimum_sees_what_the_run_sees_of_a_window(with_audio, changes, system):
    """Audio of another window says nothing: what is left is the text."""
    dataset = with_audio()
    columns = {"optimum/L/ca": 0.25, "optimum/AL/ca": 0.5}
    dataset.info["splits"]["test"]["known"] = list(columns)
    (dataset.root / "known").mkdir()
    np.save(dataset.root / "known" / "test.npy", np.tile([*columns.values()], (3, 1)))
    assert dataset.known("test") is dataset.known("test"), "read once"
    assert dataset.unseen("test") is dataset.unseen("test"), "counted once"
    for record in records_of(dataset, **changes):
        assert record["optimum_ca"] == columns[f"optimum/{system}/ca"]


def test_features_the_data_set_lacks_are_named_but_for_optional_ones(plain, with_audio):
    with pytest.raises(UserError, match="'audio', but the data set kitchen_world_mcd has none"):
        input_groups(settings(plain), plain)
    dataset = with_audio()
    config = settings(dataset, **{"model.inputs": ("audio+objects",)})
    assert input_groups(config, dataset) == (("audio",),)
    # Kitchens that were filmed have objects: without their features it is another system.
    dataset.info["world"] = False
    with pytest.raises(UserError, match="'objects', but the data set kitchen_world_mcd has audio"):
        input_groups(config, dataset)


def test_words_and_labels_are_told_by_number_and_fingerprint(plain):
    changes = {"model.inputs": (), "task": "noun"}
    found = words_and_labels(build(settings(plain, **changes), plain).inputs)
    train = plain.split("train")
    vocabulary, labels = CompactVocabulary.of(train), AtomLabels.of(train, "noun")
    assert found == {
        "vocabulary": {"rows": len(vocabulary), "fingerprint": vocabulary.fingerprint},
        "labels": {"rows": len(labels), "fingerprint": labels.fingerprint},
    }
    other = CompactVocabulary.of(train[:1])
    assert other.fingerprint != vocabulary.fingerprint
    changes["task"] = "utterance"
    assert words_and_labels(build(settings(plain, **changes), plain).inputs)["labels"] is None


@pytest.mark.parametrize(("batch_size", "steps"), [(1, 12), (3, 6), (4, 3), (32, 3)])
def test_epochs_are_whole_batches(plain, batch_size, steps):
    """An epoch of four windows ends with a padded batch where the size does not divide them."""
    changes = {"model.inputs": (), "total.epochs": 3.0, "batch_size": batch_size}
    experiment = build(settings(plain, **changes), plain)
    assert len(plain.split("train")) == 4
    assert experiment.num_steps == len(experiment.feeds()) == steps
    assert experiment.num_steps == 3 * experiment.steps_per_epoch
    assert experiment.eval_steps == tuple(steps * epoch // 3 for epoch in (1, 2, 3))


def test_the_batches_of_all_splits_have_one_of_few_shapes(plain):
    experiment = build(settings(plain, **{"model.inputs": ()}), plain)
    shapes = {
        tuple(jax.tree.map(np.shape, experiment.feeds()[step].stream).items())
        for step in range(experiment.num_steps)
    }
    assert len(shapes) == len(experiment.widths) == 1
