"""What a recorded choice becomes: profiles, sizes, streams, memory, and the sentences of errors."""

import copy
import math
import pathlib

import pytest
from data_facts import COCO, DEVTRAIN, WORLD

from mmgen.errors import UserError
from mmgen.settings import resolve_finetune, resolve_prompting
from mmgen.settings.args import apply_arguments
from mmgen.settings.command_line import flat_keys, load_config
from mmgen.settings.compact import check_early
from mmgen.settings.defaults import default_config
from mmgen.settings.durations import total_steps
from mmgen.settings.identity import default_workdir, identity
from mmgen.settings.kinds import KINDS, load
from mmgen.settings.resolve import check, resolve

CONFIGS = sorted(pathlib.Path(__file__).parents[2].joinpath("configs").glob("visCOLL_*.py"))

CHECKS = {
    "masked_span": check,
    "compact": check_early,
    "prompting": resolve_prompting.resolve,
    "finetune": resolve_finetune.resolve,
}
"""Kind -> what refuses wrong values before any data set is opened."""


def er10k():
    return load_config(str(CONFIGS[0].parent / "visCOLL_er10k.py"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_config_resolves_on_world_and_on_real_data(path):
    config = load_config(f"{path}:seed=3")
    assert config.name == path.stem
    for info in (WORLD, DEVTRAIN, COCO):
        resolved = resolve(config, info)
        assert resolved.seed == 3 and resolved.is_locked
        optional = {"steps", "epochs", "examples", "text", "objects", "size", "top_k", "decay"}
        optional |= {"weight", "label_weight", "interval", "visual_layers", "cross_layers"}
        optional |= {"instances", "test_items", "novel_items", "amplitude", "topic_purity"}
        optional |= {"validation_items", "role_amplitude"}
        missing = {
            key
            for key, value in flat_keys(resolved).items()
            if value is None and key.rsplit(".")[-1] not in optional
        }
        assert not missing


def test_profile_as_argument_and_as_flag_is_the_same_run():
    by_argument = load_config(str(CONFIGS[0].parent / "visCOLL_mir10k.py") + ":profile=release")
    by_flag = load_config(str(CONFIGS[0].parent / "visCOLL_mir10k.py"))
    by_flag.profile = "release"
    for info in (WORLD, COCO):
        assert identity(resolve(by_argument, info), info) == identity(resolve(by_flag, info), info)
    release = resolve(by_flag, COCO)
    assert release.optimizer.name == "adam_release" and release.optimizer.eps == 1e-4
    assert (release.algorithm.candidates, release.algorithm.replay_size) == (32, 10)
    assert release.memory.reservoir == "viscoll_release"
    assert release.stream.spread_floor == 3_000
    paper = resolve(load_config(str(CONFIGS[0].parent / "visCOLL_mir10k.py")), COCO)
    assert (paper.algorithm.candidates, paper.algorithm.replay_size) == (80, 32)
    assert paper.stream.spread_floor == 0 and paper.optimizer.name == "adamw"


def test_a_full_stream_that_was_rebuilt_otherwise_has_the_papers_floor_too():
    rebuilt = COCO | {"paper_scale": False}
    assert resolve(er10k(), rebuilt).stream.spread_floor == 0
    release = er10k()
    release.profile = "release"
    assert resolve(release, rebuilt).stream.spread_floor > 2_900


def test_the_papers_er_replays_as_many_examples_as_the_batch_has():
    sizes = {}
    for name in ("er10k", "mir10k"):
        for profile in ("paper", "release"):
            config = load_config(f"{CONFIGS[0].parent}/visCOLL_{name}.py:profile={profile}")
            config.batch_size = 64
            sizes[name, profile] = resolve(config, COCO).algorithm.replay_size
    assert sizes["er10k", "paper"] == 64 and sizes["er10k", "release"] == 32
    assert sizes["mir10k", "paper"] == 32 and sizes["mir10k", "release"] == 10
    assert resolve(er10k(), COCO).algorithm.replay_size == 32


def test_an_override_survives_the_profile():
    config = er10k()
    config.optimizer.eps = 1e-6
    config.profile = "release"
    assert resolve(config, WORLD).optimizer.eps == 1e-6


def test_stream_and_memory_scale_with_a_short_stream_only():
    world = resolve(er10k(), WORLD)
    assert (world.stream.bin_width, world.stream.spread_floor) == (31, 94)
    assert world.memory.capacity == 2_000
    published = resolve(er10k(), COCO)
    assert (published.stream.bin_width, published.memory.capacity) == (1_000, 10_000)
    part = er10k()
    part.stream.share = 0.1
    part = resolve(part, WORLD)
    assert (part.stream.bin_width, part.stream.spread_floor) == (31, 94)
    assert part.memory.capacity == 200
    absolute = er10k()
    absolute.memory.capacity = 10_000
    absolute.stream.paper_scale = True
    kept = resolve(absolute, DEVTRAIN)
    assert (kept.memory.capacity, kept.stream.bin_width) == (10_000, 1_000)
    assert kept.stream.spread_floor == 3_000
    # Slots of one's own are not one of the published sizes.
    assert kept.memory.size is None


def test_named_memories_are_never_larger_than_published():
    longer = copy.deepcopy(WORLD)
    longer["splits"]["train"]["examples"] = 900_000
    assert resolve(er10k(), longer).memory.capacity == 10_000


def test_profile_decides_weighting_and_the_order_of_later_epochs():
    balanced = load_config(str(CONFIGS[0].parent / "visCOLL_balanced_sqrt10k.py"))
    assert resolve(balanced, COCO).loss.weighting == "token"
    balanced.profile = "release"
    assert resolve(balanced, COCO).loss.weighting == "example"
    offline = load_config(str(CONFIGS[0].parent / "visCOLL_offline.py"))
    assert resolve(offline, COCO).stream.reshuffle
    offline.profile = "release"
    assert not resolve(offline, COCO).stream.reshuffle
    assert resolve(offline, COCO).loss.weighting == "token"


def test_the_published_schedule_has_its_own_number_of_evaluations():
    config = er10k()
    config.evaluation.count = 3
    with pytest.raises(UserError, match=r"evaluation\.schedule='even'"):
        resolve(config, DEVTRAIN)
    assert resolve(config, WORLD).evaluation.count == 3


def test_model_size_follows_the_data_set():
    world = resolve(er10k(), WORLD).model
    assert (world.size, world.layers, world.hidden, world.vocabulary_rows) == ("small", 2, 128, 120)
    real = resolve(er10k(), DEVTRAIN).model
    assert (real.size, real.layers, real.hidden, real.vocabulary_rows) == ("paper", 6, 384, 30_600)
    lxmert = er10k()
    lxmert.model.factory = "lxmert"
    lxmert = resolve(lxmert, DEVTRAIN).model
    assert (lxmert.layers, lxmert.visual_layers, lxmert.cross_layers) == (9, 5, 5)
    assert lxmert.object_mask
    release = er10k()
    release.model.factory = "lxmert"
    release.profile = "release"
    assert not resolve(release, DEVTRAIN).model.object_mask


def test_resolving_changes_neither_argument_and_repeats():
    config, info = er10k(), copy.deepcopy(WORLD)
    before = config.to_json_best_effort()
    first, second = resolve(config, info), resolve(config, info)
    assert first.to_json_best_effort() == second.to_json_best_effort()
    assert config.to_json_best_effort() == before and info == WORLD


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("profile", "relese", "did you mean 'release'"),
        ("text_only", "yes", "config.text_only"),
        ("stream.order", "up", "ascending"),
        ("batch_size", 0, "must be positive"),
        ("model.heads", 5, "multiple"),
        ("model.dropout", 1.0, "between 0 and 1"),
        ("memory.policy", "none", "policy"),
        ("memory.size", "10K", "did you mean '10k'"),
        ("memory.capacity", -1, "must be positive"),
        ("total.epochs", 2.0, "epoch"),
        ("buckets.max", 4, "at most 3"),
        ("buckets.text", (8,), "go together"),
        ("total.epochs", math.inf, "config.total.epochs is inf; it must be finite"),
        ("total.epochs", math.nan, "config.total.epochs is nan; it must be finite"),
        ("total.steps", -3, "config.total.steps is -3; it must be positive"),
        ("optimizer.learning_rate", math.nan, "must be finite"),
        ("model.visual_layers", -1, "config.model.visual_layers is -1; it must not be negative"),
        ("model.cross_layers", -2, "must be positive"),
        ("evaluation.count", -3, "config.evaluation.count is -3; it must not be negative"),
        ("evaluation.subset", -1, "must not be negative"),
        ("evaluation.splits", ("test", "nvel"), "did you mean 'novel'"),
        ("model.vocabulary_rows", 7, "vocabulary has 120 tokens"),
    ],
)
def test_a_wrong_value_is_one_sentence_naming_the_key(key, value, words):
    config = er10k()
    *groups, last = key.split(".")
    node = config
    for group in groups:
        node = node[group]
    node[last] = value
    with pytest.raises(UserError) as caught:
        resolve(config, WORLD)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ((), ()),
        ((0,), (0,)),
        ((-5, 30), (1, 4)),
        ((12,), (0,)),
        ((12,), (-2,)),
        ((12, 24), (4,)),
        ((24, 12), (4, 4)),
        ((12,), ()),
        ((12,), None),
        (("a",), (4,)),
    ],
)
def test_buckets_that_are_none_are_one_sentence(text, objects):
    config = er10k()
    config.buckets.text, config.buckets.objects = text, objects
    with pytest.raises(
        UserError, match=r"config\.buckets\.objects is .* they go together"
    ) as caught:
        check(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("argument", ["smok", "model=", "smoke=1", "seed=two"])
def test_wrong_arguments_are_refused(argument):
    with pytest.raises(UserError):
        apply_arguments(default_config(), argument)


def test_arguments_compose():
    config = apply_arguments(default_config(), "smoke,text_only,model=lxmert,order=ascending")
    assert config.text_only == "zero" and config.model.factory == "lxmert"
    assert config.dataset.instances == 640 and config.stream.order == "ascending"
    assert apply_arguments(default_config(), "text_only=drop").text_only == "drop"


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({}, 625),
        ({"steps": 7}, 7),
        ({"epochs": 0.1}, 63),
        ({"examples": 33}, 2),
        ({"epochs": 2.0}, 1_250),
    ],
)
def test_durations(given, steps):
    total = default_config().total
    for key, value in given.items():
        total[key] = value
    assert total_steps(total, 20_000, 32) == steps


@pytest.mark.parametrize("epochs", [math.inf, math.nan])
def test_an_endless_duration_is_refused(epochs):
    total = default_config().total
    total.epochs = epochs
    with pytest.raises(UserError, match=r"config\.total\.epochs is .* finite"):
        total_steps(total, 10, 1)


def test_two_durations_are_refused():
    total = default_config().total
    total.steps, total.epochs = 3, 1.0
    with pytest.raises(UserError, match=r"config\.total\.steps, config\.total\.epochs"):
        total_steps(total, 10, 1)


@pytest.mark.parametrize("key", ["seed", "data_seed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_negative_seed_is_one_sentence_for_every_kind(kind, key):
    config = load(KINDS[kind].defaults)()
    if key not in config:
        pytest.skip(f"{kind} has no {key}")
    config.update_from_flattened_dict({key: -1})
    with pytest.raises(UserError, match=f"config.{key} is -1; it must not be negative"):
        CHECKS[kind](config.lock())


def test_the_workdir_depends_on_identity_only():
    one, two, other = resolve(er10k(), WORLD), er10k(), er10k()
    two.mesh.data, two.logging.every, two.data_dir = 4, 7, "elsewhere"
    other.optimizer.learning_rate = 7e-4
    assert default_workdir(one, WORLD) == default_workdir(resolve(two, WORLD), WORLD)
    assert default_workdir(one, WORLD) != default_workdir(resolve(other, WORLD), WORLD)
    assert default_workdir(one, WORLD).startswith("runs/visCOLL_er10k/scene_world-paper-s0-")


@pytest.mark.parametrize("kind", KINDS)
def test_operational_keys_exist(kind):
    config = load(KINDS[kind].defaults)()
    assert config.kind == kind
    assert set(load(KINDS[kind].operational)) <= set(config)
