"""A setting that nothing of a CompAct run reads is refused, before its data set is built."""

import pathlib

import pytest

from mmgen.compact.experiment import prepare
from mmgen.errors import UserError
from mmgen.settings.command_line import load_config
from mmgen.settings.compact import ARGUMENTS
from mmgen.settings.unused_compact import check_used

CONFIGS = sorted((pathlib.Path(__file__).parents[2] / "configs").glob("compact_*.py"))
TRAINED = [path for path in CONFIGS if path.stem != "compact_fewshot"]

VALUES = {
    "smoke": "smoke",
    "curves": "curves",
    "task": "task=verb",
    "split": "split=random",
    "dataset": "dataset=compact",
    "target_dc": "target_dc=0.8",
    "validation": "validation=train",
    "fusion": "fusion=late",
    "size": "size=small",
    "beams": "beams=4",
    "seed": "seed=1",
    "data_seed": "data_seed=1",
}


@pytest.mark.parametrize("path", TRAINED, ids=lambda path: path.stem)
def test_every_config_reads_every_argument(path):
    assert VALUES.keys() == ARGUMENTS.keys()
    check_used(load_config(str(path)))
    for name, argument in VALUES.items():
        # Text alone has nothing to fuse: the same model under another name.
        if (path.stem, name) != ("compact_l", "fusion"):
            check_used(load_config(f"{path}:{argument}"))
    for task in ("utterance", "noun"):
        check_used(load_config(f"{path}:task={task}"))


@pytest.mark.parametrize(
    ("config", "key", "value", "words"),
    [
        ("avl:fusion=gated", "model.swap_query", True, "only config.model.fusion='cross' reads it"),
        ("avl:fusion=late", "model.two_way", False, "only config.model.fusion='cross' reads it"),
        ("avl:fusion=late", "model.fused_layers", 2, "='cross' or 'gated' reads it"),
        ("avl:fusion=bottleneck", "model.fused_layers", 2, "='cross' or 'gated' reads it"),
        ("l", "model.fusion", "gated", "config.model.inputs is empty"),
        ("l", "model.cross_layers", 2, "config.model.inputs is empty"),
        ("avl:task=verb", "decoding.beams", 4, "only config.task='utterance' reads it"),
        ("avl:task=noun", "decoding.length", 4, "only config.task='utterance' reads it"),
        ("avl", "decoding.length_penalty", 1.0, "config.decoding.beams=1 has no other to choose"),
        ("avl", "model.classifier", 64, "only config.task='verb' or 'noun' reads it"),
        ("imagebind:task=verb", "model.layers", 2, "neither a text encoder nor a decoder"),
        ("imagebind:task=verb", "model.mlp", 64, "neither a text encoder nor a decoder"),
    ],
)
def test_what_is_not_read_is_refused(config, key, value, words, tmp_path):
    name, _, argument = config.partition(":")
    path = f"{CONFIGS[0].parent}/compact_{name}.py:smoke"
    changed = load_config(f"{path},{argument}" if argument else path).unlock()
    changed.data_dir = str(tmp_path)
    changed.update_from_flattened_dict({key: value})
    with pytest.raises(UserError, match=words) as caught:
        prepare(changed.lock())
    assert f"config.{key} is {value!r}" in str(caught.value)
    assert not list(tmp_path.iterdir())
