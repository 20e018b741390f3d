"""Exact posteriors of `kitchen_world`: the target of a window, given its inputs.

Nothing in it is approximated. The three inputs decide the law of the target (`verb_law`, and which
input its noun is of); of features only those of the third clip say more, for what the first two
clips show is what the text tells of the next clip. An absent feature says nothing.

`n` windows, `i` which input the target's noun is of, `v` verb classes, `f` strings of a class.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.data.worlds.kitchen_grammar import MODALITIES, Grammar, KitchenLaws, verb_law
from mmgen.data.worlds.kitchen_sampling import INPUTS, KitchenWorld
from mmgen.data.worlds.kitchen_words import FORMS

Posterior = Float[np.ndarray, "n i v f"]

MEMORISER_SMOOTHING = 1e-4
"""What a pair that is no target of train is given, as p(verb | noun) before normalisation."""


class Windows(NamedTuple):
    """Inputs and targets of windows.

    Attributes:
      noun, verb, verb_form: classes and strings of the three inputs.
      vision, audio, tags: features of the third clip as a model sees them.
      present: [n, 3], whether it has each of `MODALITIES`.
      target: input whose noun the target has, its verb class and the verb's string.
    """

    noun: Int[np.ndarray, "n 3"]
    verb: Int[np.ndarray, "n 3"]
    verb_form: Int[np.ndarray, "n 3"]
    vision: Float[np.ndarray, "n d"]
    audio: Float[np.ndarray, "n d"]
    tags: Bool[np.ndarray, "n k"]
    present: Bool[np.ndarray, "n 3"]
    target: Int[np.ndarray, "n 3"]

    def take(self, rows: np.ndarray | slice) -> "Windows":
        """Some of them."""
        return Windows(*(values[rows] for values in self))


def windows_of(world: KitchenWorld, rows: Int[np.ndarray, "n 4"]) -> Windows:
    """Windows as rows of the world's clips; a target must have the noun of one input."""
    clips, inputs, target = world.clips, rows[:, :INPUTS], rows[:, INPUTS]
    last = inputs[:, -1]
    same = clips.noun[inputs] == clips.noun[target][:, None]
    if not (same.sum(axis=1) == 1).all():
        raise ValueError("a window's target has the noun of none or several of its inputs")
    present = np.stack(
        [np.ones(len(rows), bool), clips.has_audio[last], clips.has_tags[last]], axis=1
    )
    return Windows(
        noun=clips.noun[inputs],
        verb=clips.verb[inputs],
        verb_form=clips.verb_form[inputs],
        vision=world.features.vision[last].astype(np.float64),
        audio=world.features.audio[last].astype(np.float64),
        tags=world.features.tags[last] > 0.5,
        present=present,
        target=np.stack([same.argmax(axis=1), clips.verb[target], clips.verb_form[target]], axis=1),
    )


def text_law(laws: KitchenLaws, grammar: Grammar, windows: Windows) -> Posterior:
    """Posterior given the three narrations alone: the composer's belief."""
    return np.stack(
        [
            share
            * verb_law(
                grammar,
                windows.noun[:, place],
                windows.verb[:, -1],
                np.stack([windows.verb[:, place], windows.verb_form[:, place]], axis=1),
            )
            for place, share in enumerate(laws.pointer)
        ],
        axis=1,
    )


def memoriser_law(
    laws: KitchenLaws, windows: Windows, counts: Float[np.ndarray, "k v"]
) -> Posterior:
    """The same for one who counted the targets of train: p(verb | noun) is its share there.

    Args:
      laws: of the world.
      windows: to judge.
      counts: target (noun, verb) classes of train, see `target_counts`.
    """
    belief = counts / np.maximum(counts.sum(1, keepdims=True), 1) + MEMORISER_SMOOTHING
    belief = belief / belief.sum(1, keepdims=True)
    by_noun = belief[windows.noun][..., None] * np.array(FORMS)
    return np.array(laws.pointer)[:, None, None] * by_noun


def target_counts(laws: KitchenLaws, train: Windows) -> Float[np.ndarray, "k v"]:
    """How often each (noun, verb) of classes is a target."""
    counts = np.zeros((laws.nouns, laws.verbs))
    place, verb, _ = train.target.T
    np.add.at(counts, (train.noun[np.arange(len(place)), place], verb), 1)
    return counts


def posterior(
    laws: KitchenLaws,
    grammar: Grammar,
    windows: Windows,
    modalities: Sequence[str],
    law: Posterior | None = None,
) -> Posterior:
    """Exact posterior of the target given the narrations and some modalities of the third clip.

    Args:
      laws: of the world.
      grammar: of the world.
      windows: inputs.
      modalities: some of `MODALITIES`.
      law: belief before anything is seen or heard; default `text_law`.
    """
    belief = text_law(laws, grammar, windows) if law is None else law
    for name in modalities:
        likelihood = _LIKELIHOOD[name](laws, grammar, windows)
        here = windows.present[:, MODALITIES.index(name)]
        belief = belief * np.where(here[:, None, None, None], likelihood, 1.0)
    return belief / belief.sum(axis=(1, 2, 3), keepdims=True)


def _vision(laws: KitchenLaws, grammar: Grammar, windows: Windows) -> np.ndarray:
    near = _density(windows.vision, grammar.seen[windows.noun], laws.noise)
    # The other nouns in reach are shown alike.
    wrong = (near.sum(1, keepdims=True) - near) / (INPUTS - 1)
    right = laws.vision_accuracy
    return (right * near + (1 - right) * wrong)[:, :, None, None]


def _audio(laws: KitchenLaws, grammar: Grammar, windows: Windows) -> np.ndarray:
    near = _density(windows.audio, grammar.heard, laws.noise)
    wrong = (near.sum(1, keepdims=True) - near) / (near.shape[1] - 1)
    right = laws.audio_accuracy
    return (right * near + (1 - right) * wrong)[:, grammar.group][:, None, :, None]


def _tags(laws: KitchenLaws, grammar: Grammar, windows: Windows) -> np.ndarray:
    listed = np.take_along_axis(windows.tags, windows.noun, axis=1)
    own = np.where(listed, laws.tag_recall, 1 - laws.tag_recall)
    other = np.where(listed, laws.tag_noise, 1 - laws.tag_noise)
    among = np.eye(INPUTS, dtype=bool)
    return np.where(among, own[:, None], other[:, None]).prod(axis=2)[:, :, None, None]


_LIKELIHOOD = {"vision": _vision, "audio": _audio, "tags": _tags}


def _density(
    value: Float[np.ndarray, "n d"], codes: np.ndarray, noise: float
) -> Float[np.ndarray, "n k"]:
    """Gaussian density around each code, up to a factor of the window's own.

    `codes` is [k, d], or [n, k, d] for codes of every window.
    """
    away = ((value[:, None] - codes) ** 2).sum(axis=-1) / (2 * noise**2)
    return np.exp(away.min(axis=1, keepdims=True) - away)
