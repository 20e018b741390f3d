"""What is asked of the groups: orders of the four sentences, or pairs; and which are held out."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from mmgen.data.macid.groups import PLACES, Group
from mmgen.data.macid.patterns import PATTERNS, pairs_of, pattern_of, verbs_of
from mmgen.errors import UserError


class Item(NamedTuple):
    """One question about a group.

    Attributes:
      name: unique: "GROUP/1234" with the places in the order in which they are shown, "GROUP/1-3"
        of a pair.
      group: what is asked about.
      order: places of the shown sentences.
      target: the right answer: number of the shown sentence that is the intruder; for a pair 1
        (yes, the same) or 2 (no).
    """

    name: str
    group: Group
    order: tuple[int, ...]
    target: int

    @property
    def is_given_order(self) -> bool:
        """Are the sentences shown as they stand in the file?"""
        return list(self.order) == sorted(self.order)


def quadruples(group: Group, orders: str) -> list[Item]:
    """A group in the given order, its 4 rotations, or all 24 orders."""
    if orders == "all":
        shown = list(itertools.permutations(PLACES))
    else:
        turns = len(PLACES) if orders == "rotations" else 1
        shown = [(*PLACES[turn:], *PLACES[:turn]) for turn in range(turns)]
    return [
        Item(
            f"{group.id}/{''.join(map(str, order))}", group, order, order.index(group.intruder) + 1
        )
        for order in shown
    ]


def pairs(group: Group, orders: str) -> list[Item]:
    """The six pairs of a group; both ways round unless only the given order is asked for."""
    items = []
    for pair in pairs_of(group):
        first, second = pair.places
        shown = [(first, second)] if orders == "given" else [(first, second), (second, first)]
        target = 1 if pair.same else 2
        items += [Item(f"{group.id}/{a}-{b}", group, (a, b), target) for a, b in shown]
    return items


def hold_out(groups: Sequence[Group], count: int, ids: Sequence[str], language: str) -> list[Group]:
    """Groups that may serve as examples and are then not asked.

    Args:
      groups: all of them.
      count: how many; the first of each verb pattern in turn, so that the examples differ.
      ids: those with these ids instead; () chooses by pattern.
      language: whose verbs make the pattern.

    Raises:
      UserError: an id that there is not, or not enough groups to leave one.
    """
    if ids:
        by_id = {group.id: group for group in groups}
        unknown = [name for name in ids if name not in by_id]
        if unknown:
            raise UserError(
                f"config.macid.held_out_ids names group {unknown[0]!r}, which there is not."
            )
        return [by_id[name] for name in ids]
    if not 0 <= count < len(groups):
        raise UserError(
            f"config.macid.held_out is {count}, but there are {len(groups)} groups; leave some to "
            "be asked."
        )
    by_pattern: dict[str, list[Group]] = {}
    for group in groups:
        verbs = verbs_of(group, language)
        by_pattern.setdefault("" if verbs is None else pattern_of(verbs), []).append(group)
    rows = [by_pattern[name] for name in (*PATTERNS, "") if name in by_pattern]
    in_turn = [
        group for layer in itertools.zip_longest(*rows) for group in layer if group is not None
    ]
    return in_turn[:count]
