"""Accuracy of MACID's readings with its error, and its breakdowns."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from mmgen.data.macid.groups import DISTANCES, PLACES
from mmgen.data.macid.patterns import PATTERNS, odd_verb, pattern_of, shares_verb, verbs_of
from mmgen.prompting.estimates import Estimate, estimate, estimates_by
from mmgen.prompting.macid.reading import Choice


class Measured(NamedTuple):
    """What one reading is worth.

    Attributes:
      accuracy: in the given order (of pairs: of all of them).
      unusable: share of answers that cannot be read.
      breakdown: condition -> accuracy over all shown orders.
      orders: "mean", "worst" and "all right" over the orders, where there are several.
      predicted: answer -> how often it is chosen.
    """

    accuracy: Estimate
    unusable: Estimate
    breakdown: dict[str, Estimate]
    orders: dict[str, Estimate]
    predicted: dict[str, Estimate]


def measure_quadruples(
    choices: Sequence[Choice], language: str, held_out: frozenset[str]
) -> Measured:
    """Scores of choices among four.

    Args:
      choices: of one reading.
      language: of the sentences, for their verbs.
      held_out: ids of the groups that serve as examples in runs with examples; zero-shot runs
        also tell their accuracy without them.
    """
    right, group = _arrays(choices)
    given = _where(choices, lambda choice: choice.item.is_given_order)
    conditions = _conditions(choices, language)
    if any(choice.item.group.id in held_out for choice in choices):
        asked = _where(choices, lambda choice: choice.item.group.id not in held_out)
        conditions["not held out"] = asked & given
    return Measured(
        estimate(right[given], group[given]),
        _unusable(choices, group),
        estimates_by(right, group, {k: use for k, use in conditions.items() if use.any()}),
        _orders(choices, right, group),
        _predicted(choices, group, [str(place) for place in PLACES]),
    )


def measure_pairs(choices: Sequence[Choice], language: str, answers: Sequence[str]) -> Measured:
    """Scores of "the same?" over pairs; three of six are, so accuracy is balanced."""
    right, group = _arrays(choices)
    same = _where(choices, lambda choice: choice.item.target == 1)
    conditions = {"same concept": same, "different concept": ~same}
    verbs = {c.item.group.id: verbs_of(c.item.group, language) for c in choices}
    if all(verbs.values()):

        def has_one_verb(choice: Choice) -> bool:
            own = verbs[choice.item.group.id] or ()
            return len({own[place - 1] for place in choice.item.order}) == 1

        alike = _where(choices, has_one_verb)
        conditions |= {"same verb": alike, "different verbs": ~alike}
    return Measured(
        estimate(right, group),
        _unusable(choices, group),
        estimates_by(right, group, {k: use for k, use in conditions.items() if use.any()}),
        {},
        _predicted(choices, group, answers),
    )


def _conditions(choices: Sequence[Choice], language: str) -> dict[str, Bool[np.ndarray, " n"]]:
    verbs = {c.item.group.id: verbs_of(c.item.group, language) for c in choices}

    def where(condition: Callable[..., object]) -> Bool[np.ndarray, " n"]:
        return _where(choices, lambda c: condition(c, verbs[c.item.group.id]))

    found = {
        f"pattern {name}": where(lambda _, v, name=name: v and pattern_of(v) == name)
        for name in PATTERNS
    }
    found["intruder's verb shared"] = where(
        lambda c, v: v and shares_verb(v, c.item.group.intruder)
    )
    found["intruder's verb not shared"] = where(
        lambda c, v: v and not shares_verb(v, c.item.group.intruder)
    )
    for odd in (True, False):
        name = f"3_1, odd verb is {'' if odd else 'not '}the intruder's"
        found[name] = where(
            lambda c, v, odd=odd: (
                v and pattern_of(v) == "3_1" and (odd_verb(v) == [c.item.group.intruder]) == odd
            )
        )
    found |= {
        f"intruder shown at {place}": where(lambda c, _, place=place: c.item.target == place)
        for place in PLACES
    }
    found |= {
        f"similarity {name}": where(lambda c, _, name=name: c.item.group.distance == name)
        for name in DISTANCES
    }
    return found


def _orders(
    choices: Sequence[Choice],
    right: Float[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"],
) -> dict[str, Estimate]:
    orders = np.array(["".join(map(str, choice.item.order)) for choice in choices])
    shown = np.unique(orders)
    if len(shown) < 2:
        return {}
    by_order = [estimate(right[orders == one], group[orders == one]) for one in shown]
    ids = np.unique(group)
    all_right = np.array([right[group == one].all() for one in ids], float)
    return {
        "mean": estimate(right, group),
        "worst": min(by_order, key=lambda one: one.mean),
        "best": max(by_order, key=lambda one: one.mean),
        "all right": estimate(all_right, ids),
    }


def _where(
    choices: Sequence[Choice], condition: Callable[[Choice], object]
) -> Bool[np.ndarray, " n"]:
    return np.array([bool(condition(choice)) for choice in choices], np.bool_)


def _arrays(
    choices: Sequence[Choice],
) -> tuple[Float[np.ndarray, " n"], Shaped[np.ndarray, " n"]]:
    right = np.array([choice.is_right for choice in choices], float)
    return right, np.array([choice.item.group.id for choice in choices])


def _unusable(choices: Sequence[Choice], group: Shaped[np.ndarray, " n"]) -> Estimate:
    return estimate(np.array([choice.prediction is None for choice in choices], float), group)


def _predicted(
    choices: Sequence[Choice], group: Shaped[np.ndarray, " n"], answers: Sequence[str]
) -> dict[str, Estimate]:
    chosen = np.array([choice.prediction or 0 for choice in choices])
    return {
        name: estimate((chosen == number).astype(float), group)
        for number, name in enumerate(answers, start=1)
    }


def difference(first: Sequence[Choice], second: Sequence[Choice]) -> Estimate:
    """Accuracy of the first minus that of the second, on the items that both have."""
    other: Mapping[str, Choice] = {choice.item.name: choice for choice in second}
    both = [(one, other[one.item.name]) for one in first if one.item.name in other]
    values = np.array([one.is_right - two.is_right for one, two in both], float)
    return estimate(values, np.array([one.item.group.id for one, _ in both]))
