"""The split by compound divergence: what it promises, and a twin that recounts everything."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.core.rng import numpy_generator
from mmgen.data.mcd import (
    ATOM_ALPHA,
    COMPOUND_ALPHA,
    EITHER,
    HELDOUT,
    TRAIN,
    McdSettings,
    chernoff_divergence,
    mcd_split,
)

VERBS, NOUNS = "abcd", "WXYZ"
PAIRS = st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from(NOUNS)), min_size=4, max_size=14)
SMALL = settings(max_examples=25, deadline=None, derandomize=True)


def divergence(items, sides, alpha):
    first, second = (Counter(f for item in side for f in items[item]) for side in sides)
    n, m = sum(first.values()), sum(second.values())
    if not n or not m:
        return 1.0
    return 1 - sum((first[k] / n) ** alpha * (second[k] / m) ** (1 - alpha) for k in first)


def slow_twin(atoms, compounds, wanted, seed):
    """Algorithm 1 word for word: every divergence from scratch, for every item, at every step."""
    random = numpy_generator(seed, "split/mcd")
    priority = random.permutation(len(atoms))
    kind_of = [(tuple(a), tuple(c)) for a, c in zip(atoms, compounds, strict=True)]
    left, sides = list(range(len(atoms))), ([], [])
    for side in random.permutation([TRAIN] * wanted.train + [HELDOUT] * wanted.heldout):
        score = {}
        for item in left:
            trial = tuple([*s, item] if n == side else s for n, s in enumerate(sides))
            d_a = divergence(atoms, trial, ATOM_ALPHA)
            d_c = divergence(compounds, trial, COMPOUND_ALPHA)
            away = abs(d_c - wanted.target)
            away = away if wanted.target == 1 else max(away - wanted.slack, 0)
            spare = d_a if wanted.fallback == "atoms" else -d_c
            score[item] = (0, away) if d_a < wanted.atom_limit else (1, spare)
        level, best = min(score.values())
        tied = [i for i in left if score[i][0] == level and score[i][1] <= best + 1e-9]
        if wanted.ties == "compound":
            of_tied = {kind_of[item] for item in tied}
            kinds = [kind for kind in dict.fromkeys(kind_of) if kind in of_tied]
            kind = kinds[random.integers(len(kinds))]
            tied = [item for item in tied if kind_of[item] == kind]
        chosen = min(tied, key=lambda item: priority[item])
        sides[side].append(chosen)
        left.remove(chosen)
    return tuple(sorted(side) for side in sides)


def targets(pairs):
    """Atoms and compounds of one verb-noun pair per item."""
    return [[("v", v), ("n", n)] for v, n in pairs], [[pair] for pair in pairs]


def windows(pairs):
    """The same for overlapping windows of three pairs: features repeat within an item."""
    atoms, compounds = targets(pairs)
    spans = [range(i, i + 3) for i in range(len(pairs) - 2)]
    return (
        [[a for row in span for a in atoms[row]] for span in spans],
        [[c for row in span for c in compounds[row]] for span in spans],
    )


@pytest.mark.parametrize("shape", [targets, windows])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"ties": "item"},
        {"fallback": "compounds", "atom_limit": 0.3},
        {"target": 0.5, "unseen": False, "atom_limit": 0.4},
        {"atom_limit": 0.4, "ties": "item"},
    ],
)
@given(PAIRS, st.integers(0, 3))
@SMALL
def test_the_slow_twin_agrees(shape, change, pairs, seed):
    atoms, compounds = shape(pairs)
    half = len(atoms) // 2
    wanted = McdSettings(train=half, heldout=max(half - 1, 1), repair=False, **change)
    split = mcd_split(atoms, compounds, wanted, seed=seed)
    assert (split.train.tolist(), split.heldout.tolist()) == slow_twin(
        atoms, compounds, wanted, seed
    )
    sides = split.train, split.heldout
    assert split.atom_divergence == pytest.approx(divergence(atoms, sides, ATOM_ALPHA))
    assert split.compound_divergence == pytest.approx(divergence(compounds, sides, COMPOUND_ALPHA))


@given(PAIRS, st.integers(0, 3), st.booleans())
@SMALL
def test_after_the_repair_nothing_asked_was_shown_and_every_atom_was_seen(pairs, seed, shown_more):
    atoms, compounds = targets(pairs)
    shown = [[pair, pairs[0]] for pair in pairs] if shown_more else compounds
    half = len(pairs) // 2
    wanted = McdSettings(train=half, heldout=half)
    split = mcd_split(atoms, compounds, wanted, seed=seed, shown=shown)
    train = {c for item in split.train for c in shown[item]}
    assert not train & {c for item in split.heldout for c in compounds[item]}
    known = {a for item in split.train for a in atoms[item]}
    assert {a for item in split.heldout for a in atoms[item]} <= known
    assert not np.intersect1d(split.train, split.heldout).size
    assert len(np.unique(split.train)) <= half


@given(PAIRS, st.data())
@SMALL
def test_items_stay_on_their_side(pairs, data):
    side = [data.draw(st.sampled_from([EITHER, TRAIN, HELDOUT])) for _ in pairs]
    half = len(pairs) // 2
    split = mcd_split(*targets(pairs), McdSettings(half, half), seed=0, side=side)
    assert all(side[item] != HELDOUT for item in split.train)
    assert all(side[item] != TRAIN for item in split.heldout)


def many(count=1500, seed=0):
    random = np.random.default_rng(seed)
    weight = 1 / np.arange(1, 41)
    verb = random.choice(40, count, p=weight / weight.sum())
    noun = random.choice(40, count, p=weight / weight.sum())
    return list(zip(verb.tolist(), noun.tolist(), strict=True))


def test_a_large_split_reaches_its_goal_and_its_sizes():
    atoms, compounds = targets(many())
    split = mcd_split(atoms, compounds, McdSettings(300, 300), seed=0)
    assert (len(split.train), len(split.heldout)) == (300, 300)
    assert split.atom_divergence < 0.02
    assert split.compound_divergence == pytest.approx(1.0)


@pytest.mark.parametrize("target", [0.3, 0.6, 0.8, 0.95])
def test_a_target_is_met(target):
    atoms, compounds = targets(many())
    wanted = McdSettings(300, 300, target=target, unseen=False)
    split = mcd_split(atoms, compounds, wanted, seed=1)
    assert abs(split.compound_divergence - target) < 0.02
    assert split.atom_divergence < 0.02
    known = {a for item in split.train for a in atoms[item]}
    assert {a for item in split.heldout for a in atoms[item]} <= known


def test_the_seed_decides_the_split():
    arguments = (*targets(many(300)), McdSettings(60, 60))
    first, again, other = (mcd_split(*arguments, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.train, again.train)
    assert np.array_equal(first.heldout, again.heldout)
    assert not np.array_equal(first.train, other.train)


def test_divergence_of_known_counts():
    assert chernoff_divergence({"a": 1}, {"a": 5}, 0.1) == pytest.approx(0)
    assert chernoff_divergence({"a": 1}, {"b": 1}, 0.1) == 1
    assert chernoff_divergence({}, {"b": 1}, 0.5) == 1
    half = chernoff_divergence({"a": 1, "b": 1}, {"a": 3}, 0.1)
    assert half == pytest.approx(1 - 0.5**0.1)
    assert chernoff_divergence({"a": 3}, {"a": 1, "b": 1}, 0.1) == pytest.approx(1 - 0.5**0.9)


@pytest.mark.parametrize(
    "change",
    [{"train": 5, "heldout": 5}, {"train": 0}, {"ties": "coin"}, {"target": 0.5, "unseen": True}],
)
def test_impossible_settings_are_refused(change):
    atoms, compounds = targets([("a", "X")] * 8)
    with pytest.raises(ValueError, match=r"ties|given|unseen"):
        mcd_split(atoms, compounds, McdSettings(2, 2)._replace(**change), seed=0)
    with pytest.raises(ValueError, match="one entry per item"):
        mcd_split(atoms, compounds[1:], McdSettings(2, 2), seed=0)
