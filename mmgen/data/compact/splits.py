"""Train, validation and test windows: by compound divergence, or at random as controls."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from mmgen.core.rng import numpy_generator
from mmgen.data.compact.atoms import window_atoms, window_compounds
from mmgen.data.compact.sides import keep_apart, parts_by_video
from mmgen.data.compact.windows import ClipTable, Windows
from mmgen.data.mcd import EITHER, HELDOUT, TRAIN, McdSettings, McdSplit, mcd_split
from mmgen.errors import UserError

SPLITS = ("train", "validation", "test")
PAPER_SIZES = (4407, 2184, 2175)

CHOICES: dict[str, tuple[str, ...]] = {
    "split": ("mcd", "random", "resplit", "random_by_video"),
    "profile": ("paper", "literal"),
    "compounds": ("string", "class"),
    "atoms_from": ("target", "window"),
    "unseen": ("target", "window"),
    "group": ("none", "video"),
    "ties": ("compound", "item"),
    "validation": ("heldout", "train"),
}
"""What each choice may be."""

LOWEST_TARGET = 0.1
"""Below it even the split with the most alike compounds need not come."""
NEAR_TARGET = 0.02
AT_RANDOM = ("random", "random_by_video")
SEARCH = (
    "target_dc",
    "unseen",
    "profile",
    "validation",
    "atoms_from",
    "atom_limit",
    "ties",
)
"""Settings of the search for a divergence, which splits at random do not make."""

VALIDATION_SHARE = 0.1
"""Share of the training windows that validate with `validation="train"`."""


class SplitSettings(NamedTuple):
    """How windows are divided.

    Attributes:
      split: "mcd"; "random": as many windows drawn from all; "resplit": those that "mcd" selects,
        divided anew at random; "random_by_video": no video in two splits.
      sizes: windows for train, validation and test.
      profile: "paper": Algorithm 1 with a fallback that works and a repair pass; "literal": as it
        is printed.
      target_dc: compound divergence to reach; 1 is as high as possible.
      atom_limit: the atom divergence stays below it.
      compounds: (verb, noun) as strings or as classes; atoms are classes.
      atoms_from: atoms and compounds of the target or of all four clips count.
      unseen: no held-out target compound is the target of a training window, or no held-out target
        compound is in any clip of a training window. Only for `target_dc` 1.
      group: "video": no video in two splits.
      ties: equals are drawn by compound or by window.
      validation: half of the held-out pool, or a part of train.
    """

    split: str = "mcd"
    sizes: tuple[int, int, int] = PAPER_SIZES
    profile: str = "paper"
    target_dc: float = 1.0
    atom_limit: float = 0.02
    compounds: str = "string"
    atoms_from: str = "target"
    unseen: str = "target"
    group: str = "none"
    ties: str = "compound"
    validation: str = "heldout"

    def check(self, usual: "SplitSettings | None" = None) -> None:
        """UserError for a choice that is none, or that another makes void.

        Args:
          usual: the default choices, `SplitSettings()` if None: they ask for nothing.
        """
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise UserError(
                    f"--{name.replace('_', '-')}={getattr(self, name)}: choose one of "
                    f"{', '.join(known)}"
                )
        if len(self.sizes) != 3 or any(type(n) is not int or n < 1 for n in self.sizes):
            raise UserError(
                f"--sizes={list(self.sizes)}: expected three counts, such as {list(PAPER_SIZES)}"
            )
        if not LOWEST_TARGET <= self.target_dc <= 1:
            raise UserError(
                f"--target-dc={self.target_dc}: choose a divergence from {LOWEST_TARGET} to 1; 1 "
                "is as high as possible"
            )
        if not 0 < self.atom_limit <= 1:
            raise UserError(f"--atom-limit={self.atom_limit}: choose a divergence above 0")
        self._check_together(usual or SplitSettings())

    def _check_together(self, usual: "SplitSettings") -> None:
        for name in SEARCH if self.split in AT_RANDOM else ():
            if getattr(self, name) != getattr(usual, name):
                raise UserError(
                    f"--{name.replace('_', '-')}={getattr(self, name)} means nothing with "
                    f"--split={self.split}, which is drawn at random: leave it out"
                )
        if self.group == "video" and self.split in ("random", "resplit"):
            raise UserError(
                f"--group=video cannot be had with --split={self.split}, which draws single "
                "windows: use --split=random_by_video"
            )
        if self.validation == "train" and self.split == "resplit":
            raise UserError(
                "--validation=train cannot be had with --split=resplit, whose parts are alike: "
                "leave it out"
            )
        if self.validation == "train" and self.group == "video":
            raise UserError(
                "--validation=train draws single windows of train, whose videos --group=video "
                "would keep apart: leave one of them out"
            )
        if self.unseen == "window" and self.target_dc < 1:
            raise UserError(
                f"--unseen=window cannot be had with --target-dc={self.target_dc}, which wants "
                "compounds on both sides: give --target-dc=1"
            )


class Division(NamedTuple):
    """The windows of each split, and what the search for it says.

    Attributes:
      rows: split -> rows of the windows, ascending.
      mcd: the search's result; None for splits at random.
      heldout_splits: those that are no part of what was divided off for train.
    """

    rows: dict[str, Int[np.ndarray, " n"]]
    mcd: McdSplit | None
    heldout_splits: tuple[str, ...] = ("validation", "test")

    @property
    def heldout(self) -> Int[np.ndarray, " w"]:
        """Rows of the held-out splits together."""
        return np.sort(np.concatenate([self.rows[name] for name in self.heldout_splits]))


def divide(table: ClipTable, windows: Windows, settings: SplitSettings, seed: int) -> Division:
    """Divide windows; same arguments, same division.

    Raises:
      UserError: too few windows for the sizes, or a goal that cannot be reached with them.
    """
    pool = sum(settings.sizes)
    if pool > len(windows):
        raise UserError(
            f"--sizes={list(settings.sizes)} ask for {pool:,} windows, there are "
            f"{len(windows):,}: ask for fewer"
        )
    random = numpy_generator(seed, f"split/compact/{settings.split}")
    if settings.split == "random":
        return Division(_cut(random.permutation(len(windows)), settings.sizes), None)
    if settings.split == "random_by_video":
        return _random_by_video(table, windows, settings, random)
    found = _search(table, windows, settings, seed)
    if settings.split == "resplit":
        pool_rows = np.concatenate([found.train, found.heldout])
        return Division(_cut(random.permutation(pool_rows), settings.sizes), found)
    if settings.validation == "train":
        return _validate_on_train(table, windows, settings, found, random)
    heldout, (_, validation, test) = found.heldout, settings.sizes
    if settings.group == "video":
        part = parts_by_video(table.video[windows.target[heldout]], (validation, test), random)
        halves = [heldout[part == half] for half in (0, 1)]
    else:
        halves = np.split(random.permutation(heldout), [validation])
    rows = dict(zip(SPLITS, (found.train, *map(np.sort, halves)), strict=True))
    return Division(rows, found)


def _cut(order: Int[np.ndarray, " n"], sizes: Sequence[int]) -> dict[str, Int[np.ndarray, " m"]]:
    parts = np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])
    return {name: np.sort(part) for name, part in zip(SPLITS, parts, strict=True)}


def _random_by_video(
    table: ClipTable, windows: Windows, settings: SplitSettings, random: np.random.Generator
) -> Division:
    every = np.arange(len(windows))
    part = parts_by_video(table.video[windows.target], settings.sizes, random)
    rows = {}
    for number, (name, size) in enumerate(zip(SPLITS, settings.sizes, strict=True)):
        mine = every[part == number]
        if len(mine) < size:
            raise UserError(
                f"the videos of {name} have {len(mine):,} windows, --sizes ask for {size:,}: ask "
                "for fewer"
            )
        rows[name] = np.sort(random.permutation(mine)[:size])
    return Division(rows, None)


def _search(table: ClipTable, windows: Windows, settings: SplitSettings, seed: int) -> McdSplit:
    scope, level, clips = settings.atoms_from, settings.compounds, windows.clips
    maximal = settings.target_dc == 1
    asked = window_compounds(table, clips, level, "target")
    shown = window_compounds(table, clips, level, settings.unseen)
    side = _sides(table, windows, settings, seed)
    kept = np.flatnonzero(side != _NOWHERE)
    sizes = settings.sizes[0], sum(settings.sizes[1:])
    if sum(sizes) > len(kept):
        raise _unreachable(settings, f"only {len(kept):,} windows may be on a side")
    literal = settings.profile == "literal"
    found = mcd_split(
        _take(window_atoms(table, clips, "class", scope), kept),
        _take(window_compounds(table, clips, level, scope), kept),
        McdSettings(
            *sizes,
            atom_limit=settings.atom_limit,
            target=settings.target_dc,
            fallback="compounds" if literal else "atoms",
            ties=settings.ties,
            repair=not literal,
            unseen=maximal,
        ),
        seed=seed,
        asked=_take(asked, kept),
        shown=_take(shown, kept),
        side=side[kept].tolist(),
    )
    found = found._replace(train=kept[found.train], heldout=kept[found.heldout])
    if not literal:
        _check_goal(settings, found, sizes)
    return found


_NOWHERE = 2
"""Side of a window that may be neither in train nor held out."""


def _sides(
    table: ClipTable, windows: Windows, settings: SplitSettings, seed: int
) -> Int[np.ndarray, " n"]:
    random = numpy_generator(seed, "split/compact/sides")
    shares = settings.sizes[0], sum(settings.sizes[1:])
    may = np.ones((2, len(windows)), bool)
    if settings.group == "video":
        part = parts_by_video(table.video[windows.target], shares, random)
        may = np.array([part == TRAIN, part == HELDOUT])
    if settings.unseen == "window" and settings.target_dc == 1:
        compound = table.pair if settings.compounds == "string" else table.class_pair
        may = keep_apart(table, windows.clips, compound, may, shares, random)
    side = np.full(len(windows), EITHER)
    side[may[TRAIN] & ~may[HELDOUT]] = TRAIN
    side[may[HELDOUT] & ~may[TRAIN]] = HELDOUT
    side[~may.any(axis=0)] = _NOWHERE
    return side


def _check_goal(settings: SplitSettings, found: McdSplit, sizes: tuple[int, int]) -> None:
    reached = len(found.train), len(found.heldout)
    if reached != sizes:
        raise _unreachable(
            settings, f"only {reached[0]:,} training and {reached[1]:,} held-out windows fit"
        )
    if found.atom_divergence >= settings.atom_limit:
        raise _unreachable(
            settings,
            f"the atom divergence comes to {found.atom_divergence:.4f}, not below "
            f"{settings.atom_limit}",
        )
    if abs(found.compound_divergence - settings.target_dc) > NEAR_TARGET and settings.target_dc < 1:
        raise _unreachable(
            settings,
            f"the compound divergence comes to {found.compound_divergence:.4f}, not near "
            f"{settings.target_dc}",
        )


def _unreachable(settings: SplitSettings, what: str) -> UserError:
    return UserError(
        f"no split with --sizes={list(settings.sizes)}, --target-dc={settings.target_dc}, "
        f"--unseen={settings.unseen} and --group={settings.group}: {what}; ask for fewer windows "
        "with --sizes or allow more with --atom-limit"
    )


def _validate_on_train(
    table: ClipTable,
    windows: Windows,
    settings: SplitSettings,
    found: McdSplit,
    random: np.random.Generator,
) -> Division:
    """Train gives a tenth to validation but never the last window of a class it must know."""
    test = np.sort(random.permutation(found.heldout)[settings.sizes[1] :])
    atoms = window_atoms(table, windows.clips, "class", settings.atoms_from)
    left: dict[int, int] = {}
    for row in found.train:
        for atom in set(atoms[row]):
            left[atom] = left.get(atom, 0) + 1
    validation: list[int] = []
    for row in random.permutation(found.train).tolist():
        if len(validation) == round(VALIDATION_SHARE * len(found.train)):
            break
        if all(left[atom] > 1 for atom in set(atoms[row])):
            validation.append(row)
            for atom in set(atoms[row]):
                left[atom] -= 1
    rows = {
        "train": np.setdiff1d(found.train, validation),
        "validation": np.sort(np.array(validation)),
        "test": test,
    }
    return Division(rows, found, heldout_splits=("test",))


def _take(values: Sequence[Any], rows: Int[np.ndarray, " n"]) -> list[Any]:
    return [values[row] for row in rows.tolist()]
