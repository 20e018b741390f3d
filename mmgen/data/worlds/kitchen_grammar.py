"""The laws of `kitchen_world`: what is done next, to what, and what can be seen and heard of it.

Source: CORRECTIONS F, "kitchen_world". Clips of a video follow each other. Where the last three
are about three different nouns, the next is about one of them: the first, second or third with
probabilities `pointer`; otherwise about a new one. Its verb depends on that noun's type and on the
last verb. Each clip shows what comes *next*: vision the noun, audio the verb's sound group, tags
the nouns in reach.

`n` windows, `i` their three input nouns, `v` verb classes, `f` the three strings of a class.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmgen.core.rng import numpy_generator
from mmgen.data.worlds.kitchen_words import FORMS, NOUNS, SOUND_GROUPS, VERBS
from mmgen.errors import UserError

MODALITIES = ("vision", "audio", "tags")

MODALITY_SETS: dict[str, tuple[str, ...]] = {
    "L": (),
    "OL": ("tags",),
    "VL": ("vision",),
    "AL": ("audio",),
    "OAL": ("tags", "audio"),
    "AVL": ("vision", "audio"),
}
"""Name of a system in the paper -> modalities that it sees besides the text."""


@dataclasses.dataclass(frozen=True)
class KitchenLaws:
    """Everything that decides the laws; part of the world's settings.

    Attributes:
      grammar_seed: draws which type allows which verbs, transitions and codes. It is not the data
        seed: worlds of all data seeds have one optimum. Over grammars the optimal CA has a standard
        deviation of .01 to .02; the default, chosen by search over several hundred seeds, has the
        figures of the specification within .01, but for the verb CA of AL (.633 instead of .62).
      nouns, verbs, types: classes of nouns and verbs; noun of rank r is of type r modulo `types`.
      zipf: exponent of the frequency of new nouns.
      affordances: p(verb | type) of the verbs that a type allows, the most typical first.
      other_verbs: p(verb | type) of every other verb.
      transition: scale s of exp(s N(0, 1)), by which the last verb weights the next.
      self_transition: weight of doing the same again.
      pointer: p(the next noun is that of the first, second, third input).
      vision_accuracy, audio_accuracy: probability that a clip shows the noun, lets hear the sound
        group, that comes next; otherwise another of the last three nouns, another group.
      tag_recall: probability that the tags list the noun that comes next.
      tag_noise: and each other one of the last three.
      absent: share of clips without audio, and of clips without tags.
      feature_dim: size of a code; entries of codes are N(0, 1).
      noise: standard deviation of what is added to a code.
    """

    grammar_seed: int = 69
    nouns: int = 30
    verbs: int = 20
    types: int = 5
    zipf: float = 1.0
    affordances: tuple[float, ...] = (0.34, 0.20, 0.14, 0.10, 0.08, 0.06, 0.05, 0.03)
    other_verbs: float = 1e-4
    transition: float = 0.8
    self_transition: float = 0.05
    pointer: tuple[float, ...] = (0.15, 0.25, 0.60)
    vision_accuracy: float = 0.9
    audio_accuracy: float = 0.9
    tag_recall: float = 0.95
    tag_noise: float = 0.5
    absent: float = 0.01
    feature_dim: int = 64
    noise: float = 0.5

    def __post_init__(self) -> None:
        """Refuse settings that describe no world."""
        for key, (low, high) in {
            "grammar_seed": (0, None),
            "nouns": (7, len(NOUNS)),
            "verbs": (len(self.affordances), len(VERBS)),
            "types": (1, self.nouns),
            "other_verbs": (1e-9, None),
            "transition": (0, None),
            "self_transition": (0, None),
            "vision_accuracy": (0, 1),
            "audio_accuracy": (0, 1),
            "tag_recall": (0, 1),
            "tag_noise": (0, 1),
            "absent": (0, 0.99),
            "feature_dim": (1, None),
            "noise": (1e-3, None),
        }.items():
            value = getattr(self, key)
            if value < low or (high is not None and value > high):
                bound = f"at least {low}" if high is None else f"from {low} to {high}"
                raise UserError(f"kitchen_world: {key} must be {bound}, not {value}")
        if len(self.pointer) != 3 or min(self.pointer) < 0 or abs(sum(self.pointer) - 1) > 1e-6:
            raise UserError(
                f"kitchen_world: pointer must be three probabilities that sum to 1, not "
                f"{self.pointer}"
            )
        if min(self.affordances, default=0) <= 0:
            raise UserError("kitchen_world: affordances must be probabilities above 0")


class Grammar(NamedTuple):
    """The generator's distributions.

    Attributes:
      noun: p(new noun).
      affordance: p(verb | noun) before the last verb is taken into account, rows sum to one.
      transition: weight of verb (column) after verb (row).
      group: sound group of every verb.
      seen: codes of nouns, for vision.
      heard: codes of sound groups.
    """

    noun: Float[np.ndarray, " k"]
    affordance: Float[np.ndarray, "k v"]
    transition: Float[np.ndarray, "v v"]
    group: Int[np.ndarray, " v"]
    seen: Float[np.ndarray, "k d"]
    heard: Float[np.ndarray, "g d"]


def make_grammar(laws: KitchenLaws) -> Grammar:
    """Draw a world's grammar."""
    rng = numpy_generator(laws.grammar_seed, "kitchen_world/grammar")
    by_type = np.full((laws.types, laws.verbs), laws.other_verbs)
    for row in by_type:
        row[rng.permutation(laws.verbs)[: len(laws.affordances)]] = laws.affordances
    transition = np.exp(laws.transition * rng.normal(size=(laws.verbs, laws.verbs)))
    np.fill_diagonal(transition, laws.self_transition)
    affordance = by_type[np.arange(laws.nouns) % laws.types]
    noun = 1 / np.arange(1, laws.nouns + 1) ** laws.zipf
    groups = len(SOUND_GROUPS)
    return Grammar(
        noun=noun / noun.sum(),
        affordance=affordance / affordance.sum(1, keepdims=True),
        transition=transition,
        # Groups of four in the order of the words.
        group=np.arange(laws.verbs) * groups // len(VERBS),
        seen=rng.normal(size=(laws.nouns, laws.feature_dim)),
        heard=rng.normal(size=(groups, laws.feature_dim)),
    )


def verb_law(
    grammar: Grammar,
    noun: Int[np.ndarray, " n"],
    last: Int[np.ndarray, " n"] | None,
    done: Int[np.ndarray, "n 2"] | None = None,
) -> Float[np.ndarray, "n v f"]:
    """p(verb, its string | noun, last verb).

    Args:
      grammar: the world's.
      noun: nouns that something is done to.
      last: verb classes of the clips before, None at the beginning of a video.
      done: verb class and string of the clip that mentioned the noun: an action is not done again.
    """
    weight = grammar.affordance[noun]
    if last is not None:
        weight = weight * grammar.transition[last]
    law = weight[:, :, None] * np.array(FORMS)
    if done is not None:
        law[np.arange(len(law)), done[:, 0], done[:, 1]] = 0
    return law / law.sum(axis=(1, 2), keepdims=True)
