"""MACID as a prompted benchmark; see `mmgen.prompting.macid` for its parts."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from ml_collections import ConfigDict

from mmgen.data.locate import build_once, world_folder
from mmgen.data.macid.dataset import MacidDataset, open_macid
from mmgen.data.macid.groups import DEFAULT_LANGUAGE
from mmgen.data.worlds import push_world
from mmgen.errors import UserError
from mmgen.prompting.benchmark import Benchmark, Replies, Scores, Stage, Traits
from mmgen.prompting.estimates import Estimate, as_metrics
from mmgen.prompting.macid.asking import Asking
from mmgen.prompting.macid.items import hold_out, pairs, quadruples
from mmgen.prompting.macid.reading import (
    CALIBRATED,
    CHOICES,
    GENERATE,
    Choice,
    content_free_preference,
    read_generated,
    read_scores,
    records,
)
from mmgen.prompting.macid.scores import Measured, difference, measure_pairs, measure_quadruples
from mmgen.prompting.macid.tables import (
    accuracy_table,
    breakdown_table,
    order_table,
    prediction_table,
)
from mmgen.prompting.requests import Request
from mmgen.settings.prompting import short_name

CONTENT_FREE = "content_free"
ZERO_SHOT = "zero_shot/"
"""Before the names of stages and readings of a run with examples that ask without them."""


def make(config: ConfigDict) -> Benchmark:
    """The benchmark of a resolved config.

    Raises:
      UserError: no such data set, language or held-out group.
    """
    dataset = locate_groups(config)
    asking, held_out = make_asking(config, dataset)
    prefixes = ("", ZERO_SHOT) if config.macid.shots else ("",)
    stages = tuple(
        Stage(prefix + name, "model", _requests(asking, prefix, name))
        for prefix in prefixes
        for name in (GENERATE, CHOICES, CONTENT_FREE)
    )

    def score(replies: Replies, traits: Traits) -> Scores:
        del traits
        return score_replies(asking, held_out, replies, prefixes)

    return Benchmark("macid", dataset.info, stages, score, "group")


def locate_groups(config: ConfigDict) -> MacidDataset:
    """The data set that `config.dataset.name` names; the world is built on first use."""
    folder, name = pathlib.Path(config.data_dir), config.dataset.name
    if name != push_world.NAME:
        return open_macid(folder / name)
    settings = push_world.PushWorldSettings(config.macid.groups, config.data_seed)
    root = world_folder(folder, name, settings)
    build_once(root, name, lambda: push_world.build_push_world(root, settings))
    return open_macid(root)


def make_asking(config: ConfigDict, dataset: MacidDataset) -> tuple[Asking, frozenset[str]]:
    """What is asked, and the ids of the groups that are held out when examples are shown."""
    macid = config.macid
    groups = [group for group in dataset.groups if macid.language in group.sentences]
    if len(groups) < len(dataset.groups):
        languages = ", ".join(dataset.groups[0].sentences)
        raise UserError(
            f"{dataset.info['name']} has no sentences in language {macid.language!r}, only "
            f"{languages}; choose one by config.macid.language."
        )
    examples = hold_out(groups, macid.held_out, macid.held_out_ids, DEFAULT_LANGUAGE)
    if not 0 <= macid.shots <= len(examples):
        raise UserError(
            f"config.macid.shots is {macid.shots}, but {len(examples)} groups are held out; raise "
            "config.macid.held_out."
        )
    held_out = frozenset(group.id for group in examples)
    asked = [group for group in groups if not macid.shots or group.id not in held_out]
    asked = asked[: config.limit]
    make_items = pairs if macid.format == "pairs" else quadruples
    items = tuple(item for group in asked for item in make_items(group, macid.orders))
    return Asking(config, items, tuple(examples)), held_out


def _requests(asking: Asking, prefix: str, name: str):
    """The function of a stage: its requests, none where the way of scoring leaves it out."""
    shots = 0 if prefix else asking.config.macid.shots

    def requests(traits: Traits, replies: Replies) -> Sequence[Request]:
        del replies
        _check(asking.config, traits)
        scoring = asking.config.macid.scoring
        if name == GENERATE:
            return [] if scoring == CHOICES else asking.requests(shots=shots, scored=False)
        if scoring == GENERATE or not traits.scores_choices:
            return []
        if name == CONTENT_FREE:
            return asking.content_free(shots=shots)
        return asking.requests(shots=shots, scored=True)

    return requests


def _check(config: ConfigDict, traits: Traits) -> None:
    if config.macid.scoring in (CHOICES, "both") and not traits.scores_choices:
        raise UserError(
            f"{config.model.spec} gives no log-probabilities; ask with scoring=generate."
        )
    if config.macid.modality != "text" and not traits.reads_images:
        raise UserError(f"{config.model.spec} reads no pictures; ask with modality=text.")


def score_replies(
    asking: Asking, held_out: frozenset[str], replies: Replies, prefixes: Sequence[str]
) -> Scores:
    """Metrics, tables and records of every reading that there are answers for."""
    macid = asking.config.macid
    readings: dict[str, list[Choice]] = {}
    for prefix in prefixes:
        readings[prefix + GENERATE] = read_generated(asking, replies.get(prefix + GENERATE, {}))
        scored = replies.get(prefix + CHOICES, {})
        readings[prefix + CHOICES] = read_scores(asking, scored)
        preference = content_free_preference(replies.get(prefix + CONTENT_FREE, {}))
        if preference is not None:
            readings[prefix + CALIBRATED] = read_scores(asking, scored, preference)
    readings = {name: choices for name, choices in readings.items() if choices}
    is_pairs = macid.format == "pairs"
    measured = {
        name: measure_pairs(choices, macid.language, asking.prompt.answers)
        if is_pairs
        else measure_quadruples(choices, macid.language, held_out)
        for name, choices in readings.items()
    }
    differences = {
        f"{name} - {ZERO_SHOT}{name}": difference(choices, readings[ZERO_SHOT + name])
        for name, choices in readings.items()
        if ZERO_SHOT + name in readings
    }
    chance = float(np.reciprocal(2.0 if is_pairs else 4.0))
    accuracy = accuracy_table(
        _label(asking.config),
        measured,
        differences,
        chance=chance,
        with_published=not is_pairs,
    )
    return Scores(
        metrics=_metrics(measured, differences) | {"chance": chance},
        tables=[
            accuracy,
            breakdown_table(measured),
            order_table(measured),
            prediction_table(measured),
        ],
        records=[one for name, choices in readings.items() for one in records(name, choices)],
        measures=("right",),
        part="reading",
        cluster="group",
    )


def _label(config: ConfigDict) -> str:
    shots = f", {config.macid.shots}-shot" if config.macid.shots else ""
    return f"{short_name(config.model.spec)} ({config.macid.prompt} prompt{shots})"


def _metrics(
    measured: Mapping[str, Measured], differences: Mapping[str, Estimate]
) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for reading, one in measured.items():
        metrics |= as_metrics(f"{reading}/accuracy", one.accuracy)
        metrics |= as_metrics(f"{reading}/unusable", one.unusable)
        for group, estimates in (
            ("by", one.breakdown),
            ("orders", one.orders),
            ("says", one.predicted),
        ):
            for name, value in estimates.items():
                key = name.replace(", ", " ").replace("'", "").replace(" ", "_")
                metrics |= as_metrics(f"{reading}/{group}/{key}", value)
    for name, value in differences.items():
        metrics |= as_metrics(f"{name.split(' - ')[0]}/minus_zero_shot", value)
    return metrics
