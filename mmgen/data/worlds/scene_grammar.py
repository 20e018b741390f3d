"""The grammar of `scene_world`: its words, and the distributions that everything is drawn from.

Source: CORRECTIONS F, "scene_world". An image has a topic; its objects are drawn independently
given the topic: a noun, then an adjective and a verb given the noun. A caption mentions the
subject and perhaps the second object; a mention is `determiner [adjective] noun [verb]`.
Which optional words a mention has does not depend on the image.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from mmgen.core.rng import numpy_generator
from mmgen.data.tokenizer import Vocabulary, world_vocabulary
from mmgen.errors import UserError

DETERMINERS = ("the", "a")
PREPOSITIONS = ("near", "behind", "beside", "under")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# In order of frequency; noun i belongs to topic i modulo the number of topics: people, animals,
# traffic, home, food, play.
NOUNS = _words(
    """man dog car table pizza ball
    woman cat bus chair cake kite
    child horse train bed apple bench
    player cow truck sofa banana umbrella
    boy bird boat lamp sandwich surfboard
    girl sheep bicycle clock orange skateboard
    crowd bear plane vase"""
)
ADJECTIVES = _words(
    """red blue green yellow black white big small
    old young wet dirty round broken shiny striped"""
)
VERBS = _words(
    """standing lying moving waiting falling turning
    hanging leaning resting rolling floating shaking"""
)

SUBJECT, SECOND, BACKGROUND = range(3)
"""Roles of an image's objects: the first object is the subject, the second the second mention."""


@dataclasses.dataclass(frozen=True)
class SceneWorldSettings:
    """Everything that decides a built scene_world; the same settings give the same bytes.

    Attributes:
      instances: masked spans of the training split; the other three sizes likewise.
      data_seed: seed of the grammar, the codes and every draw.
      amplitude: length of an atom's code in the latent, whose noise has unit variance; 2.5 is
        hard, 5 easy.
      role_amplitude: length of a role's code; 0 removes roles from features and boxes, and then
        nothing in the image says which object a masked mention refers to.
      topic_purity: 1 - weight of the nouns outside an image's topic; 0 removes topics.
      nouns, adjectives, verbs, topics, max_objects: sizes of the grammar; tasks are the nouns.
      zipf: exponent of the nouns' frequencies.
      typical_adjectives, typical_verbs: p(atom | noun) of the typical atoms of a noun, the most
        typical first; the other atoms share the rest.
      held_out_adjectives, held_out_verbs: number of pairs that only novel images hold.
      latent_dim, feature_dim: size of the latent, and of the feature it is mapped to.
      feature_rms: root mean square of the features.
      vocabulary_rows: rows of the word table; rows without a word are never a target.
    """

    instances: int = 20_000
    validation_items: int = 1_000
    test_items: int = 2_000
    novel_items: int = 500
    data_seed: int = 0
    amplitude: float = 3.5
    role_amplitude: float = 5.0
    topic_purity: float = 0.98
    nouns: int = 40
    adjectives: int = 16
    verbs: int = 12
    topics: int = 6
    max_objects: int = 3
    zipf: float = 1.0
    typical_adjectives: tuple[float, ...] = (0.35, 0.20, 0.15, 0.10)
    typical_verbs: tuple[float, ...] = (0.40, 0.25, 0.15)
    held_out_adjectives: int = 8
    held_out_verbs: int = 4
    captions_per_image: int = 5
    the_probability: float = 0.2
    adjective_probability: float = 0.6
    verb_probability: float = 0.4
    second_probability: float = 0.8
    latent_dim: int = 64
    feature_dim: int = 2048
    feature_rms: float = 1.85
    vocabulary_rows: int = 120

    def __post_init__(self) -> None:
        """Refuse settings that describe no world."""
        atoms = 1 if self.novel_items and not self.held_out_verbs else 0
        for key, (low, high) in {
            "instances": (1, None),
            "validation_items": (0, None),
            "test_items": (1, None),
            "novel_items": (0, None),
            "amplitude": (0, None),
            "role_amplitude": (0, None),
            "topic_purity": (0, 1),
            "topics": (1, None),
            "nouns": (self.topics, len(NOUNS)),
            "adjectives": (len(self.typical_adjectives) + 1, len(ADJECTIVES)),
            "verbs": (len(self.typical_verbs) + 1, len(VERBS)),
            "max_objects": (1, 3),
            "held_out_verbs": (0, self.nouns - 1),
            "held_out_adjectives": (atoms, self.nouns - 1 - self.held_out_verbs),
            "captions_per_image": (1, None),
            "the_probability": (0, 1),
            "adjective_probability": (0, 1),
            "verb_probability": (0, 1),
            "second_probability": (0, 1),
            "latent_dim": (1, None),
            "feature_dim": (self.latent_dim, None),
        }.items():
            value = getattr(self, key)
            if value < low or (high is not None and value > high):
                bound = f"at least {low}" if high is None else f"from {low} to {high}"
                raise UserError(f"scene_world: {key} must be {bound}, not {value}")
        for key in ("typical_adjectives", "typical_verbs"):
            typical = getattr(self, key)
            if sum(typical) > 1 or min(typical, default=0.0) < 0:
                raise UserError(
                    f"scene_world: {key} must be probabilities that sum to at most 1, not {typical}"
                )


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # Seconds instead of minutes, and the same grammar.
    "smoke": {"instances": 640, "validation_items": 64, "test_items": 128, "novel_items": 64},
}


def scene_settings(difficulty: str = "default", **overrides: Any) -> SceneWorldSettings:
    """The settings of a preset with some of them replaced; None keeps the preset's value."""
    if difficulty not in PRESETS:
        raise UserError(f"scene_world has no difficulty {difficulty!r}, only {', '.join(PRESETS)}")
    given = {key: value for key, value in overrides.items() if value is not None}
    return SceneWorldSettings(**(PRESETS[difficulty] | given))


class Pair(NamedTuple):
    """A composition: an adjective or verb with a noun.

    Attributes:
      kind: "adjective" or "verb".
      atom: index of the adjective or verb.
      noun: index of the noun.
    """

    kind: str
    atom: int
    noun: int


class Prior(NamedTuple):
    """What an object may be: every distribution of the generator, rows sum to one.

    `t` topics, `n` nouns, `a` adjectives, `v` verbs.
    """

    topic: Float[np.ndarray, " t"]
    noun: Float[np.ndarray, "t n"]
    adjective: Float[np.ndarray, "n a"]
    verb: Float[np.ndarray, "n v"]

    def noun_marginal(self) -> Float[np.ndarray, " n"]:
        """p(noun) of an object."""
        return self.topic @ self.noun


class Grammar(NamedTuple):
    """The generator's distributions.

    Attributes:
      full: with the held-out pairs; novel images are drawn from it.
      train: held-out pairs zeroed and renormalised; train, validation and test are drawn from it.
      held_out: the held-out pairs, adjectives first.
    """

    full: Prior
    train: Prior
    held_out: tuple[Pair, ...]


def make_grammar(settings: SceneWorldSettings) -> Grammar:
    """Draw the grammar of a world: which atoms are typical of which noun, and what is held out.

    Held out is the most typical adjective or verb of the nouns of rank 2, 3, ...: frequent enough
    to be learned as atoms.
    """
    rng = numpy_generator(settings.data_seed, "scene_world/grammar")
    rank = np.arange(settings.nouns)
    inside = rank % settings.topics == np.arange(settings.topics)[:, None]
    weight = np.where(inside, 1.0, 1 - settings.topic_purity) / (rank + 1.0) ** settings.zipf
    adjective, best_adjective = _typical(
        rng, settings.nouns, settings.adjectives, settings.typical_adjectives
    )
    verb, best_verb = _typical(rng, settings.nouns, settings.verbs, settings.typical_verbs)
    full = Prior(
        topic=np.full(settings.topics, 1 / settings.topics),
        noun=weight / weight.sum(1, keepdims=True),
        adjective=adjective,
        verb=verb,
    )
    nouns = 1 + rng.permutation(settings.held_out_adjectives + settings.held_out_verbs)
    by_adjective, by_verb = np.split(nouns, [settings.held_out_adjectives])
    held_out = tuple(
        Pair(kind, int(best[noun]), int(noun))
        for kind, best, chosen in (
            ("adjective", best_adjective, by_adjective),
            ("verb", best_verb, by_verb),
        )
        for noun in sorted(chosen)
    )
    return Grammar(full, without_pairs(full, held_out), held_out)


def _typical(
    rng: np.random.Generator, nouns: int, atoms: int, typical: tuple[float, ...]
) -> tuple[Float[np.ndarray, "n k"], np.ndarray]:
    rest = (1 - sum(typical)) / (atoms - len(typical))
    by_rank = np.array([*typical, *[rest] * (atoms - len(typical))])
    order = np.argsort(rng.random((nouns, atoms)), axis=1)
    table = np.empty((nouns, atoms))
    np.put_along_axis(table, order, np.broadcast_to(by_rank, order.shape), axis=1)
    return table, order[:, 0]


def without_pairs(prior: Prior, pairs: tuple[Pair, ...]) -> Prior:
    """The prior given that an object is none of `pairs`, each noun's frequency kept."""
    tables = {"adjective": prior.adjective.copy(), "verb": prior.verb.copy()}
    for pair in pairs:
        tables[pair.kind][pair.noun, pair.atom] = 0
    return prior._replace(
        **{kind: table / table.sum(1, keepdims=True) for kind, table in tables.items()}
    )


def memoriser_prior(train: Prior, smoothing: float = 0.002) -> Prior:
    """Prior of a learner that counted compositions: the train prior, a little smoothed."""
    smooth = [table + smoothing for table in (train.adjective, train.verb)]
    adjective, verb = (table / table.sum(1, keepdims=True) for table in smooth)
    return train._replace(adjective=adjective, verb=verb)


def composer_prior(train: Prior) -> Prior:
    """Prior of a learner that counted atoms: adjective and verb do not depend on the noun."""
    noun = train.noun_marginal()
    return train._replace(
        adjective=np.broadcast_to(noun @ train.adjective, train.adjective.shape),
        verb=np.broadcast_to(noun @ train.verb, train.verb.shape),
    )


class Lexicon(NamedTuple):
    """The world's words and where each kind starts, in the vocabulary's order of `words`.

    Attributes:
      words: determiners, nouns, adjectives, verbs, prepositions.
      noun, adjective, verb, preposition: index in `words` of the first of its kind.
    """

    words: tuple[str, ...]
    noun: int
    adjective: int
    verb: int
    preposition: int


def make_lexicon(settings: SceneWorldSettings) -> Lexicon:
    """The words that a world of these sizes uses."""
    kinds = (
        DETERMINERS,
        NOUNS[: settings.nouns],
        ADJECTIVES[: settings.adjectives],
        VERBS[: settings.verbs],
        PREPOSITIONS,
    )
    starts = np.cumsum([len(kind) for kind in kinds])[:-1]
    return Lexicon(sum(kinds, ()), *map(int, starts))


def make_vocabulary(settings: SceneWorldSettings) -> Vocabulary:
    """The world's word-level vocabulary, in the order of the lexicon's words."""
    vocabulary = world_vocabulary(make_lexicon(settings).words)
    rows = max(settings.vocabulary_rows, len(vocabulary))
    return dataclasses.replace(vocabulary, rows=rows)
