"""From recorded choices to a complete configuration: one pure function, run after all overrides.

Every value that depends on the profile, the model or the data set is decided here and nowhere
else. Where paper and released code differ, the table `PROFILES` says both, by name.
"""

import math
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from mmgen.data.columns import SPLITS
from mmgen.errors import UserError
from mmgen.settings.defaults import EVALUATIONS
from mmgen.settings.seeds import check_seeds
from mmgen.settings.sizes import SIZES
from mmgen.settings.suggest import check_choice

AS_BATCH = "batch_size"
"""A value of `PROFILES`: the same as `config.batch_size`."""

# A value that is a dict is chosen by the data set's published size, the model, the algorithm or
# the memory policy.
PROFILES: dict[str, dict[str, Any]] = {
    # "as written": viscoll paper, sections 4-6 and appendix B.
    "paper": {
        "optimizer.name": "adamw",
        "optimizer.eps": 1e-8,
        "memory.reservoir": "vitter",
        "memory.divergence": "memory_target",
        "model.object_mask": True,
        "loss.weighting": "token",
        "stream.reshuffle": True,
        # Appendix B: as many as the batch has. Of AGEM's and MIR's draws it gives the numbers.
        "algorithm.replay_size": {"er": AS_BATCH, "der": AS_BATCH, "*": 32},
        "algorithm.scoring_dropout": False,
        "algorithm.reference_size": {456_299: 64, "*": 80},
        "algorithm.candidates": {456_299: 64, "*": 80},
    },
    # "as the code runs": INK-USC/VisCOLL at 2e915e6 with its shipped yaml files.
    "release": {
        "optimizer.name": "adam_release",
        "optimizer.eps": 1e-4,
        "memory.reservoir": "viscoll_release",
        "memory.divergence": "target_memory",
        "model.object_mask": {"lxmert": False, "*": True},
        "loss.weighting": {"balanced_sqrt": "example", "balanced_forget": "example", "*": "token"},
        "stream.reshuffle": False,
        "algorithm.replay_size": {"mir": 10, "*": 32},
        "algorithm.scoring_dropout": True,
        "algorithm.reference_size": 64,
        "algorithm.candidates": 32,
    },
}

MEMORY_SIZES = {"1k": (1_000, 0.015), "10k": (10_000, 0.10)}
"""Named memory sizes: slots on the published stream, share of a shorter one.

On a short stream the absolute size would be another experiment (10k is 36 % of the released
validation stream), and the exact published share of .16 % would hold too few rows to replay.
"""

PUBLISHED_BIN_WIDTH = 1_000
PUBLISHED_SPREAD_FLOOR = 3_000

BALANCED = ("balanced_sqrt", "balanced_forget")

CHOICES = {
    "profile": ("paper", "release"),
    "text_only": ("", "zero", "drop"),
    "stream.kind": ("shift", "iid", "iid_epochs"),
    "stream.order": ("random", "ascending", "descending"),
    "model.dtype": ("float32", "bfloat16"),
    "loss.weighting": ("token", "example"),
    "algorithm.update": ("two_step", "joint"),
    "algorithm.aggregate": ("avg", "max"),
    "algorithm.virtual_step": ("adamw", "sgd", "none"),
    "memory.policy": ("none", "reservoir", "task_balanced", *BALANCED),
    "memory.size": tuple(MEMORY_SIZES),
    "memory.reservoir": ("vitter", "viscoll_release"),
    "memory.divergence": ("memory_target", "target_memory"),
    "optimizer.name": ("adamw", "adam_release"),
    "evaluation.schedule": ("even", "paper"),
    "residency": ("host", "device"),
    "packing": ("auto", "on", "off"),
}
"""Keys with a closed set of values; keys of parts that plug in by import path are checked there."""

POSITIVE = (
    "num_seeds",
    "batch_size",
    "total.steps",
    "total.epochs",
    "total.examples",
    "algorithm.replay_size",
    "model.layers",
    "model.cross_layers",
    "model.hidden",
    "model.heads",
    "model.mlp",
    "model.max_positions",
    "model.init_std",
    "optimizer.learning_rate",
    "stream.bin_width",
    "stream.share",
    "evaluation.batch_size",
    "buckets.max",
)

NOT_NEGATIVE = (
    "model.visual_layers",
    "evaluation.count",
    "evaluation.subset",
    "evaluation.min_task_items",
)


def get(config: ConfigDict, path: str) -> Any:
    """The value at a dotted path."""
    for name in path.split("."):
        config = config[name]
    return config


def set_missing(config: ConfigDict, path: str, value: Any) -> None:
    """Sets the key at a dotted path if it is still a placeholder."""
    *groups, last = path.split(".")
    node = get(config, ".".join(groups)) if groups else config
    if node[last] is None:
        node[last] = value


def resolve(config: ConfigDict, info: Mapping[str, Any]) -> ConfigDict:
    """A locked copy of `config` without placeholders that matter, or a `UserError`.

    Args:
      config: recorded choices, see `mmgen.settings.defaults`.
      info: `dataset.json` of the prepared data set (`mmgen.data.columns`).

    Pure: the same two arguments give the same result, and neither is changed.
    """
    config = config.copy_and_resolve_references().unlock()
    check(config)
    world = bool(info["world"])
    _resolve_profile(config, info["paper_size"])
    _resolve_model(config, world, info["vocabulary"]["rows"])
    stream_size = info["splits"]["train"]["examples"]
    # A part of a stream is its beginning: the pace is that of the whole, the memory a share of it.
    _resolve_stream(config, info, stream_size)
    _resolve_memory(config, info, int(stream_size * config.stream.share))
    set_missing(config, "optimizer.learning_rate", 5e-4 if world else 1e-4)
    # DER on 30,600 rows would keep 600 MB of logits for 1,000 slots; the head of them is enough.
    set_missing(config, "algorithm.top_k", 0 if world else 64)
    _resolve_schedule(config, world)
    set_missing(config, "buckets.max", 1 if world or attends_padding(config) else 3)
    check(config)
    _check_padding(config)
    return config.lock()


def attends_padding(config: ConfigDict) -> bool:
    """Does an example's loss depend on the empty object slots of its batch, as in the release?

    Text-only runs of kind "drop" have a single slot in every batch.
    """
    return not config.model.object_mask and config.text_only != "drop"


def _check_padding(config: ConfigDict) -> None:
    buckets = config.buckets
    several = buckets.max > 1 if buckets.objects is None else len(set(buckets.objects)) > 1
    if several and attends_padding(config):
        key, value = (
            ("max", buckets.max) if buckets.objects is None else ("objects", buckets.objects)
        )
        raise UserError(
            f"config.buckets.{key} is {value}, but with config.model.object_mask=False the empty "
            "object slots are attended and an example's loss depends on their number; give one "
            "number of objects, or leave the buckets out for the released 99."
        )


def _resolve_profile(config: ConfigDict, paper_size: int) -> None:
    names = (config.model.factory, config.algorithm.name, config.memory.policy)
    chosen = (paper_size, *names, "*")
    for path, value in PROFILES[config.profile].items():
        if isinstance(value, dict):
            value = next(value[key] for key in chosen if key in value)
        set_missing(config, path, config.batch_size if value == AS_BATCH else value)


def _resolve_model(config: ConfigDict, world: bool, vocabulary_rows: int) -> None:
    model = config.model
    set_missing(config, "model.size", "small" if world else "paper")
    set_missing(config, "model.vocabulary_rows", vocabulary_rows)
    if model.vocabulary_rows < vocabulary_rows:
        raise UserError(
            f"config.model.vocabulary_rows is {model.vocabulary_rows}, but the data set's "
            f"vocabulary has {vocabulary_rows} tokens; give at least as many rows."
        )
    for name, value in _model_sizes(config)[model.size].items():
        set_missing(config, f"model.{name}", value)


def _model_sizes(config: ConfigDict) -> dict[str, dict[str, Any]]:
    """The named sizes of the model; a plug-in has VLBERT's."""
    return SIZES.get(config.model.factory, SIZES["vlbert"])


def stream_scale(config: ConfigDict, info: Mapping[str, Any], stream_size: int) -> float:
    """Factor from the published stream's constants to this stream's."""
    if info["paper_scale"] or config.stream.paper_scale:
        return 1.0
    return stream_size / info["paper_size"]


def _resolve_stream(config: ConfigDict, info: Mapping[str, Any], stream_size: int) -> None:
    scale = stream_scale(config, info, stream_size)
    set_missing(config, "stream.bin_width", max(1, round(PUBLISHED_BIN_WIDTH * scale)))
    # The paper's text has no floor; at the published size, be the stream the published one or one
    # rebuilt otherwise, that is its profile. A shorter stream is scaled from the released one, or
    # tasks of a handful of instances would be spikes.
    full_size = info["paper_scale"] or stream_size > 0.9 * info["paper_size"]
    as_written = config.profile == "paper" and full_size and not config.stream.paper_scale
    floor = 0 if as_written else round(PUBLISHED_SPREAD_FLOOR * scale)
    set_missing(config, "stream.spread_floor", floor)


def _resolve_schedule(config: ConfigDict, world: bool) -> None:
    evaluation = config.evaluation
    set_missing(config, "evaluation.schedule", "even" if world else "paper")
    if evaluation.schedule == "paper" and evaluation.count != EVALUATIONS:
        raise UserError(
            f"config.evaluation.count is {evaluation.count}, but the published schedule has its "
            "own number of evaluations; set config.evaluation.schedule='even', too."
        )


def _resolve_memory(config: ConfigDict, info: Mapping[str, Any], stream_size: int) -> None:
    memory = config.memory
    if memory.policy == "none":
        memory.capacity = 0
    elif memory.capacity is None:
        slots, share = MEMORY_SIZES[memory.size]
        scaled = min(slots, round(share * stream_size))
        memory.capacity = slots if info["paper_scale"] else scaled
    else:
        # A report must not show these slots as one of the published sizes.
        memory.size = None


def check(config: ConfigDict) -> None:
    """Refuses what is wrong with any data set, so that nothing is built for it.

    Placeholders pass: `resolve` fills them and checks again.

    Raises:
      UserError: an unknown name, a number out of range, or keys that contradict each other.
    """
    for path, choices in CHOICES.items():
        if get(config, path) is not None:
            check_choice(f"config.{path}", get(config, path), choices)
    _check_numbers(config)
    _check_model(config)
    _check_memory(config)
    _check_buckets(config.buckets.text, config.buckets.objects)
    for name in config.evaluation.splits:
        check_choice("config.evaluation.splits", name, SPLITS)


def _check_buckets(text: tuple | None, objects: tuple | None) -> None:
    if text is None and objects is None:
        return
    sizes = (text or (), objects or ())
    in_order = all(
        all(isinstance(size, int) and size > 0 for size in axis) and sorted(axis) == list(axis)
        for axis in sizes
    )
    if not in_order or not text or len(sizes[0]) != len(sizes[1]):
        raise UserError(
            f"config.buckets.text is {text} and config.buckets.objects is {objects}; they go "
            "together, equally long, both of positive numbers from small to large, e.g. (16, 24) "
            "and (8, 36)."
        )


def _check_numbers(config: ConfigDict) -> None:
    check_seeds(config)
    for path in POSITIVE:
        value = get(config, path)
        if value is not None and not 0 < value < math.inf:
            wanted = "positive" if value <= 0 else "finite"
            raise UserError(f"config.{path} is {value}; it must be {wanted}.")
    for path in NOT_NEGATIVE:
        value = get(config, path)
        if value is not None and value < 0:
            raise UserError(f"config.{path} is {value}; it must not be negative.")
    for path in ("model.dropout", "stream.share"):
        top_included = path == "stream.share"
        value = get(config, path)
        if value is None:
            continue
        if not 0 <= value <= 1 or (value == 1 and not top_included):
            raise UserError(f"config.{path} is {value}; it must lie between 0 and 1.")
    if (config.buckets.max or 0) > 3:
        raise UserError(f"config.buckets.max is {config.buckets.max}; at most 3 are compiled.")


def _check_model(config: ConfigDict) -> None:
    model = config.model
    if ":" not in model.factory:
        check_choice("config.model.factory", model.factory, SIZES)
    if model.size is not None:
        check_choice("config.model.size", model.size, _model_sizes(config))
    if model.hidden and model.heads and model.hidden % model.heads:
        raise UserError(
            f"config.model.hidden={model.hidden} is not a multiple of "
            f"config.model.heads={model.heads}; change one of them."
        )


def _check_memory(config: ConfigDict) -> None:
    memory = config.memory
    if memory.policy == "none":
        if memory.capacity or memory.size:
            raise UserError(
                "config.memory.size or .capacity is given, but config.memory.policy is 'none'; "
                "choose a policy, e.g. 'reservoir'."
            )
        return
    if memory.capacity is None and memory.size is None:
        raise UserError(
            f"config.memory.policy is {memory.policy!r} without a size; give "
            "config.memory.size ('1k', '10k') or config.memory.capacity."
        )
    if memory.capacity is not None and memory.capacity <= 0:
        raise UserError(f"config.memory.capacity is {memory.capacity}; it must be positive.")
    if config.stream.kind == "iid_epochs" or (config.total.epochs or 1) > 1:
        raise UserError(
            "A replay memory with more than one epoch would store examples twice; set "
            "config.memory.policy='none' or train a single epoch."
        )
