"""Verb patterns of groups, rules that look at nothing but verbs, and pairs.

A pattern tells how often each verb occurs: 4, 3_1, 2_2, 2_1_1 or 1_1_1_1 (the paper's Table 3).
A rule's score is its expected accuracy, in closed form, when it chooses among equals at random.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mmgen.data.macid.groups import PLACES, Group
from mmgen.data.macid.verbs import lemma

PATTERNS = ("1_1_1_1", "2_1_1", "2_2", "3_1", "4")

Verbs = tuple[str, ...]


class Pair(NamedTuple):
    """Two sentences of a group.

    Attributes:
      group: id of the group.
      places: of the two sentences, 1 to 4.
      same: are they of the same action concept?
    """

    group: str
    places: tuple[int, int]
    same: bool


def verbs_of(group: Group, language: str) -> Verbs | None:
    """Lemmas of the four sentences, None if one of them is not known.

    Annotated lemmas come first; they are those of the data set's own language.
    """
    if group.verbs is not None and language == next(iter(group.sentences)):
        return group.verbs
    found = [lemma(sentence, language) for sentence in group.sentences.get(language, ())]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(PLACES) else None


def pattern_of(verbs: Verbs) -> str:
    """One of `PATTERNS`."""
    return "_".join(map(str, sorted(Counter(verbs).values(), reverse=True)))


def shares_verb(verbs: Verbs, intruder: int) -> bool:
    """Does the intruder have the verb of another sentence?"""
    return verbs.count(verbs[intruder - 1]) > 1


def odd_verb(verbs: Verbs) -> Sequence[int]:
    """Places among which the rule "the verb that occurs least is the intruder's" chooses."""
    return _places(verbs, min)


def most_common_verb(verbs: Verbs) -> Sequence[int]:
    """Places among which the rule "the verb that occurs most is the intruder's" chooses."""
    return _places(verbs, max)


def expected_accuracy(
    groups: Sequence[Group], language: str, rule: Callable[[Verbs], Sequence[int]]
) -> float:
    """Mean probability that a rule finds the intruder; groups without verbs count .25."""
    total = 0.0
    for group in groups:
        verbs = verbs_of(group, language)
        chosen = PLACES if verbs is None else rule(verbs)
        total += (group.intruder in chosen) / len(chosen)
    return total / len(groups)


def concept_oracle(groups: Sequence[Group]) -> float | None:
    """Accuracy of choosing the sentence whose concept occurs once; None without annotations."""
    if any(group.concepts is None for group in groups):
        return None
    right = 0
    for group in groups:
        counts = Counter(group.concepts)
        odd = [place for place in PLACES if counts[(group.concepts or ())[place - 1]] == 1]
        right += odd == [group.intruder]
    return right / len(groups)


def pairs_of(group: Group) -> list[Pair]:
    """The six pairs of a group, three of the same concept and three that hold the intruder."""
    return [
        Pair(group.id, places, group.intruder not in places)
        for places in itertools.combinations(PLACES, 2)
    ]


def same_verb_balanced_accuracy(groups: Sequence[Group], language: str) -> float | None:
    """Balanced accuracy of "the same verb is the same concept" over all pairs.

    None if there is a group whose verbs are not known.
    """
    hits = {True: 0, False: 0}
    for group in groups:
        verbs = verbs_of(group, language)
        if verbs is None:
            return None
        for pair in pairs_of(group):
            first, second = (verbs[place - 1] for place in pair.places)
            hits[pair.same] += (first == second) == pair.same
    return sum(hits.values()) / (6 * len(groups))


def _places(verbs: Verbs, extreme: Callable[..., int]) -> Sequence[int]:
    counts = Counter(verbs)
    wanted = extreme(counts.values())
    return [place for place in PLACES if counts[verbs[place - 1]] == wanted]
