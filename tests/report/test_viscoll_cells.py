"""A run stands in a published cell only if nothing of it was changed; else it says what was."""

import pathlib

import pytest
from data_facts import COCO, DEVTRAIN, WORLD
from fake_run import make_context

from mmgen.evaluation.context import write_context
from mmgen.report.aggregate import Run
from mmgen.report.viscoll_cells import changed_keys, method_of, unusual_keys
from mmgen.settings.command_line import load_config
from mmgen.settings.identity import identity
from mmgen.settings.resolve import resolve

FOLDER = pathlib.Path(__file__).parents[2] / "configs"
CONFIGS = sorted(FOLDER.glob("visCOLL_*.py"))

SMOKE = WORLD | {"splits": {"train": {"examples": 640}}}
FLICKR = DEVTRAIN | {"paper_scale": True, "paper_size": 456_299}


def recorded(name, argument="", facts=DEVTRAIN, **changes):
    """The config of a run as its summary holds it."""
    config = load_config(f"{FOLDER / name}:{argument}")
    config.update_from_flattened_dict(changes)
    return identity(resolve(config, facts), facts)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_no_key_of_a_plain_run_is_named(path):
    for profile in ("paper", "release"):
        for model in ("vlbert", "lxmert"):
            plain = f"profile={profile},model={model},seed=3,data_seed=2"
            for facts in (WORLD, DEVTRAIN, COCO, FLICKR):
                assert changed_keys(recorded(path.name, plain, facts), facts) == []
            smoke = recorded(path.name, f"{plain},smoke", SMOKE)
            assert changed_keys(smoke, SMOKE) == []


@pytest.mark.parametrize(
    ("name", "argument", "changes", "named"),
    [
        ("vanilla", "", {"total.epochs": 0.1}, ["total.epochs"]),
        ("vanilla", "", {"total.epochs": 1.0}, []),
        ("vanilla", "", {"total.steps": 7}, ["total.steps"]),
        ("onepass", "", {"total.epochs": 3.0}, ["total.epochs"]),
        ("offline", "", {"total.epochs": 3.0}, ["total.epochs"]),
        ("er10k", "", {"optimizer.learning_rate": 1e-2}, ["optimizer.learning_rate"]),
        ("er10k", "", {"stream.spread_floor": 0}, ["stream.spread_floor"]),
        ("er10k", "", {"memory.reservoir": "viscoll_release"}, ["memory.reservoir"]),
        ("er10k", "profile=release", {"memory.reservoir": "vitter"}, ["memory.reservoir"]),
        ("er10k", "", {"model.layers": 2}, ["model.layers"]),
        ("er10k", "", {"algorithm.replay_size": 4}, ["algorithm.replay_size"]),
        ("er10k", "size=small", {}, ["model.size"]),
        ("er10k", "", {"memory.capacity": 500}, []),
        ("er10k", "", {"stream.share": 0.1}, ["stream.share"]),
        ("er10k", "", {"evaluation.subset": 5, "buckets.max": 1}, []),
        ("er10k", "", {"buckets.text": (64,), "buckets.objects": (9,)}, ["buckets.objects"]),
        ("der10k", "", {"algorithm.weight": 3.0}, ["algorithm.weight"]),
        ("derpp10k", "", {"algorithm.label_weight": 2.0}, ["algorithm.label_weight"]),
        ("mir10k", "", {"algorithm.candidates": 64}, ["algorithm.candidates"]),
    ],
)
def test_what_was_changed_is_named(name, argument, changes, named):
    config = recorded(f"visCOLL_{name}.py", argument, **changes)
    found = [key for key in changed_keys(config, DEVTRAIN) if key != "buckets.text"]
    assert found == named


def test_a_workdir_of_before_the_scale_was_recorded_is_read(tmp_path):
    for facts in (DEVTRAIN, COCO):
        known = {key: value for key, value in facts.items() if key != "paper_scale"}
        write_context(tmp_path, make_context() | {"dataset": known})
        run = Run(str(tmp_path), {"config": recorded("visCOLL_er10k.py", facts=facts)})
        assert unusual_keys(run) == []


def test_a_shorter_pass_is_no_cell_of_its_own():
    summary = {"dataset": "coco_shift", "profile": "paper"}
    cells = {
        method_of(Run("", summary | {"config": recorded("visCOLL_onepass.py", **changes)}))
        for changes in ({}, {"total.epochs": 3.0})
    }
    assert [cell.method for cell in cells] == ["offline_one_pass"]
