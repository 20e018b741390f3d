"""Exact posteriors of `scene_world`: what a masked mention says, given all that can be seen.

The model, nothing in it approximated. The object of the masked mention has the role that the
mention's place in the caption gives: first mention = subject, second = second object. Given the
topic, objects are independent; the slots of the features are a uniform permutation of the roles;
a slot's latent is Gaussian around the sum of its codes. Seen are: every other word of the caption
(the other mention fixes the atoms it names, and its noun informs about the topic), the number of
masked tokens (which leaves the templates of that length, in prior proportion, because the choice
of template does not depend on the image) and the features. Summed over: topics, all permutations
of slots, atoms that no visible word names, templates. Boxes are not looked at: the released
models ignore them, and the roles they tell are in the features.

`m` items, `i` images, `s` slots, `r` roles, `t` topics, `n a v` atoms, `j` masked positions.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mmgen.data.worlds.scene_grammar import Lexicon, Prior, SceneWorldSettings
from mmgen.data.worlds.scene_sampling import MENTION, Codes, Items, Scenes, images_of, items_of

CHUNK = 256
"""Images whose posteriors are computed at once, which bounds memory to some 100 MB."""


class Posterior(NamedTuple):
    """Marginal posteriors of the masked object's atoms; rows sum to one."""

    noun: Float[np.ndarray, "m n"]
    adjective: Float[np.ndarray, "m a"]
    verb: Float[np.ndarray, "m v"]


class Evidence(NamedTuple):
    """p(slot, adjective, verb | role, noun), summed over the atoms that are not an axis.

    A slot's rows are known up to a factor of their own, which cancels in every posterior. The
    likelihood of all atoms at once is the product of `factors` and `coupling`.
    """

    noun: Float[np.ndarray, "i s r n"]
    adjective: Float[np.ndarray, "i s r n a"]
    verb: Float[np.ndarray, "i s r n v"]
    factors: tuple[np.ndarray, ...]
    coupling: Float[np.ndarray, "r n a v"]


def image_posterior(
    settings: SceneWorldSettings,
    prior: Prior,
    codes: Codes,
    lexicon: Lexicon,
    scenes: Scenes,
    items: Items,
) -> Posterior:
    """Posterior of each item's masked object given visible words and the image's features."""
    parts = []
    for start in range(0, len(scenes.objects), CHUNK):
        images = np.arange(start, min(start + CHUNK, len(scenes.objects)))
        some = items_of(items, images)
        if len(some.image):
            evidence = _evidence(settings, prior, codes, images_of(scenes, images).latent)
            local = some._replace(image=some.image - start)
            count = scenes.objects[images]
            parts.append(_posterior(prior, lexicon, evidence, count, local))
    return Posterior(*map(np.concatenate, zip(*parts, strict=True)))


def text_posterior(prior: Prior, lexicon: Lexicon, items: Items) -> Posterior:
    """Posterior of each item's masked object given the visible words alone.

    They inform about the topic, through the noun of the other mention.
    """
    noun, _, _ = _visible_atoms(lexicon, items)
    seen = np.where(noun[:, None] >= 0, prior.noun.T[noun], 1.0)
    joint = (prior.topic * seen) @ prior.noun
    masked = joint / joint.sum(1, keepdims=True)
    return Posterior(masked, masked @ prior.adjective, masked @ prior.verb)


def _evidence(
    settings: SceneWorldSettings,
    prior: Prior,
    codes: Codes,
    latent: Float[np.ndarray, "i s l"],
) -> Evidence:
    # log N(x; mu) = x . mu - |mu|^2 / 2 + (terms of x): the first part is a sum over the codes,
    # so the likelihood is a product of four factors and a constant coupling of the atoms.
    role = settings.role_amplitude * codes.role[: settings.max_objects]
    noun, adjective, verb = (settings.amplitude * code for code in codes[:3])
    factors = tuple(_factor(latent @ code.T) for code in (role, noun, adjective, verb))
    mean = (
        role[:, None, None, None]
        + noun[:, None, None]
        + adjective[:, None]
        + verb  # [r, n, a, v, l]
    )
    norm = 0.5 * np.square(mean).sum(-1)
    coupling = np.exp(norm.min() - norm)
    coupling *= prior.adjective[:, :, None] * prior.verb[:, None, :]
    by_role, by_noun, by_adjective, by_verb = factors
    outer = by_role[..., :, None] * by_noun[..., None, :]
    over_verbs = np.tensordot(by_verb, coupling, axes=(-1, 3))
    over_adjectives = np.tensordot(by_adjective, coupling, axes=(-1, 2))
    for_adjective = outer[..., None] * over_verbs * by_adjective[..., None, None, :]
    for_verb = outer[..., None] * over_adjectives * by_verb[..., None, None, :]
    return Evidence(for_adjective.sum(-1), for_adjective, for_verb, factors, coupling)


def _factor(exponent: Float[np.ndarray, "i s k"]) -> Float[np.ndarray, "i s k"]:
    return np.exp(exponent - exponent.max(-1, keepdims=True))


def _visible_atoms(lexicon: Lexicon, items: Items) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # Noun, adjective and verb that the other mention names, -1 where it does not.
    words, present = items.mention_words(1 - items.mention)
    kinds = ((2, lexicon.noun), (1, lexicon.adjective), (3, lexicon.verb))
    noun, adjective, verb = (
        np.where(present[:, slot], words[:, slot] - first, -1) for slot, first in kinds
    )
    return noun, adjective, verb


def _posterior(
    prior: Prior, lexicon: Lexicon, evidence: Evidence, count: np.ndarray, items: Items
) -> Posterior:
    slot_role = _slot_role_evidence(prior, lexicon, evidence, count, items)
    weight = np.zeros(slot_role.shape[:2] + prior.topic.shape)  # [m, s, t]
    item = np.arange(len(items.mention))
    roles = slot_role.shape[2]
    for slots in itertools.permutations(range(roles)):
        term = np.broadcast_to(prior.topic, (len(item), len(prior.topic)))
        for role, slot in enumerate(slots):
            masked = (items.mention == role)[:, None]
            term = term * np.where(masked, 1.0, slot_role[:, slot, role])
        weight[item, np.array(slots)[items.mention]] += term
    by_noun = weight @ prior.noun
    masked_at = (items.image, slice(None), items.mention)
    # Advanced indices around a slice: numpy puts the items first.
    parts = (
        np.einsum("msn,msn->mn", by_noun, evidence.noun[masked_at]),
        np.einsum("msn,msna->ma", by_noun, evidence.adjective[masked_at]),
        np.einsum("msn,msnv->mv", by_noun, evidence.verb[masked_at]),
    )
    return Posterior(*(part / part.sum(1, keepdims=True) for part in parts))


def _slot_role_evidence(
    prior: Prior, lexicon: Lexicon, evidence: Evidence, count: np.ndarray, items: Items
) -> Float[np.ndarray, "m s r t"]:
    """p(slot | role, topic) of the objects that are not masked, given the visible words.

    Roles that an image lacks sit in the slots that it lacks, so that the permutations of all
    slots are those of its own objects.
    """
    unmentioned = evidence.noun @ prior.noun.T  # [i, s, r, t]
    result = unmentioned[items.image]
    noun, adjective, verb = _visible_atoms(lexicon, items)
    seen = np.flatnonzero(noun >= 0)
    named = _named_evidence(
        evidence,
        items.image[seen],
        1 - items.mention[seen],
        noun[seen],
        adjective[seen],
        verb[seen],
    )
    result[seen, :, 1 - items.mention[seen]] = (
        named[:, :, None] * prior.noun[:, noun[seen]].T[:, None, :]
    )
    slots = np.arange(result.shape[1])
    real = slots < count[items.image][:, None]
    both = real[:, :, None] & real[:, None, :]
    neither = ~real[:, :, None] & ~real[:, None, :] & np.eye(len(slots), dtype=bool)
    return np.where(both[..., None], result, neither[..., None].astype(float))


def _named_evidence(
    evidence: Evidence,
    image: np.ndarray,
    role: np.ndarray,
    noun: np.ndarray,
    adjective: np.ndarray,
    verb: np.ndarray,
) -> Float[np.ndarray, "m s"]:
    # Evidence of every slot for an object of known noun, its other atoms known where >= 0.
    by_role, by_noun, by_adjective, by_verb = evidence.factors
    every = slice(None)
    all_atoms = (
        by_role[image, every, role]
        * by_noun[image, every, noun]
        * by_adjective[image, every, adjective]
        * by_verb[image, every, verb]
        * evidence.coupling[role, noun, adjective, verb][:, None]
    )
    with_adjective = evidence.adjective[image, every, role, noun, adjective]
    with_verb = evidence.verb[image, every, role, noun, verb]
    neither = evidence.noun[image, every, role, noun]
    has_adjective, has_verb = (adjective >= 0)[:, None], (verb >= 0)[:, None]
    return np.where(
        has_adjective,
        np.where(has_verb, all_atoms, with_adjective),
        np.where(has_verb, with_verb, neither),
    )


def token_distributions(
    settings: SceneWorldSettings, lexicon: Lexicon, items: Items, posterior: Posterior
) -> Float[np.ndarray, "m 4 k"]:
    """p(word) at every masked position by itself, given all that is seen; zero past the span.

    `k` runs over the lexicon up to its prepositions, which no mention holds.
    """
    the = settings.the_probability
    determiner = np.broadcast_to([the, 1 - the], (len(items.mention), 2))
    kinds = (
        (determiner, 0),
        (posterior.adjective, lexicon.adjective),
        (posterior.noun, lexicon.noun),
        (posterior.verb, lexicon.verb),
    )
    length = items.mention_words(items.mention)[1].sum(1)
    result = np.zeros((len(length), MENTION, lexicon.preposition))
    for total, template, weight in _templates(settings):
        rows = length == total
        for position, slot in enumerate(template):
            table, first = kinds[slot]
            columns = slice(first, first + table.shape[1])
            result[rows, position, columns] += weight * table[rows]
    return result


def _templates(settings: SceneWorldSettings) -> list[tuple[int, list[int], float]]:
    # (length, slots of the layout, probability given the length).
    templates = []
    for has_adjective, has_verb in itertools.product((False, True), repeat=2):
        slots = [0, *([1] if has_adjective else []), 2, *([3] if has_verb else [])]
        adjective = settings.adjective_probability
        verb = settings.verb_probability
        probability = (adjective if has_adjective else 1 - adjective) * (
            verb if has_verb else 1 - verb
        )
        if probability:
            templates.append((len(slots), slots, probability))
    total = {
        length: sum(p for size, _, p in templates if size == length) for length, _, _ in templates
    }
    return [(length, slots, p / total[length]) for length, slots, p in templates]


def true_token_nll(
    items: Items, distributions: Float[np.ndarray, "m 4 k"]
) -> Float[np.ndarray, "m 4"]:
    """-log p of the true word at every masked position, zero past the span."""
    words, present = items.mention_words(items.mention)
    # Stable sort: the words that are there first, in order.
    order = np.argsort(~present, axis=1, kind="stable")
    words, present = (np.take_along_axis(array, order, axis=1) for array in (words, present))
    picked = np.take_along_axis(distributions, words[..., None] * present[..., None], axis=2)
    return np.where(present, -np.log(np.where(present, picked[..., 0], 1.0)), 0.0)


def entropy(distributions: Float[np.ndarray, "m 4 k"]) -> Float[np.ndarray, "m 4"]:
    """Entropy in nats of every masked position, zero past the span."""
    safe = np.where(distributions > 0, distributions, 1.0)
    return -(distributions * np.log(safe)).sum(-1)
