"""`kitchen_world`: narrated kitchen videos of a small grammar, with the exact optimum of each item.

The built-in world of CompAct (CORRECTIONS F). It writes csv files in EPIC-KITCHENS' columns, class
lists and features per clip, which go through the same builder as the real csv: windows, filters,
splits, report. The laws are in `kitchen_grammar`, the draws in `kitchen_sampling`, the posteriors
in `kitchen_oracle`, what is known of every item in `kitchen_scores`, the files in `kitchen_files`.

Optimal CA over all windows with the default settings, L OL VL AL OAL AVL: .265 .317 .383 .498 .581
.679 (noun .600 .731 .900 .642 .760 .903, verb .332 .361 .399 .633 .670 .714). On held-out windows
with a new compound at D_C .6 the optimum, which composes, has L .27 and AVL .71, the memoriser 0.

Read into the specification: three different nouns and a target noun among them leave room for one
instance in 2.6 clips, so that 12,000 windows take 160 videos of 200 clips; entries of codes are
N(0, 1), for with unit codes the noise would hide more than the stated optimum allows; a target has
the noun string of the input that it points to and is not the very action done there, for the
builder's filters let no other through; windows that are equally good for a split are drawn one by
one (`ties="item"`), for drawn by compound the selected ones are rarer and harder than the rest
(optimum L .19 instead of .25).
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from mmgen.data.builders.compact import (
    DEFAULTS,
    Material,
    dataset_name,
    make_recipe,
    read_material,
    write_material,
)
from mmgen.data.compact.dataset import CompactWriter
from mmgen.data.compact.splits import SplitSettings
from mmgen.data.worlds.kitchen_files import write_raw
from mmgen.data.worlds.kitchen_grammar import MODALITY_SETS
from mmgen.data.worlds.kitchen_oracle import memoriser_law, target_counts, windows_of
from mmgen.data.worlds.kitchen_sampling import KitchenWorld, VideoSettings, make_kitchen_world
from mmgen.data.worlds.kitchen_scores import LOSSES, RIGHT, expected_scores, scores_by_set
from mmgen.errors import UserError

__all__ = ["PRESETS", "KitchenWorldSettings", "build_kitchen_world", "kitchen_settings"]

NAME = "kitchen_world"


@dataclasses.dataclass(frozen=True)
class KitchenWorldSettings(VideoSettings):
    """Everything that decides a built kitchen_world; the same settings give the same bytes.

    Attributes:
      split, sizes, profile, target_dc, atom_limit, compounds, atoms_from, unseen, group, ties,
        validation: as in `SplitSettings`. Compounds are classes: a new string for a known action
        is no new composition.
    """

    split: str = "mcd"
    sizes: tuple[int, ...] = (3000, 1500, 1500)
    profile: str = "paper"
    target_dc: float = 0.6
    atom_limit: float = 0.02
    compounds: str = "class"
    atoms_from: str = "target"
    unseen: str = "target"
    group: str = "none"
    ties: str = "item"
    validation: str = "heldout"


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # Seconds instead of minutes, and the same grammar.
    "smoke": {"videos": 16, "sizes": (240, 120, 120), "atom_limit": 0.05},
}


def kitchen_settings(difficulty: str = "default", **overrides: Any) -> KitchenWorldSettings:
    """The settings of a preset with some of them replaced; None keeps the preset's value."""
    if difficulty not in PRESETS:
        raise UserError(f"{NAME} has no difficulty {difficulty!r}, only {', '.join(PRESETS)}")
    given = {key: value for key, value in overrides.items() if value is not None}
    return KitchenWorldSettings(**(PRESETS[difficulty] | given))


def build_kitchen_world(
    root: pathlib.Path, settings: KitchenWorldSettings, *, force: bool = False
) -> None:
    """Build the world into the folder `root`, which appears only when it is finished.

    Args:
      root: the data set's folder.
      settings: of the world; the same settings give the same bytes.
      force: replace a finished data set.

    Raises:
      UserError: a setting that is none, a split that cannot be had, `root` is finished already or
        is not ours, or the disk is full.
    """
    chosen = dataclasses.asdict(settings)
    data_seed = chosen.pop("data_seed")
    bare = {"report_seeds": 0, "figures": False}
    usual = SplitSettings(**_split(KitchenWorldSettings()))
    checked = usual
    if settings.atom_limit == PRESETS["smoke"]["atom_limit"]:
        # The small preset has it for every split, the random ones that do not read it among them.
        checked = usual._replace(atom_limit=settings.atom_limit)
    recipe = make_recipe(DEFAULTS | _split(settings) | bare, data_seed, checked)
    info = {
        "name": dataset_name(NAME, recipe, usual),
        "builder": f"{__name__}:{build_kitchen_world.__name__}",
        "settings": recipe.rules._asdict() | chosen,
        "data_seed": data_seed,
        "licences": ["none needed: drawn by mmgen"],
        "sources": [],
        "paper_scale": False,
        "world": True,
    }
    with CompactWriter(root, info, force=force) as writer:
        world = make_kitchen_world(settings)
        raw = writer.folder / "raw"
        write_raw(raw, world)
        material = read_material(raw, recipe)
        known = known_columns(world, material)
        writer.info["oracles"] = summarise(world, material, known)
        write_material(
            writer,
            material,
            recipe,
            features=raw / "features",
            known=lambda _: known,
            closing=lambda _: oracle_text(writer.info["oracles"]),
        )


def _split(settings: KitchenWorldSettings) -> dict[str, Any]:
    return {key: getattr(settings, key) for key in SplitSettings._fields}


Known = dict[str, dict[str, np.ndarray]]


def known_columns(world: KitchenWorld, material: Material) -> Known:
    """Split -> "WHO/SYSTEM/SCORE" -> values of its windows.

    WHO is "optimum", the generator's own belief, which composes verb and noun; or "memoriser", who
    counted the target pairs of train. SYSTEM is one of `MODALITY_SETS`, SCORE one of
    `kitchen_scores.LOSSES` and `RIGHT`.
    """
    laws, grammar = world.settings, world.grammar
    clips = material.windows.clips
    splits = {name: windows_of(world, clips[rows]) for name, rows in material.division.rows.items()}
    counts = target_counts(laws, splits["train"])
    found: Known = {}
    for name, windows in splits.items():
        memoriser = memoriser_law(laws, windows, counts)
        judged = {
            "optimum": scores_by_set(laws, grammar, windows),
            "memoriser": scores_by_set(laws, grammar, windows, memoriser),
        }
        found[name] = {
            f"{who}/{system}/{score}": values
            for who, systems in judged.items()
            for system, scores in systems.items()
            for score, values in scores.items()
        }
    return found


def summarise(world: KitchenWorld, material: Material, known: Known) -> dict[str, Any]:
    """Expected scores of all windows, mean scores of every split and of its unseen compounds."""
    laws, grammar = world.settings, world.grammar
    everything = windows_of(world, material.windows.clips)
    facts: dict[str, Any] = {
        "windows": len(material.windows),
        "expected": {
            system: _rounded(expected_scores(laws, grammar, everything, modalities))
            for system, modalities in MODALITY_SETS.items()
        },
    }
    pairs = material.table.class_pair[material.windows.target]
    train = pairs[material.division.rows["train"]]
    for name, rows in material.division.rows.items():
        unseen = ~np.isin(pairs[rows], train)
        facts[name] = {"windows": len(rows), "unseen": int(unseen.sum())}
        for part, chosen in (("all", slice(None)), ("of_unseen", unseen)):
            if part == "all" or unseen.any():
                means = {key: float(v[chosen].mean()) for key, v in known[name].items()}
                facts[name][part] = _rounded(means)
    return facts


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def oracle_text(facts: dict[str, Any]) -> str:
    """Section of the report: what the best possible system reaches."""
    lines = [
        "",
        "## Known answers",
        "",
        f"Best possible scores, expected over all {facts['windows']:,} windows, in per cent; nats",
        "are of a target's narration, of its verb and of its noun.",
        "",
        "| system | CA | verb CA | noun CA | EM | nats | of the verb | of the noun |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for system, row in facts["expected"].items():
        cells = [f"{100 * row[name]:.1f}" for name in RIGHT]
        cells += [f"{row[name]:.3f}" for name in LOSSES]
        lines.append(f"| {system} | {' | '.join(cells)} |")
    lines += ["", "CA of the test split, and of its windows whose compound is new:", ""]
    lines += ["| system | optimum | memoriser | optimum, new | memoriser, new |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    test = facts["test"]
    for system in MODALITY_SETS:
        cells = [
            f"{100 * test[part][f'{who}/{system}/joint']:.1f}" if part in test else "-"
            for part in ("all", "of_unseen")
            for who in ("optimum", "memoriser")
        ]
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
