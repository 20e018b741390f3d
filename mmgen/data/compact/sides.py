"""Sides that are settled before the search for a split: by video, and by held-out compound."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from mmgen.data.compact.windows import TARGET, ClipTable
from mmgen.data.mcd import HELDOUT, TRAIN

PORTIONS = tuple(round(0.1 + 0.05 * step, 2) for step in range(9))
"""Shares of the targets that are tried as held-out ones."""


def parts_by_video(
    video: Int[np.ndarray, " n"], shares: Sequence[float], random: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """Part of every row: videos in random order, each to the part that lacks most of its share.

    Args:
      video: number of every row's video.
      shares: wanted sizes of the parts, in any unit.
      random: decides the order.
    """
    names, inverse, counts = np.unique(video, return_inverse=True, return_counts=True)
    goal = np.array(shares, float)
    filled = np.zeros(len(goal))
    part = np.empty(len(names), np.int64)
    for name in random.permutation(len(names)):
        part[name] = np.argmin(filled / goal)
        filled[part[name]] += counts[name]
    return part[inverse]


def keep_apart(
    table: ClipTable,
    clips: Int[np.ndarray, "n 4"],
    compound: Int[np.ndarray, " rows"],
    may: Bool[np.ndarray, "2 n"],
    shares: Sequence[int],
    random: np.random.Generator,
) -> Bool[np.ndarray, "2 n"]:
    """Which windows may be where so that no clip of train has a held-out target compound.

    Held-out compounds are drawn at random, verbs and nouns in balance; of several amounts the one
    that leaves both sides most room is taken. Left to itself the search would show most compounds
    in inputs after a few hundred windows.

    Args:
      table: the clips.
      clips: rows of the windows' clips.
      compound: compound of every row of the table.
      may: which windows may be in train, and which may be held out, as it is.
      shares: windows wanted on both sides.
      random: decides the draw.
    """
    targets = _targets(table, clips[:, TARGET], compound, random)
    best, most = may, -1.0
    for portion in PORTIONS:
        held = np.zeros(compound.max() + 1, bool)
        held[_balanced(targets, portion)] = True
        window = held[compound[clips]]
        these = np.array([may[TRAIN] & ~window.any(axis=1), may[HELDOUT] & window[:, TARGET]])
        room = min(these[TRAIN].sum() / shares[TRAIN], these[HELDOUT].sum() / shares[HELDOUT])
        if room > most:
            best, most = these, room
    return best


def _targets(
    table: ClipTable,
    rows: Int[np.ndarray, " n"],
    compound: Int[np.ndarray, " rows"],
    random: np.random.Generator,
) -> list[tuple[int, int, int, int]]:
    """Compound, verb class, noun class and count of every target compound.

    Frequent ones first, because the rare ones can even out what they leave; at random among those
    of like frequency.
    """
    _, first, counts = np.unique(compound[rows], return_index=True, return_counts=True)
    order = np.lexsort((random.random(len(counts)), -np.log2(counts).astype(int)))
    one = rows[first]
    columns = compound[one], table.verb_class[one], table.noun_class[one], counts
    return list(zip(*(column[order].tolist() for column in columns), strict=True))


def _balanced(targets: Sequence[tuple[int, int, int, int]], portion: float) -> list[int]:
    """Compounds to hold out so that of every verb and noun about `portion` is held out."""
    held: list[int] = []
    # By verb or noun: what is held out beyond the portion of what was settled.
    beyond: dict[tuple[str, int], float] = {}
    for compound, verb, noun, count in targets:
        atoms = ("verb", verb), ("noun", noun)
        now = [beyond.get(atom, 0.0) for atom in atoms]
        out = [value + count * (1 - portion) for value in now]
        kept = [value - count * portion for value in now]
        if sum(map(abs, out)) < sum(map(abs, kept)):
            held.append(compound)
            kept = out
        beyond.update(zip(atoms, kept, strict=True))
    return held
