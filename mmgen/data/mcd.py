"""Maximum compound divergence: train and held-out items with like atoms and unlike compounds.

    split = mcd_split(atoms, compounds, McdSettings(train=4407, heldout=4359), seed=0)
    split.train, split.heldout, split.atom_divergence, split.compound_divergence

Algorithm 1 of the CompAct paper (after Keysers et al. 2020), which knows nothing of videos: `atoms`
and `compounds` are one list of hashable values per item. An item goes to the side whose turn it is:
of the items that keep the atom divergence below its limit, the one with the highest compound
divergence. Three things that the paper leaves open are settings: what is taken while no item keeps
the limit (as printed, the highest compound divergence; the limit is then never reached), how ties
are broken, and a repair pass (no compound in common, every held-out atom in train).

Items with the same atoms and compounds are interchangeable. A step scores such kinds, not items,
and changes only the counts of the atoms and compounds of the item it places.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.core.rng import numpy_generator

ATOM_ALPHA = 0.5
COMPOUND_ALPHA = 0.1
"""Exponents of the Chernoff coefficient: the small one asks whether train has a compound at all."""

TRAIN, HELDOUT = 0, 1
EITHER = -1
"""Sides of a split; `EITHER` in `mcd_split(side=...)` leaves the choice to the algorithm."""

TIES = ("compound", "item")
FALLBACKS = ("atoms", "compounds")

TIE = 1e-9
"""Divergences closer than this are equal: sums kept up step by step differ in their last bits."""
USED_UP = np.iinfo(np.int64).max
"""Priority of a kind whose items are all placed."""

Items = Sequence[Sequence[Hashable]]


class McdSettings(NamedTuple):
    """What a split has to be, and how it is searched for.

    Attributes:
      train: items of the training side.
      heldout: items of the held-out side.
      atom_limit: the atom divergence stays below it.
      target: compound divergence to reach; 1 is as high as possible.
      slack: distance from `target` that counts as none; without meaning for 1.
      fallback: while no item keeps the limit, take the lowest atom divergence ("atoms") or the
        highest compound divergence ("compounds", as printed).
      ties: draw among equals by compound, then item ("compound"), or by item ("item").
      repair: put a held-out item back if one of its atoms is missing from train.
      unseen: and items whose compound is on the other side; only for `target` 1.
    """

    train: int
    heldout: int
    atom_limit: float = 0.02
    target: float = 1.0
    slack: float = 0.01
    fallback: str = "atoms"
    ties: str = "compound"
    repair: bool = True
    unseen: bool = True


class McdSplit(NamedTuple):
    """A split.

    Attributes:
      train: positions of the training items, ascending.
      heldout: positions of the held-out items, ascending.
      atom_divergence: D_A of the two.
      compound_divergence: D_C of the two.
      replaced: items that the repair pass took out.
    """

    train: Int[np.ndarray, " u"]
    heldout: Int[np.ndarray, " w"]
    atom_divergence: float
    compound_divergence: float
    replaced: int


def chernoff_divergence(
    train: Mapping[Any, int], heldout: Mapping[Any, int], alpha: float
) -> float:
    """1 - sum_k p_k^alpha q_k^(1 - alpha) of two counts; 1 if one of them is empty."""
    sizes = sum(train.values()), sum(heldout.values())
    if not all(sizes):
        return 1.0
    shared = sorted((train[k], heldout[k]) for k in train if k in heldout)
    p, q = np.array(shared, float).reshape(-1, 2).T / np.array(sizes, float)[:, None]
    return float(1 - (p**alpha * q ** (1 - alpha)).sum())


def mcd_split(
    atoms: Items,
    compounds: Items,
    settings: McdSettings,
    *,
    seed: int,
    asked: Items | None = None,
    shown: Items | None = None,
    side: Sequence[int] | None = None,
) -> McdSplit:
    """Split items by maximum compound divergence; same arguments, same split.

    A side that no free item may join any more stays smaller than asked.

    Args:
      atoms: atoms of every item; repetitions count.
      compounds: compounds of every item.
      settings: what is asked for.
      seed: of the turns, the ties and the order of interchangeable items.
      asked: compounds of an item that are to be new when it is held out; default `compounds`.
      shown: compounds that an item gives away when it is in train; default `compounds`. Both
        matter to the repair pass alone.
      side: TRAIN, HELDOUT or EITHER for every item; default EITHER.

    Raises:
      ValueError: arguments of different lengths, more items asked for than there are, a setting
        that is none.
    """
    count = len(atoms)
    asked = compounds if asked is None else asked
    shown = compounds if shown is None else shown
    side = [EITHER] * count if side is None else side
    if {len(part) for part in (compounds, asked, shown, side)} != {count}:
        raise ValueError("atoms, compounds, asked, shown and side must have one entry per item")
    if settings.train < 1 or settings.heldout < 1 or settings.train + settings.heldout > count:
        raise ValueError(f"{settings.train} + {settings.heldout} items asked for, {count} given")
    if settings.ties not in TIES or settings.fallback not in FALLBACKS:
        raise ValueError(f"ties is one of {TIES}, fallback one of {FALLBACKS}")
    if settings.unseen and settings.target != 1:
        raise ValueError("unseen compounds mean a compound divergence of 1")
    kinds: dict[_Kind, list[int]] = {}
    for item, (a, c, new, given, where) in enumerate(
        zip(atoms, compounds, asked, shown, side, strict=True)
    ):
        kind = _Kind(tuple(a), tuple(c), tuple(new), tuple(given), where)
        kinds.setdefault(kind, []).append(item)
    search = _Search(kinds, settings, seed)
    search.place([TRAIN] * settings.train + [HELDOUT] * settings.heldout)
    replaced = search.repair() if settings.repair else 0
    train, heldout = (np.sort(np.array(items, np.int64)) for items in search.sides)
    return McdSplit(
        train, heldout, search.atoms.divergence(), search.compounds.divergence(), replaced
    )


class _Kind(NamedTuple):
    """What decides where an item may go; items of one kind are interchangeable."""

    atoms: tuple[Hashable, ...]
    compounds: tuple[Hashable, ...]
    asked: tuple[Hashable, ...]
    shown: tuple[Hashable, ...]
    side: int


class _Features:
    """Atoms or compounds of kinds of items, padded, as indices into a table of gains.

    Attributes:
      number: how many different ones there are.
      most: how often one of them occurs in a kind at most.
      of: for every kind its features and how often it has each.
      index: [longest, kinds] positions in a table [most, number + 1] laid flat.
      lengths: how many features a kind may have, repetitions counted.
      length: index into `lengths` for every kind.
    """

    def __init__(
        self, kinds: Sequence[tuple[Hashable, ...]], ids: dict[Hashable, int] | None = None
    ):
        ids = {} if ids is None else ids
        self.of: list[tuple[Int[np.ndarray, " f"], Int[np.ndarray, " f"]]] = []
        for features in kinds:
            counts = Counter(ids.setdefault(feature, len(ids)) for feature in features)
            self.of.append((np.array([*counts], int), np.array([*counts.values()], int)))
        self.number = len(ids)
        self.most = max((int(times.max(initial=1)) for _, times in self.of), default=1)
        longest = max((len(features) for features, _ in self.of), default=0)
        self.index = np.full((longest, len(kinds)), self.number)
        for kind, (which, times) in enumerate(self.of):
            self.index[: len(which), kind] = (times - 1) * (self.number + 1) + which
        lengths = [int(times.sum()) for _, times in self.of]
        self.lengths, self.length = np.unique(lengths, return_inverse=True)

    def any_of(self, marked: Bool[np.ndarray, " f"]) -> Bool[np.ndarray, " kinds"]:
        """Which kinds have a marked feature."""
        return np.append(marked, False)[self.index % (self.number + 1)].any(axis=0)


class _Tally:
    """Counts of features on both sides and the divergence after one more item.

    `gain[side, m - 1, k]` is what the sum of the coefficient gains when feature k is counted m
    times more on `side`; only the columns of the features just counted change.
    """

    def __init__(self, features: _Features, alpha: float):
        self.features = features
        self.counts = np.zeros((2, features.number), np.int64)
        self._alpha = alpha
        self._sum = 0.0
        self._sizes = [0, 0]
        self._gain = np.zeros((2, features.most, features.number + 1))
        self._times = np.arange(1, features.most + 1)[:, None]

    def divergence(self) -> float:
        """The divergence of what is counted now."""
        if not all(self._sizes):
            return 1.0
        return float(1 - self._sum / self._overlap(*self._sizes))

    def divergence_with(self, side: int) -> Float[np.ndarray, " kinds"]:
        """The divergence if an item of each kind joined `side`."""
        index = self.features.index
        if not self._sizes[1 - side]:
            return np.ones(index.shape[1])
        train, heldout = (
            size + self.features.lengths * (side == which) for which, size in enumerate(self._sizes)
        )
        size = self._overlap(train, heldout)[self.features.length]
        return 1 - (self._sum + self._gain[side].ravel()[index].sum(axis=0)) / size

    def count(self, side: int, kind: int, sign: int) -> None:
        """Count an item of `kind` on `side`, or take it back with sign -1."""
        changed, times = self.features.of[kind]
        train, heldout = self.counts[:, changed]
        before = self._overlap(train, heldout)
        self.counts[side, changed] += sign * times
        self._sizes[side] += sign * int(times.sum())
        train, heldout = self.counts[:, changed]
        now = self._overlap(train, heldout)
        self._sum += float(now.sum() - before.sum())
        self._gain[TRAIN][:, changed] = self._overlap(train + self._times, heldout) - now
        self._gain[HELDOUT][:, changed] = self._overlap(train, heldout + self._times) - now

    def _overlap(self, train: Any, heldout: Any) -> Any:
        return train**self._alpha * heldout ** (1 - self._alpha)


class _Search:
    """The state of a search: what lies on which side, and what is left of every kind.

    Attributes:
      sides: items of train and of the held-out side in the order in which they were placed.
      atoms: tally of the atoms.
      compounds: tally of the compounds.
    """

    def __init__(self, kinds: Mapping[_Kind, Sequence[int]], settings: McdSettings, seed: int):
        self._settings = settings
        self._random = numpy_generator(seed, "split/mcd")
        count = sum(map(len, kinds.values()))
        self._priority = self._random.permutation(count)
        self._left = [sorted(items, key=self._order) for items in kinds.values()]
        self._next = np.array([self._priority[items[-1]] for items in self._left])
        self._kind = np.empty(count, np.int64)
        for kind, items in enumerate(kinds.values()):
            self._kind[items] = kind
        self._allowed = np.array(
            [[kind.side in (EITHER, side) for kind in kinds] for side in (TRAIN, HELDOUT)]
        )
        self.atoms = _Tally(_Features([kind.atoms for kind in kinds]), ATOM_ALPHA)
        self.compounds = _Tally(_Features([kind.compounds for kind in kinds]), COMPOUND_ALPHA)
        # What an item in train shows and what a held-out one asks, as rows of one count per side.
        given = dict.fromkeys(c for kind in kinds for c in kind.shown + kind.asked)
        ids = {compound: number for number, compound in enumerate(given)}
        self._gives = [
            _Features([kind.shown for kind in kinds], ids),
            _Features([kind.asked for kind in kinds], ids),
        ]
        self._given = np.zeros((2, len(ids)), np.int64)
        self.sides: tuple[list[int], list[int]] = ([], [])

    def _order(self, item: int) -> int:
        return -self._priority[item]

    def place(self, turns: Sequence[int], *, clean: bool = False) -> None:
        """Place one item on each of the sides `turns`, in random order.

        With `clean` no item joins that the repair pass would take out again.
        """
        for side in self._random.permutation(np.array(turns, int)).tolist():
            free = self._allowed[side] & (self._next != USED_UP)
            if clean:
                free &= self._clean(side)
            if free.any():
                self._put(side, self._best(side, free))

    def _best(self, side: int, free: Bool[np.ndarray, " kinds"]) -> int:
        atoms = self.atoms.divergence_with(side)
        compounds = self.compounds.divergence_with(side)
        target, slack = self._settings.target, self._settings.slack
        kept = free & (atoms < self._settings.atom_limit)
        if kept.any():
            away = np.abs(compounds - target)
            score = np.where(kept, away if target == 1 else np.maximum(away - slack, 0), np.inf)
        elif self._settings.fallback == "atoms":
            score = np.where(free, atoms, np.inf)
        else:
            score = np.where(free, -compounds, np.inf)
        tied = np.flatnonzero(score <= score.min() + TIE)
        if self._settings.ties == "compound":
            return int(tied[self._random.integers(len(tied))])
        return int(tied[np.argmin(self._next[tied])])

    def _put(self, side: int, kind: int) -> None:
        self.sides[side].append(self._left[kind].pop())
        self._count(side, kind, +1)

    def _take_back(self, side: int, bad: Bool[np.ndarray, " kinds"]) -> int:
        out = [item for item in self.sides[side] if bad[self._kind[item]]]
        self.sides[side][:] = [item for item in self.sides[side] if not bad[self._kind[item]]]
        for item in out:
            kind = int(self._kind[item])
            self._left[kind].append(item)
            self._left[kind].sort(key=self._order)
            self._count(side, kind, -1)
        return len(out)

    def _count(self, side: int, kind: int, sign: int) -> None:
        self.atoms.count(side, kind, sign)
        self.compounds.count(side, kind, sign)
        self._given[side, self._gives[side].of[kind][0]] += sign
        left = self._left[kind]
        self._next[kind] = self._priority[left[-1]] if left else USED_UP

    def repair(self) -> int:
        """Take out what must not be, fill up with what may be; returns the items taken out."""
        out = 0
        if self._settings.unseen:
            # Of a compound on both sides the side with fewer items loses it.
            shown, asked = self._given
            out += self._take_back(TRAIN, self._gives[TRAIN].any_of((shown > 0) & (shown < asked)))
        out += self._take_back(HELDOUT, ~self._clean(HELDOUT))
        train, heldout = map(len, self.sides)
        settings = self._settings
        missing = [TRAIN] * (settings.train - train) + [HELDOUT] * (settings.heldout - heldout)
        self.place(missing, clean=True)
        return out

    def _clean(self, side: int) -> Bool[np.ndarray, " kinds"]:
        clean = np.ones(len(self._left), bool)
        if self._settings.unseen:
            clean &= ~self._gives[side].any_of(self._given[1 - side] > 0)
        if side == HELDOUT:
            clean &= ~self.atoms.features.any_of(self.atoms.counts[TRAIN] == 0)
        return clean
