"""Atoms and compounds of windows: classes or strings, of the target or of all four clips."""

from collections import Counter
from typing import Any

import numpy as np
from jaxtyping import Int

from mmgen.data.compact.windows import TARGET, ClipTable
from mmgen.data.mcd import ATOM_ALPHA, COMPOUND_ALPHA, chernoff_divergence

LEVELS = ("class", "string")
SCOPES = ("target", "window")

Parts = list[list[int]]
"""Atoms or compounds of every window, as numbers."""


def window_atoms(table: ClipTable, clips: Int[np.ndarray, "n 4"], level: str, scope: str) -> Parts:
    """Verbs and nouns of every window: numbers from 0 up are verbs, below 0 nouns.

    Args:
      table: the clips.
      clips: rows of the windows' clips.
      level: one of `LEVELS`.
      scope: one of `SCOPES`.
    """
    rows = _scoped(clips, scope)
    verb, noun = (
        (table.verb, table.noun) if level == "string" else (table.verb_class, table.noun_class)
    )
    return np.concatenate([verb[rows], -1 - noun[rows]], axis=1).tolist()


def window_compounds(
    table: ClipTable, clips: Int[np.ndarray, "n 4"], level: str, scope: str
) -> Parts:
    """(verb, noun) of every window, as `window_atoms`."""
    return (table.pair if level == "string" else table.class_pair)[_scoped(clips, scope)].tolist()


def divergences(
    table: ClipTable, train: Int[np.ndarray, "u 4"], heldout: Int[np.ndarray, "w 4"]
) -> dict[str, dict[str, Any]]:
    """D_A and D_C on classes and strings, of targets and of whole windows.

    Returns:
      "LEVEL of SCOPE" -> both divergences, how many atoms and compounds there are, how many atoms
      of the held-out windows train lacks, how many compounds both have, and the share of held-out
      windows whose target's compound is one of those of train.
    """
    found = {}
    for scope in SCOPES:
        for level in LEVELS:
            atoms, new_atoms = (
                _count(window_atoms(table, part, level, scope)) for part in (train, heldout)
            )
            compounds, new_compounds = (
                _count(window_compounds(table, part, level, scope)) for part in (train, heldout)
            )
            targets = _count(window_compounds(table, heldout, level, "target"))
            seen = sum(count for target, count in targets.items() if target in compounds)
            found[f"{level} of {scope}"] = {
                "atom_divergence": round(chernoff_divergence(atoms, new_atoms, ATOM_ALPHA), 4),
                "compound_divergence": round(
                    chernoff_divergence(compounds, new_compounds, COMPOUND_ALPHA), 4
                ),
                "atoms": len(atoms | new_atoms),
                "compounds": len(compounds | new_compounds),
                "atoms_missing": len(set(new_atoms) - set(atoms)),
                "compounds_shared": len(set(compounds) & set(new_compounds)),
                "targets_seen": round(seen / max(len(heldout), 1), 4),
            }
    return found


def _scoped(clips: Int[np.ndarray, "n 4"], scope: str) -> Int[np.ndarray, "n k"]:
    return clips[:, TARGET:] if scope == "target" else clips


def _count(parts: Parts) -> Counter[int]:
    return Counter(part for row in parts for part in row)
