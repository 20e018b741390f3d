"""CompAct, or any csv in the same columns, as windows of four clips in compositional splits.

`--raw` holds EPIC_100_train.csv, EPIC_100_verb_classes.csv and EPIC_100_noun_classes.csv; or, for a
data set of one's own, train.csv, verb_classes.csv and noun_classes.csv. Rows whose text had to be
guessed stand apart in EPIC_100_train_unverified.csv. Each file may end in .gz. `--features` holds a
folder of clip features per modality (`mmgen.data.compact.clip_features`).
"""

import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mmgen.data.builders.rawfiles import find_raw, require_raw, source_of
from mmgen.data.builders.request import BuildRequest
from mmgen.data.compact.classes import ClassList, read_classes
from mmgen.data.compact.clip_features import MAX_MISSING
from mmgen.data.compact.dataset import EPIC, CompactWriter, is_epic, write_json
from mmgen.data.compact.epic_csv import Annotations, read_annotations
from mmgen.data.compact.facts import (
    csv_facts,
    feature_facts,
    rule_facts,
    seed_facts,
    split_facts,
    vocabulary_facts,
    window_facts,
)
from mmgen.data.compact.figures import draw_figures
from mmgen.data.compact.report import report_text
from mmgen.data.compact.samples import Instance, make_instance
from mmgen.data.compact.splits import PAPER_SIZES, Division, SplitSettings, divide
from mmgen.data.compact.windows import ClipTable, WindowRules, Windows, find_windows
from mmgen.errors import UserError

DEFAULTS: dict[str, Any] = {
    # Name of the data set but for the marks of its split.
    "name": "compact",
    # False: skip and count faulty rows.
    "strict": True,
    # Split seeds of the report's table of trivial scores; 0 leaves it and the held-out scores of
    # other rule sets out.
    "report_seeds": 10,
    # Draw the report's figures, where matplotlib is installed.
    "figures": True,
    # Share of the clips that each folder of --features may lack.
    "max_missing": MAX_MISSING,
    # Stated in every output that the data set appears in.
    "licence": "EPIC-KITCHENS-100 annotations: CC BY-NC 4.0 (Damen et al., IJCV 2022)",
    **WindowRules()._asdict(),
    **SplitSettings()._asdict(),
    "sizes": list(PAPER_SIZES),
}
"""Every setting and its default; `WindowRules` and `SplitSettings` say what theirs mean."""

MARKED = (
    "profile",
    "compounds",
    "atoms_from",
    "unseen",
    "group",
    "ties",
    "validation",
    "atom_limit",
)
"""Choices that are part of the name where they are not the default, after `split` and target."""

ASIDE = ("name", "licence", "report_seeds", "figures", "max_missing")
"""Settings that decide no instance."""

WITHOUT_MEANING = ("train_from", "tokenizer", "pairs")
"""Arguments of other builders."""

Known = Callable[["Material"], Mapping[str, Mapping[str, np.ndarray]]]
"""Split -> name -> what a world knows of each of its instances."""


class Recipe(NamedTuple):
    """How a data set is made, all of it checked.

    Attributes:
      rules: which windows are instances.
      settings: how they are divided.
      data_seed: of the division.
      strict: refuse faulty rows, or skip them.
      report_seeds: split seeds of the report; 0 leaves comparisons out.
      figures: draw the report's figures.
      max_missing: share of the clips that a modality may lack.
    """

    rules: WindowRules
    settings: SplitSettings
    data_seed: int
    strict: bool
    report_seeds: int
    figures: bool
    max_missing: float


class Material(NamedTuple):
    """What was read and divided.

    Attributes:
      annotations: clips and class lists.
      paths: the files that they are from.
      table: the clips as numbers.
      windows: instances as rows of the table.
      division: of the windows.
    """

    annotations: Annotations
    paths: list[pathlib.Path]
    table: ClipTable
    windows: Windows
    division: Division


def build_compact(request: BuildRequest) -> pathlib.Path:
    """Build it; returns its folder.

    The name tells split, target and other choices: `compact_mcd`, `compact_mcd_dc0.6`,
    `compact_resplit`, `compact_mcd_unseen-window_s3` (data seed 3), `compact_mcd_n60-20-20`.

    Raises:
      UserError: a file is missing or damaged, an unknown choice, a split that cannot be had.
    """
    raw = request.raw_folder()
    for option in WITHOUT_MEANING:
        if getattr(request, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} has no meaning for {request.name}")
    choice = request.chosen(DEFAULTS)
    recipe = make_recipe(choice, request.data_seed)
    material = read_material(raw, recipe)
    settings = recipe.settings
    sources = [source_of(path) for path in material.paths]
    name = dataset_name(choice["name"], recipe)
    info = {
        "name": name,
        "builder": "mmgen.data.builders.compact:build_compact",
        "settings": {key: value for key, value in choice.items() if key not in ASIDE},
        "data_seed": request.data_seed,
        "licences": [choice["licence"]],
        "sources": sources,
        "paper_scale": is_epic({"sources": sources})
        and settings.sizes == PAPER_SIZES
        and len(material.table.clips) > sum(PAPER_SIZES),
        "world": False,
    }
    with CompactWriter(request.out / name, info, force=request.force) as writer:
        write_material(writer, material, recipe, features=request.features)
    return writer.root


def make_recipe(
    choice: Mapping[str, Any], data_seed: int, usual: SplitSettings | None = None
) -> Recipe:
    """The recipe of chosen settings, a value for every key of `DEFAULTS`.

    Args:
      choice: the settings.
      data_seed: of the division.
      usual: the default choices of a split, `SplitSettings()` if None.

    Raises:
      UserError: a choice that is none, or that another makes void.
    """
    if data_seed < 0:
        raise UserError(f"--seed={data_seed}: expected a number from 0 up")
    if type(choice["report_seeds"]) is not int or choice["report_seeds"] < 0:
        raise UserError(f"--report-seeds={choice['report_seeds']}: expected a count, such as 10")
    if not 0 <= choice["max_missing"] <= 1:
        raise UserError(f"--max-missing={choice['max_missing']}: expected a share from 0 to 1")
    rules = WindowRules(**{key: choice[key] for key in WindowRules._fields})
    chosen = {key: choice[key] for key in SplitSettings._fields}
    settings = SplitSettings(**chosen | {"sizes": tuple(choice["sizes"])})
    rules.check()
    settings.check(usual)
    aside = ("strict", "report_seeds", "figures", "max_missing")
    return Recipe(rules, settings, data_seed, *(choice[key] for key in aside))


def read_material(raw: pathlib.Path, recipe: Recipe) -> Material:
    """Read the files below `raw`, find the windows and divide them."""
    annotations, paths = read_raw(raw, strict=recipe.strict)
    table = ClipTable(annotations.clips)
    windows = find_windows(table, recipe.rules)
    division = divide(table, windows, recipe.settings, recipe.data_seed)
    return Material(annotations, paths, table, windows, division)


def write_material(
    writer: CompactWriter,
    material: Material,
    recipe: Recipe,
    *,
    features: pathlib.Path | None = None,
    known: Known | None = None,
    closing: Callable[[dict[str, Any]], str] | None = None,
) -> None:
    """Write instances, class lists, features and report.

    Args:
      writer: of the data set, entered.
      material: what was read and divided.
      recipe: how.
      features: folder with a folder of clip features per modality.
      known: what a world knows of its instances.
      closing: makes the last section of the report from its facts, for a world.
    """
    annotations, _, table, windows, division = material
    published = is_epic(writer.info)
    facts: dict[str, Any] = {
        "name": writer.info["name"],
        "published": published,
        "settings": writer.info["settings"],
        "data_seed": recipe.data_seed,
        "csv": csv_facts(annotations, table),
        "windows": window_facts(table, windows),
        "split": split_facts(table, windows, division, recipe.settings.compounds),
    }
    facts |= _comparisons(table, windows, recipe)
    splits = make_splits(table, windows, division)
    for split, instances in splits.items():
        writer.write_split(split, instances)
    for split, columns in (known(material) if known else {}).items():
        writer.write_known(split, columns)
    writer.write_classes(annotations.verbs, annotations.nouns)
    if features is not None:
        writer.write_features(features, splits, recipe.max_missing)
    facts["features"] = feature_facts(writer.info["features"])
    facts["vocabulary"] = vocabulary_facts(splits)
    compounds = recipe.settings.compounds
    facts["figures"] = draw_figures(writer.folder, splits, compounds) if recipe.figures else {}
    text = report_text(facts) + (closing(facts) if closing else "")
    write_json(writer.folder / "report.json", facts)
    (writer.folder / "report.md").write_text(text, encoding="utf-8")


def read_raw(raw: pathlib.Path, *, strict: bool) -> tuple[Annotations, list[pathlib.Path]]:
    """Annotations below `raw` and the files they come from."""

    def either(own: str) -> tuple[str, ...]:
        return tuple(f"{stem}{own}.csv{end}" for stem in (EPIC, "") for end in ("", ".gz"))

    paths = [require_raw(raw, *either("train"))]
    rest = find_raw(raw, *either("train_unverified"))
    paths += [rest] if rest else []
    lists: dict[str, ClassList] = {}
    for name in ("verb", "noun"):
        path = require_raw(raw, *either(f"{name}_classes"))
        lists[name] = read_classes(path)
        paths.append(path)
    clips = paths[:-2]
    return read_annotations(clips, lists["verb"], lists["noun"], strict=strict), paths


def make_splits(
    table: ClipTable, windows: Windows, division: Division
) -> dict[str, list[Instance]]:
    """Instances of every split, by video and place."""
    return {
        name: [make_instance([table.clips[row] for row in clips]) for clips in windows.clips[rows]]
        for name, rows in division.rows.items()
    }


def dataset_name(stem: str, recipe: Recipe, usual: SplitSettings | None = None) -> str:
    """Name of a data set: what is not the default is in it, so that no two share numbers.

    Args:
      stem: its beginning.
      recipe: how it is made.
      usual: the default choices of a split, `SplitSettings()` if None.
    """
    settings, usual = recipe.settings, usual or SplitSettings()
    marks = [settings.split]
    if settings.target_dc != 1:
        marks.append(f"dc{settings.target_dc:g}")
    for chosen, names, default in (
        (settings, MARKED, usual),
        (recipe.rules, WindowRules._fields, WindowRules()),
    ):
        marks += [
            f"{name.replace('_', '-')}-{getattr(chosen, name)}"
            for name in names
            if getattr(chosen, name) != getattr(default, name)
        ]
    if settings.sizes != usual.sizes:
        marks.append("n" + "-".join(map(str, settings.sizes)))
    if not recipe.strict:
        marks.append("lenient")
    if recipe.data_seed:
        marks.append(f"s{recipe.data_seed}")
    return "_".join([stem, *marks])


def _comparisons(table: ClipTable, windows: Windows, recipe: Recipe) -> dict[str, Any]:
    """The report's comparisons with other rules and other seeds."""
    count, seed = recipe.report_seeds, recipe.data_seed
    chosen = recipe.settings if count else None
    return {
        "rules": rule_facts(table, recipe.rules, chosen, seed, _say),
        "seeds": seed_facts(table, windows, recipe.settings, range(seed, seed + count), _say),
    }


def _say(text: str) -> None:
    print(f"report: {text}", file=sys.stderr)
