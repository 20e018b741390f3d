"""Choices of a CompAct run become a complete config, or one sentence."""

import pathlib

import pytest

from mmgen.errors import UserError
from mmgen.settings.command_line import list_configs, load_config
from mmgen.settings.compact import check_early, compact_config, has_published_size, resolve
from mmgen.settings.kinds import KINDS, kind_of, load

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ("l", "vl", "al", "ol", "avl", "oal", "merlotr", "imagebind")


def info(world):
    settings = {"split": "mcd", "target_dc": 1.0, "validation": "heldout"}
    return {"world": world, "settings": settings, "data_seed": 3}


def test_the_published_values_are_those_of_real_data():
    config = resolve(compact_config().lock(), info(world=False))
    model, optimizer, control = config.model, config.optimizer, config.control
    assert (model.hidden, model.layers, model.heads, model.dropout) == (256, 3, 4, 0.3)
    assert optimizer.name == "adamw"
    assert (optimizer.learning_rate, optimizer.weight_decay, optimizer.clip_norm) == (
        3e-4,
        5e-5,
        0.1,
    )
    assert (control.patience, control.stop_after) == (40, 50)
    assert control.metric == "validation/bleu1_joined"
    assert config.data_seed == 3
    assert resolve(compact_config().lock(), info(world=True)).model.size == "small"


@pytest.mark.parametrize("name", NAMES)
def test_every_system_has_a_config_that_takes_the_arguments(monkeypatch, name):
    monkeypatch.chdir(ROOT)
    file = f"configs/compact_{name}.py"
    assert file in list_configs()
    config = load_config(f"{file}:smoke,task=noun,split=random,fusion=late")
    assert config.name == f"compact_{name}"
    assert kind_of(config) is KINDS["compact"]
    assert (config.task, config.dataset.split, config.model.fusion) == ("noun", "random", "late")
    config = resolve(config, info(world=True))
    assert config.control.metric == "validation/em"
    assert config.model.fused_layers == (0 if name == "imagebind" else 1)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("task", "verbs", "config.task"),
        ("dataset.split", "mdc", "did you mean 'mcd'"),
        ("model.fusion", "early", "config.model.fusion"),
        ("control.metric", "test/em", "only validation may steer"),
        ("control.metric", "validation/nll", "'validation/nll', which is not one of"),
        ("control.metric", "validation/unparsable", "not one of 'validation/em'"),
        ("batch_size", 0, "config.batch_size"),
        ("buckets.max", 4, "config.buckets.max"),
        ("evaluation.splits", ("novel",), "config.evaluation.splits"),
        ("evaluation.splits", (), "config.evaluation.splits is empty"),
        ("model.cross_layers", -2, "config.model.cross_layers is -2; it must be positive"),
        ("model.cross_layers", 0, "config.model.cross_layers is 0; it must be positive"),
        ("model.fused_layers", -1, "config.model.fused_layers is -1; it must not be negative"),
        ("decoding.length", -3, "config.decoding.length is -3; it must be positive"),
        ("model.inputs", ("audio", "audio"), "config.model.inputs names 'audio' twice"),
        ("model.inputs", ("vision", "audio+audio"), "config.model.inputs names 'audio' twice"),
        ("dataset.max_missing", -1, "config.dataset.max_missing is -1.0; it must lie"),
        ("seed", -1, "config.seed is -1; it must not be negative"),
    ],
)
def test_wrong_values_are_named(key, value, words):
    config = compact_config()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(UserError, match=words):
        resolve(config.lock(), info(world=False))


@pytest.mark.parametrize(
    ("key", "value"),
    [("seed", -1), ("data_seed", -1), ("model.cross_layers", -2), ("evaluation.splits", ())],
)
def test_what_any_data_set_makes_wrong_is_refused_before_one_is_built(key, value):
    config = compact_config()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(UserError, match=f"config.{key} is"):
        check_early(config.lock())


@pytest.mark.parametrize(
    ("name", "changes", "published"),
    [
        ("avl", {}, True),
        ("imagebind", {}, True),
        ("avl", {"model.dropout": 0.1}, True),
        ("avl", {"model.hidden": 64}, False),
        ("avl", {"model.fused_layers": 0}, False),
        ("imagebind", {"model.cross_layers": 1}, False),
        ("avl", {"model.size": "small"}, False),
    ],
    ids=str,
)
def test_a_model_is_as_large_as_its_sizes_say(monkeypatch, name, changes, published):
    monkeypatch.chdir(ROOT)
    config = load_config(f"configs/compact_{name}.py").unlock()
    config.update_from_flattened_dict(changes)
    config = resolve(config.lock(), info(world=False))
    assert has_published_size(config.model) is published


@pytest.mark.parametrize(
    "file",
    ["compact_l.py:curves", "macid.py:smoke", "cobsat_lora.py:smoke", "visCOLL_er1k.py:smoke"],
)
def test_an_argument_without_a_value_takes_none(monkeypatch, file):
    monkeypatch.chdir(ROOT)
    name = file.split(":")[1]
    with pytest.raises(UserError, match=f"'{name}' takes no value; write ':{name}'"):
        load_config(f"configs/{file}=1")


def test_atoms_are_steered_by_what_they_have():
    config = compact_config()
    config.update_from_flattened_dict({"task": "noun", "control.metric": "validation/ca"})
    assert resolve(config.lock(), info(world=False)).control.metric == "validation/ca"
    config = compact_config()
    config.update_from_flattened_dict({"task": "noun", "control.metric": "validation/noun_ca"})
    with pytest.raises(UserError, match="validation/noun_ca"):
        resolve(config.lock(), info(world=False))


def test_the_parts_of_the_kind_can_be_imported():
    kind = KINDS["compact"]
    for path in set(kind) - {kind.operational}:
        assert callable(load(path))
