"""A setting that nothing of the run reads is refused."""

import inspect
import pathlib

import pytest

from mmgen.errors import UserError
from mmgen.experiment import algorithm_factory
from mmgen.settings.command_line import load_config
from mmgen.settings.unused import check_used

CONFIGS = sorted((pathlib.Path(__file__).parents[2] / "configs").glob("visCOLL_*.py"))


def check(config):
    check_used(config, inspect.signature(algorithm_factory(config)).parameters)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_reads_what_it_sets(path):
    for argument in ("", ":smoke", ":profile=release,model=lxmert", ":text_only=drop"):
        check(load_config(f"{path}{argument}"))


@pytest.mark.parametrize(
    ("config", "key", "value", "words"),
    [
        ("mir10k", "algorithm.update", "joint", "'mir' reads aggregate, candidates, replay_size"),
        ("er10k", "algorithm.weight", 1.0, "'er' reads replay_size, update; leave it out"),
        ("vanilla", "algorithm.interval", 7, "reads no setting"),
        ("balanced_sqrt10k", "memory.reservoir", "vitter", "policy='reservoir' reads it"),
        ("er10k", "memory.divergence", "memory_target", "'balanced_sqrt' or 'balanced_forget'"),
        ("er10k", "memory.count_stop_words", True, "'balanced_sqrt' or 'balanced_forget'"),
        ("er10k", "model.cross_layers", 2, "factory='vlbert'"),
        ("er10k:model=lxmert", "model.box_geometry", True, "factory='lxmert'"),
        ("onepass", "stream.reshuffle", True, "'iid_epochs'"),
        ("ewc", "memory.policy", "reservoir", "'ewc' never replays"),
        ("vanilla", "memory.policy", "task_balanced", "'plain' never replays"),
        ("er10k:text_only", "dataset.shuffle_features", True, "'zero' shows no features"),
        ("mir10k", "algorithm.aggregate", "max", "'none' scores no candidate"),
        ("mir10k", "algorithm.scoring_dropout", False, "'none' scores no candidate"),
        ("er10k", "buckets.max", 2, "config.buckets.text says how many"),
    ],
)
def test_what_is_not_read_is_refused(config, key, value, words):
    name, _, argument = config.partition(":")
    config = load_config(f"{CONFIGS[0].parent}/visCOLL_{name}.py:{argument}")
    group, name = key.split(".")
    if name in ("aggregate", "scoring_dropout"):
        config.algorithm.virtual_step = "none"
    if key == "buckets.max":
        config.buckets.text, config.buckets.objects = (12, 24), (4, 8)
    config[group][name] = value
    with pytest.raises(UserError, match=f"config.{key} is .*{words}"):
        check(config)
