"""Building groups of four from captions with a verb and an action concept (MACID, section 3).

Three captions of a group are of one concept, the intruder is of another. How the verbs lie, whether
the intruder shares one, how similar its concept is, where it stands and how often a caption is used
is drawn to given counts; everything else at random.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mmgen.data.macid.groups import DISTANCES, PLACES
from mmgen.errors import UserError

LAYOUTS = {
    ("1_1_1_1", False): ("abc", "d", 12),
    ("2_1_1", True): ("abc", "a", 10),
    ("2_1_1", False): ("aab", "c", 22),
    ("2_2", True): ("abb", "a", 16),
    ("3_1", True): ("aab", "a", 24),
    ("3_1", False): ("aaa", "b", 4),
    ("4", True): ("aaa", "a", 12),
}
"""(pattern, does the intruder share a verb) -> verbs of the three, of the intruder, groups of 100.

So the intruder shares its verb in 62 of 100, and "the odd verb" finds it in exactly a quarter.
"""

SIMILARITIES = dict(zip(DISTANCES, (33, 33, 34), strict=True))
"""Groups of 100 by similarity of the intruder's concept."""

USES = {1: 230, 2: 61, 3: 16}
"""Times that a caption is used -> captions of 307, which fill the 400 places of 100 groups."""

MOST_USES = max(USES)

TRIES = 60
"""Candidates looked at for a group, and attempts at giving out the captions."""


class Caption(NamedTuple):
    """A description of an action.

    Attributes:
      texts: language -> sentence.
      concept: number of its action concept.
      verb: lemma of its verb.
      what: what is acted upon, "" where not known.
    """

    texts: Mapping[str, str]
    concept: int
    verb: str
    what: str = ""


class Draft(NamedTuple):
    """A group before it is written out.

    Attributes:
      captions: numbers of the four captions in their order.
      intruder: place of the intruder, 1 to 4.
      similarity: of its concept.
    """

    captions: tuple[int, ...]
    intruder: int
    similarity: str


class _Plan(NamedTuple):
    """What a group shall be: cells (concept, verb) of the three and of the intruder."""

    cells: tuple[tuple[int, str], ...]
    place: int
    similarity: str


Cell = tuple[int, str]
Slot = tuple[int, int]
"""(group, 0 to 2 for the three and 3 for the intruder)."""


def build_groups(
    captions: Sequence[Caption],
    similarity: Callable[[int, int], str],
    count: int,
    generator: np.random.Generator,
    *,
    exact_uses: bool,
) -> list[Draft]:
    """Groups of four, in random order.

    Args:
      captions: all there are; many more than needed if `exact_uses`.
      similarity: of two concepts, one of `DISTANCES`.
      count: of groups.
      generator: of every random choice.
      exact_uses: use captions once, twice and three times as often as `USES` says; otherwise the
        least used first, none more than three times.

    Raises:
      UserError: the captions allow no such groups.
    """
    cells: dict[Cell, list[int]] = defaultdict(list)
    for number, caption in enumerate(captions):
        cells[caption.concept, caption.verb].append(number)
    plans = _plan(cells, similarity, count, generator)
    slots = {
        (group, slot): cell
        for group, plan in enumerate(plans)
        for slot, cell in enumerate(plan.cells)
    }
    tries = TRIES if len(slots) <= MOST_USES * len(captions) else 0
    for _ in range(tries):
        units = _units(slots, count, generator) if exact_uses else [(slot,) for slot in slots]
        chosen = _give_out(units, slots, cells, captions, generator)
        if chosen is not None:
            return [_draft(group, plan, chosen, generator) for group, plan in enumerate(plans)]
    raise UserError(
        f"{len(captions)} captions are too few or too alike for {count} groups with no caption "
        f"used more than {MOST_USES} times; give more of them, or build fewer groups."
    )


def apportion(total: int, weights: Mapping) -> dict:
    """`total` shared out in proportion to `weights`, by largest remainder."""
    whole = sum(weights.values())
    exact = {key: total * weight / whole for key, weight in weights.items()}
    shares = {key: int(value) for key, value in exact.items()}
    rest = sorted(exact, key=lambda key: shares[key] - exact[key])
    for key in rest[: total - sum(shares.values())]:
        shares[key] += 1
    return shares


def _plan(
    cells: Mapping[Cell, Sequence[int]],
    similarity: Callable[[int, int], str],
    count: int,
    generator: np.random.Generator,
) -> list[_Plan]:
    """Verb layout, concepts, similarity and place of every group; concepts evenly used."""

    def shuffled(shares: Mapping) -> list:
        values = [key for key, number in shares.items() for _ in range(number)]
        return [values[i] for i in generator.permutation(len(values))]

    layouts = shuffled(apportion(count, {key: wanted for key, (*_, wanted) in LAYOUTS.items()}))
    places = shuffled(apportion(count, dict.fromkeys(PLACES, 1)))
    similarities = shuffled(apportion(count, SIMILARITIES))
    options = _options(cells, similarity)
    load: Counter = Counter()
    plans: list[_Plan] = []
    # Rare combinations first, while there is most to choose from.
    order = sorted(
        zip(layouts, similarities, places, strict=True), key=lambda plan: len(options[plan[:2]])
    )
    for layout, near, place in order:
        found = options[layout, near]
        if not found:
            raise UserError(
                f"no two concepts of {near} similarity have verbs for a group of pattern "
                f"{layout[0]}{' whose intruder shares its verb' if layout[1] else ''}; give "
                "captions of more verbs."
            )
        drawn = generator.integers(len(found), size=min(TRIES, 4 * len(found)))
        best = min(
            (found[i] for i in drawn.tolist()),
            key=lambda chosen: _crowding(chosen, load, cells),
        )
        load.update(best)
        load.update(cell[0] for cell in best)
        plans.append(_Plan(best, place, near))
    return [plans[i] for i in generator.permutation(len(plans))]


def _options(
    cells: Mapping[Cell, Sequence[int]], similarity: Callable[[int, int], str]
) -> dict[tuple[tuple[str, bool], str], list[tuple[Cell, ...]]]:
    """(layout, similarity) -> every choice of four cells that has it."""
    verbs: dict[int, list[str]] = defaultdict(list)
    for concept, verb in sorted(cells):
        verbs[concept].append(verb)
    options: dict = defaultdict(list)
    for layout, (three, odd, _) in LAYOUTS.items():
        for own, other in itertools.permutations(verbs, 2):
            for named in itertools.permutations(verbs[own], len(set(three))):
                verb_of = dict(zip(dict.fromkeys(three), named, strict=True))
                need = Counter(verb_of[letter] for letter in three)
                if any(len(cells[own, verb]) < times for verb, times in need.items()):
                    continue
                for verb in verbs[other]:
                    if (verb_of[odd] == verb) if odd in verb_of else (verb not in named):
                        chosen = (*((own, verb_of[letter]) for letter in three), (other, verb))
                        options[layout, similarity(own, other)].append(chosen)
    return options


def _crowding(chosen: Sequence[Cell], load: Counter, cells: Mapping[Cell, Sequence[int]]) -> tuple:
    """What to keep low: cells that would be overfull, then use of the concepts and of the cells."""
    need = Counter(chosen)
    over = sum(
        max(0, load[cell] + times - MOST_USES * len(cells[cell])) for cell, times in need.items()
    )
    fill = max(load[cell] / len(cells[cell]) for cell in need)
    return over, load[chosen[0][0]] + load[chosen[3][0]], fill


def _units(
    slots: Mapping[Slot, Cell], count: int, generator: np.random.Generator
) -> list[tuple[Slot, ...]]:
    """Slots put together that shall get the same caption: so many threes, twos and ones.

    Of a few dozen groups there may not be enough with the same concept and verb; then fewer
    captions are used more than once.
    """
    free: dict[Cell, list[Slot]] = defaultdict(list)
    for slot, cell in slots.items():
        free[cell].append(slot)
    per_caption = sum(uses * number for uses, number in USES.items()) / sum(USES.values())
    wanted = apportion(round(len(PLACES) * count / per_caption), USES)
    units: list[tuple[Slot, ...]] = []
    for size in sorted(wanted, reverse=True)[:-1]:
        for _ in range(wanted[size]):
            able = [cell for cell, own in free.items() if len({group for group, _ in own}) >= size]
            if not able:
                break
            weights = np.array([len(free[cell]) for cell in able], float)
            cell = able[int(generator.choice(len(able), p=weights / weights.sum()))]
            unit = _from_different_groups(free[cell], size, generator)
            free[cell] = [slot for slot in free[cell] if slot not in unit]
            units.append(unit)
    # What rounding leaves is used once.
    return units + [(slot,) for own in free.values() for slot in own]


def _from_different_groups(
    slots: Sequence[Slot], size: int, generator: np.random.Generator
) -> tuple[Slot, ...]:
    by_group: dict[int, Slot] = {}
    for i in generator.permutation(len(slots)).tolist():
        by_group.setdefault(slots[i][0], slots[i])
    return tuple(list(by_group.values())[:size])


def _give_out(
    units: Sequence[tuple[Slot, ...]],
    slots: Mapping[Slot, Cell],
    cells: Mapping[Cell, Sequence[int]],
    captions: Sequence[Caption],
    generator: np.random.Generator,
) -> dict[Slot, int] | None:
    """A caption for every unit, no thing acted upon twice in a group; None if one finds none."""
    exact = any(len(unit) > 1 for unit in units)
    used: Counter = Counter()
    things: dict[int, set[str]] = defaultdict(set)
    chosen: dict[Slot, int] = {}
    order = sorted(generator.permutation(len(units)).tolist(), key=lambda i: -len(units[i]))
    for unit in (units[i] for i in order):
        own = cells[slots[unit[0]]]
        taken = set().union(*(things[group] for group, _ in unit))
        fits = [
            number
            for number in (own[i] for i in generator.permutation(len(own)).tolist())
            if _thing(captions[number]) not in taken and used[number] < (1 if exact else MOST_USES)
        ]
        if not fits:
            return None
        best = min(fits, key=used.__getitem__)
        used[best] += len(unit)
        for slot in unit:
            things[slot[0]].add(_thing(captions[best]))
            chosen[slot] = best
    return chosen


def _thing(caption: Caption) -> str:
    return caption.what or next(iter(caption.texts.values()))


def _draft(
    group: int, plan: _Plan, chosen: Mapping[Slot, int], generator: np.random.Generator
) -> Draft:
    three = [chosen[group, slot] for slot in generator.permutation(3).tolist()]
    three.insert(plan.place - 1, chosen[group, 3])
    return Draft(tuple(three), plan.place, plan.similarity)
