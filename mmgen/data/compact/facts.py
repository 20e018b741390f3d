"""What a build report says, as values: counts, rules, divergences, scores, leakage."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mmgen.data.compact.atoms import divergences
from mmgen.data.compact.epic_csv import Annotations
from mmgen.data.compact.golden import find_golden
from mmgen.data.compact.heuristics import PAPER, recent, scores
from mmgen.data.compact.leakage import leakage
from mmgen.data.compact.samples import Instance
from mmgen.data.compact.splits import PAPER_SIZES, Division, SplitSettings, divide
from mmgen.data.compact.windows import (
    CHOICES,
    PAPER_WINDOWS,
    ClipTable,
    WindowRules,
    Windows,
    find_windows,
)
from mmgen.errors import UserError

Say = Callable[[str], None]
"""Told what takes a while."""


def csv_facts(annotations: Annotations, table: ClipTable) -> dict[str, Any]:
    """Rows read and skipped, guessed texts, videos without a window, strings in a foreign class."""
    return {
        "rows": annotations.rows,
        "clips": int(table.usable.sum()),
        "guessed": int(table.guessed.sum()),
        "videos": len(np.unique(table.video)),
        "short_videos": table.short_videos,
        "skipped": annotations.skipped,
        "first_faults": annotations.faults,
        "foreign": annotations.foreign,
    }


def window_facts(table: ClipTable, windows: Windows) -> dict[str, Any]:
    """Windows left by every filter, beside the published number."""
    return {
        "funnel": windows.funnel,
        "windows": len(windows),
        "with_guessed_text": int(table.guessed[windows.clips].any(axis=1).sum()),
        "paper": PAPER_WINDOWS,
        "of_paper": round(len(windows) / PAPER_WINDOWS, 4),
    }


def rule_facts(
    table: ClipTable, rules: WindowRules, settings: SplitSettings | None, seed: int, say: Say
) -> list[dict[str, Any]]:
    """Count and Most Recent Heuristic of every rule set, on all windows and on a held-out pool.

    The pool is that of one split with `settings`, for windows in the order of `rules`; None leaves
    it out.
    """
    found = []
    for order in CHOICES["order"]:
        for distinct in CHOICES["distinct"]:
            for shared in CHOICES["shared"]:
                if shared == "none":
                    continue
                these = rules._replace(order=order, distinct=distinct, shared=shared)
                windows = find_windows(table, these)
                heldout = None
                if settings and order == rules.order and distinct != "none":
                    say(f"splitting the windows of {distinct} and {shared}")
                    heldout = _heldout_scores(table, windows, settings, seed)
                found.append(
                    these._asdict()
                    | {
                        "chosen": these == rules,
                        "windows": len(windows),
                        "of_paper": round(len(windows) / PAPER_WINDOWS, 4),
                        "all_windows": recent(table, windows.clips) if len(windows) else None,
                        "heldout": heldout,
                    }
                )
    return found


def _heldout_scores(
    table: ClipTable, windows: Windows, settings: SplitSettings, seed: int
) -> dict[str, float] | None:
    try:
        division = divide(table, windows, settings, seed)
    except UserError:
        # Too few windows under this rule, or no such split: the table says "-".
        return None
    return recent(table, windows.clips[division.heldout])


def split_facts(
    table: ClipTable, windows: Windows, division: Division, level: str
) -> dict[str, Any]:
    """Sizes, divergences, trivial scores, leakage and shown windows of one division."""
    train = windows.clips[division.rows["train"]]
    parts = division.rows | {"heldout": division.heldout}
    facts: dict[str, Any] = {
        "sizes": {name: len(rows) for name, rows in division.rows.items()},
        "divergences": divergences(table, train, windows.clips[division.heldout]),
        "scores": {
            name: scores(table, train, windows.clips[rows])
            for name, rows in parts.items()
            if name != "train"
        },
        "leakage": leakage(table, train, windows.clips[division.heldout], level),
        "golden": [
            {
                "shown": found.golden.shown,
                "key": found.golden.key,
                "side": found.golden.side,
                "present": found.present,
                "split": found.split,
                "agrees": found.agrees,
            }
            for found in find_golden(table, windows, division)
        ],
        "paper": {"sizes": dict(zip(division.rows, PAPER_SIZES, strict=True)), "scores": PAPER},
    }
    if division.mcd:
        facts["search"] = {
            "atom_divergence": round(division.mcd.atom_divergence, 5),
            "compound_divergence": round(division.mcd.compound_divergence, 5),
            "replaced_by_repair": division.mcd.replaced,
        }
    return facts


def seed_facts(
    table: ClipTable, windows: Windows, settings: SplitSettings, seeds: Sequence[int], say: Say
) -> dict[str, Any]:
    """Trivial scores of the held-out pool over split seeds: every value, mean, sd and range.

    A seed whose split misses its goal is in "failed" with the reason.
    """
    rows = []
    failed = {}
    for seed in seeds:
        say(f"splitting with seed {seed}")
        try:
            division = divide(table, windows, settings, seed)
        except UserError as error:
            failed[str(seed)] = str(error)
            continue
        train, heldout = (windows.clips[r] for r in (division.rows["train"], division.heldout))
        row = scores(table, train, heldout)
        if division.mcd:
            row["atom_divergence"] = round(division.mcd.atom_divergence, 5)
            row["compound_divergence"] = round(division.mcd.compound_divergence, 5)
        rows.append(row)
    table_of = {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return {
        "seeds": list(seeds),
        "failed": failed,
        "rows": rows,
        "summary": {
            name: {
                "mean": round(float(values.mean()), 4),
                "sd": round(float(values.std(ddof=1)), 4) if len(values) > 1 else 0.0,
                "lowest": float(values.min()),
                "highest": float(values.max()),
            }
            for name, values in table_of.items()
        },
    }


def vocabulary_facts(splits: dict[str, list[Instance]]) -> dict[str, Any]:
    """Tokens between blanks in the joined texts, and those of held-out targets new to train."""
    tokens = {
        name: Counter(
            token for one in instances for key in ("src", "trg") for token in one[key].split()
        )
        for name, instances in splits.items()
    }
    targets = {
        name: Counter(token for one in instances for token in one["trg"].split())
        for name, instances in splits.items()
    }
    known = tokens["train"]
    lengths = [len(one["trg"].split()) for part in splits.values() for one in part]
    return {
        "train": len(known),
        "all": len(set().union(*tokens.values())),
        "train_targets": len(targets["train"]),
        "longest_target": max(lengths),
        "mean_target": round(float(np.mean(lengths)), 3),
        "unknown": {
            name: {
                "tokens": sum(token not in known for token in counts),
                "share_of_target_tokens": round(
                    sum(n for token, n in counts.items() if token not in known)
                    / sum(counts.values()),
                    5,
                ),
            }
            for name, counts in targets.items()
            if name != "train"
        },
    }


def feature_facts(manifests: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of every modality: shape, clips, those without a feature and those not in the source."""
    return {
        name: {
            "extractor": manifest["extractor"],
            "shape": manifest["shape"],
            "clips": manifest["clips"],
            "absent": manifest["absent"],
            "missing": len(manifest["missing"]),
            "first_missing": manifest["missing"][:5],
        }
        for name, manifest in manifests.items()
    }
