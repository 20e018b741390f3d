"""What is known of every window of `kitchen_world`, and what can be expected of a whole world.

A prediction is right in the sense of the benchmark's scores: `joint` if verb and noun class are
(CA), `verb` and `noun` if that class is, `exact` if the string is (EM).
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from mmgen.data.worlds.kitchen_grammar import MODALITY_SETS, Grammar, KitchenLaws
from mmgen.data.worlds.kitchen_oracle import Posterior, Windows, posterior, text_law
from mmgen.data.worlds.kitchen_sampling import INPUTS

RIGHT = ("joint", "verb", "noun", "exact")
LOSSES = ("utterance_nll", "verb_nll", "noun_nll")

CHUNK = 512
"""Windows at a time, which bounds memory to some 100 MB."""

Scores = dict[str, Float[np.ndarray, " n"]]


def item_scores(belief: Posterior, windows: Windows) -> Scores:
    """Loss and rightness of a belief on every window.

    Returns:
      utterance_nll, verb_nll and noun_nll: nats of the target's narration, of its verb's string
        and of its noun's, each as a whole; and for each of `RIGHT` 1 where the best guess is right.
    """
    place, verb, form = windows.target.T
    rows = np.arange(len(place))
    joint, nouns, verbs = belief.sum(3), belief.sum((2, 3)), belief.sum((1, 3))
    guess = joint.reshape(len(rows), -1).argmax(axis=1)
    string = belief.reshape(len(rows), -1).argmax(axis=1)
    found = {
        "utterance_nll": -np.log(belief[rows, place, verb, form]),
        "verb_nll": -np.log(belief.sum(1)[rows, verb, form]),
        "noun_nll": -np.log(nouns[rows, place]),
        "joint": guess == place * joint.shape[2] + verb,
        "verb": verbs.argmax(axis=1) == verb,
        "noun": nouns.argmax(axis=1) == place,
        "exact": string == np.ravel_multi_index((place, verb, form), belief.shape[1:]),
    }
    return {name: values.astype(float) for name, values in found.items()}


def scores_by_set(
    laws: KitchenLaws, grammar: Grammar, windows: Windows, law: Posterior | None = None
) -> dict[str, Scores]:
    """`item_scores` of the exact posterior for each of `MODALITY_SETS`.

    Args:
      laws: of the world.
      grammar: of the world.
      windows: to judge.
      law: belief without features, as in `posterior`.
    """
    found: dict[str, Scores] = {}
    for name, modalities in MODALITY_SETS.items():
        parts = []
        for start in range(0, len(windows.noun), CHUNK):
            rows = slice(start, start + CHUNK)
            some, prior = windows.take(rows), None if law is None else law[rows]
            belief = posterior(laws, grammar, some, modalities, prior)
            parts.append(item_scores(belief, some))
        found[name] = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return found


def expected_scores(
    laws: KitchenLaws, grammar: Grammar, windows: Windows, modalities: tuple[str, ...]
) -> dict[str, float]:
    """The optimum's expected scores, by enumeration of everything that may be seen and heard.

    Only texts of `windows` are looked at; of each the expectation over features and target is
    exact where no two codes can be mixed up, which holds for the default noise.

    Returns:
      `RIGHT` -> probability of a right guess; `LOSSES` -> entropy in nats, with the features given.
    """
    totals = dict.fromkeys((*RIGHT, *LOSSES), 0.0)
    for start in range(0, len(windows.noun), CHUNK):
        some = windows.take(slice(start, start + CHUNK))
        law = text_law(laws, grammar, some)
        for evidence in _outcomes(laws, grammar, modalities):
            belief = law * evidence
            joint, nouns, verbs = belief.sum(3), belief.sum((2, 3)), belief.sum((1, 3))
            flat = belief.reshape(len(belief), -1)
            totals["joint"] += joint.reshape(len(joint), -1).max(axis=1).sum()
            totals["verb"] += verbs.max(axis=1).sum()
            totals["noun"] += nouns.max(axis=1).sum()
            totals["exact"] += flat.max(axis=1).sum()
            totals["utterance_nll"] += _entropy(flat)
            totals["verb_nll"] += _entropy(belief.sum(1).reshape(len(belief), -1))
            totals["noun_nll"] += _entropy(nouns)
    return {name: float(total / len(windows.noun)) for name, total in totals.items()}


def _entropy(joint: Float[np.ndarray, "n k"]) -> float:
    """-sum p log p(. | evidence) of rows that sum to the probability of the evidence."""
    total = joint.sum(axis=1, keepdims=True)
    ratio = np.divide(joint, total, out=np.ones_like(joint), where=joint > 0)
    return float(-(joint * np.log(ratio)).sum())


def _outcomes(
    laws: KitchenLaws, grammar: Grammar, modalities: tuple[str, ...]
) -> Iterator[Float[np.ndarray, "1 i v 1"]]:
    """p(evidence | input that the target's noun is of, verb) of everything there may be."""
    options = [_outcomes_of(laws, grammar)[name] for name in modalities]
    grids = np.meshgrid(*(np.arange(len(option)) for option in options), indexing="ij")
    for choice in np.stack([grid.ravel() for grid in grids], axis=1) if options else [()]:
        evidence = np.ones((INPUTS, laws.verbs))
        for option, index in zip(options, choice, strict=True):
            evidence = evidence * option[index]
        yield evidence[None, :, :, None]


def _outcomes_of(laws: KitchenLaws, grammar: Grammar) -> dict[str, list[np.ndarray]]:
    shown = [
        np.where(np.arange(INPUTS) == which, laws.vision_accuracy, _rest(laws.vision_accuracy, 3))
        for which in range(INPUTS)
    ]
    groups = len(grammar.heard)
    heard = [
        np.where(grammar.group == which, laws.audio_accuracy, _rest(laws.audio_accuracy, groups))
        for which in range(groups)
    ]
    # Tags of the three inputs, as bits.
    lists = (np.arange(2**INPUTS)[:, None] >> np.arange(INPUTS)) & 1
    own = np.where(lists, laws.tag_recall, 1 - laws.tag_recall)
    other = np.where(lists, laws.tag_noise, 1 - laws.tag_noise)
    among = np.eye(INPUTS, dtype=bool)
    listed = np.where(among, own[:, None], other[:, None]).prod(axis=2)
    here = 1 - laws.absent
    nothing = np.full((1, 1), laws.absent)
    return {
        "vision": [row[:, None] for row in shown],
        "audio": [here * row[None] for row in heard] + [nothing],
        "tags": [here * row[:, None] for row in listed] + [nothing],
    }


def _rest(accuracy: float, choices: int) -> float:
    return (1 - accuracy) / (choices - 1)
