"""CompAct, or any csv in the same columns, as windows of four clips in compositional splits.

`--raw` holds EPIC_100_train.csv, EPIC_100_verb_classes.csv and EPIC_100_noun_classes.csv; or, for a
data set of one's own, train.csv, verb_classes.csv and noun_classes.csv. Rows whose text had to be
guessed stand apart in EPIC_100_train_unverified.csv. Each file may end in .gz.
"""

import pathlib
import sys
from typing import Any

from mmgen.data.builders.rawfiles import find_raw, require_raw, source_of
from mmgen.data.builders.request import BuildRequest
from mmgen.data.compact.classes import ClassList, read_classes
from mmgen.data.compact.dataset import CompactWriter, write_json
from mmgen.data.compact.epic_csv import Annotations, read_annotations
from mmgen.data.compact.facts import (
    csv_facts,
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
    # Stated in every output that the data set appears in.
    "licence": "EPIC-KITCHENS-100 annotations: CC BY-NC 4.0 (Damen et al., IJCV 2022)",
    **WindowRules()._asdict(),
    **SplitSettings()._asdict(),
    "sizes": list(PAPER_SIZES),
}
"""Every setting and its default; `WindowRules` and `SplitSettings` say what theirs mean."""

MARKED = ("profile", "compounds", "atoms_from", "unseen", "group", "ties", "validation")
"""Choices that are part of the name where they are not the default, after `split` and target."""

ASIDE = ("name", "licence", "report_seeds", "figures")
"""Settings that decide no instance."""


def build_compact(request: BuildRequest) -> pathlib.Path:
    """Build it; returns its folder.

    The name tells split, target and other choices: `compact_mcd`, `compact_mcd_dc0.6`,
    `compact_resplit`, `compact_mcd_unseen-window_s3` (data seed 3).

    Raises:
      UserError: a file is missing or damaged, an unknown choice, a split that cannot be had.
    """
    raw = request.raw_folder()
    for option in ("train_from", "features", "tokenizer", "pairs"):
        if getattr(request, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} has no meaning for {request.name}")
    if request.data_seed < 0:
        raise UserError(f"--seed={request.data_seed}: expected a number from 0 up")
    choice = _chosen(request)
    rules = WindowRules(**{key: choice[key] for key in WindowRules._fields})
    chosen = {key: choice[key] for key in SplitSettings._fields}
    settings = SplitSettings(**chosen | {"sizes": tuple(choice["sizes"])})
    rules.check()
    settings.check()
    annotations, paths = read_raw(raw, strict=choice["strict"])
    table = ClipTable(annotations.clips)
    windows = find_windows(table, rules)
    division = divide(table, windows, settings, request.data_seed)
    name = dataset_name(choice["name"], rules, settings, request.data_seed)
    info = {
        "name": name,
        "builder": "mmgen.data.builders.compact:build_compact",
        "settings": {key: value for key, value in choice.items() if key not in ASIDE},
        "data_seed": request.data_seed,
        "licences": [choice["licence"]],
        "sources": [source_of(path) for path in paths],
        "paper_scale": settings.sizes == PAPER_SIZES and len(table.clips) > sum(PAPER_SIZES),
        "world": False,
    }
    facts: dict[str, Any] = {
        "name": name,
        "settings": info["settings"],
        "data_seed": request.data_seed,
        "csv": csv_facts(annotations, table),
        "windows": window_facts(table, windows),
        "split": split_facts(table, windows, division, settings.compounds),
    }
    facts |= _comparisons(
        table, windows, rules, settings, request.data_seed, choice["report_seeds"]
    )
    with CompactWriter(request.out / name, info, force=request.force) as writer:
        splits = make_splits(table, windows, division)
        for split, instances in splits.items():
            writer.write_split(split, instances)
        writer.write_classes(annotations.verbs, annotations.nouns)
        facts["vocabulary"] = vocabulary_facts(splits)
        facts["figures"] = (
            draw_figures(writer.folder, splits, settings.compounds) if choice["figures"] else {}
        )
        write_json(writer.folder / "report.json", facts)
        (writer.folder / "report.md").write_text(report_text(facts), encoding="utf-8")
    return writer.root


def read_raw(raw: pathlib.Path, *, strict: bool) -> tuple[Annotations, list[pathlib.Path]]:
    """Annotations below `raw` and the files they come from."""

    def either(own: str) -> tuple[str, ...]:
        return tuple(f"{stem}{own}.csv{end}" for stem in ("EPIC_100_", "") for end in ("", ".gz"))

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


def dataset_name(stem: str, rules: WindowRules, settings: SplitSettings, data_seed: int) -> str:
    """Name of a data set: what is not the default is in it, so that no two share numbers."""
    marks = [settings.split]
    if settings.target_dc != 1:
        marks.append(f"dc{settings.target_dc:g}")
    for chosen, names in ((settings, MARKED), (rules, WindowRules._fields)):
        default = type(chosen)()
        marks += [
            f"{name.replace('_', '-')}-{getattr(chosen, name)}"
            for name in names
            if getattr(chosen, name) != getattr(default, name)
        ]
    if settings.sizes != PAPER_SIZES:
        marks.append(f"n{sum(settings.sizes)}")
    if data_seed:
        marks.append(f"s{data_seed}")
    return "_".join([stem, *marks])


def _chosen(request: BuildRequest) -> dict[str, Any]:
    # --target-dc=1 is a number like 0.6.
    given = {
        key: float(value) if type(value) is int and type(DEFAULTS.get(key)) is float else value
        for key, value in request.settings.items()
    }
    choice = request._replace(settings=given).chosen(DEFAULTS)
    if type(choice["report_seeds"]) is not int or choice["report_seeds"] < 0:
        raise UserError(f"--report-seeds={choice['report_seeds']}: expected a count, such as 10")
    return choice


def _comparisons(
    table: ClipTable,
    windows: Windows,
    rules: WindowRules,
    settings: SplitSettings,
    data_seed: int,
    count: int,
) -> dict[str, Any]:
    """The report's comparisons with other rules and other seeds."""
    seeds = range(data_seed, data_seed + count)
    return {
        "rules": rule_facts(table, rules, settings if count else None, data_seed, _say),
        "seeds": seed_facts(table, windows, settings, seeds, _say),
    }


def _say(text: str) -> None:
    print(f"report: {text}", file=sys.stderr)
