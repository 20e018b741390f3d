"""What is known of every item of `scene_world`: exact optima, compositions and their oracles."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmgen.data.worlds.scene_grammar import (
    ADJECTIVES,
    NOUNS,
    VERBS,
    Pair,
    Prior,
    composer_prior,
    memoriser_prior,
)
from mmgen.data.worlds.scene_oracle import (
    Posterior,
    image_posterior,
    text_posterior,
    token_distributions,
    true_token_nll,
)
from mmgen.data.worlds.scene_sampling import Items, SceneWorld, select_items

Modality = Literal["text", "image"]


class PairColumns(NamedTuple):
    """Compositions in the masked spans.

    Attributes:
      pair: index into the list of pairs, -1 without one.
      tokens: positions of its atom and its noun in the caption, -1 without one.
    """

    pair: Int[np.ndarray, " m"]
    tokens: Int[np.ndarray, "m 2"]


def oracle(
    world: SceneWorld, split: str, modalities: Sequence[Modality] = ("text", "image")
) -> Posterior:
    """Exact posterior of the masked object of every item, given text, or text and image.

    The prior is the generator's: of novel images, the full one, which gives the held-out pairs
    their probability. It is not told that each of these images holds one.
    """
    scenes, items = world.splits[split]
    prior = world.grammar.full if split == "novel" else world.grammar.train
    if "image" not in modalities:
        return text_posterior(prior, world.lexicon, items)
    return image_posterior(world.settings, prior, world.codes, world.lexicon, scenes, items)


def optimum(
    world: SceneWorld, split: str, modalities: Sequence[Modality] = ("text", "image")
) -> Float[np.ndarray, " m"]:
    """Exact optimal loss of every item: nats, mean over its masked tokens.

    Each masked token by itself, as the models predict them.
    """
    _, items = world.splits[split]
    nll = _token_nll(world, items, oracle(world, split, modalities))
    return nll.sum(1) / items.lengths()


def _token_nll(world: SceneWorld, items: Items, posterior: Posterior) -> Float[np.ndarray, "m 4"]:
    distributions = token_distributions(world.settings, world.lexicon, items, posterior)
    return true_token_nll(items, distributions)


def item_oracles(
    world: SceneWorld, split: str, marked: PairColumns
) -> dict[str, Float[np.ndarray, " m"]]:
    """Every known loss of a split's items: optima per item, oracles at the atom of its pair.

    The oracles have the same eyes and differ in what they believe of compositions: the memoriser
    counted them in train, the composer counted atoms, the true prior is the generator's with the
    held-out pairs.
    """
    train = world.grammar.train
    beliefs = {
        "memoriser": memoriser_prior(train),
        "composer": composer_prior(train),
        "true_prior": world.grammar.full,
    }
    optima = {
        "optimum": optimum(world, split),
        "optimum_text_only": optimum(world, split, ("text",)),
    }
    atoms = {name: _atom_nll(world, split, marked, prior) for name, prior in beliefs.items()}
    return optima | atoms


def _atom_nll(
    world: SceneWorld, split: str, marked: PairColumns, prior: Prior
) -> Float[np.ndarray, " m"]:
    # Loss at the adjective or verb of an item's pair; nan without a pair.
    scenes, items = world.splits[split]
    rows = np.flatnonzero(marked.pair >= 0)
    result = np.full(len(marked.pair), np.nan)
    if len(rows):
        some = select_items(items, rows)
        posterior = image_posterior(world.settings, prior, world.codes, world.lexicon, scenes, some)
        position = marked.tokens[rows, 0] - items.spans()[rows, 0]
        result[rows] = _token_nll(world, some, posterior)[np.arange(len(rows)), position]
    return result


def summarise(
    oracles: dict[str, Float[np.ndarray, " m"]],
    marked: PairColumns,
    pairs: Sequence[dict[str, Any]],
) -> dict[str, float]:
    """Expected scores of a split: mean optima, and each oracle's mean over pairs by their kind."""
    means = {name: float(oracles[name].mean()) for name in ("optimum", "optimum_text_only")}
    for kind in ("adjective", "verb"):
        present = [
            marked.pair == index
            for index, pair in enumerate(pairs)
            if pair["kind"] == kind and np.any(marked.pair == index)
        ]
        if present:
            for name in ("memoriser", "composer", "true_prior"):
                per_pair = [oracles[name][rows].mean() for rows in present]
                means[f"{kind}/{name}"] = float(np.mean(per_pair))
    return {name: round(value, 6) for name, value in means.items()}


def find_pairs(
    world: SceneWorld,
) -> tuple[list[dict[str, Any]], dict[str, PairColumns]]:
    """The manifest's pairs, held-out ones first, and the columns of every split.

    Seen pairs are the other combinations of the held-out pairs' atoms and nouns, adjectives and
    verbs apart, that occur in train; so no span holds a pair of each kind. The novel split is
    marked with held-out pairs only, the others can hold none.
    """
    held_out = world.grammar.held_out
    candidates = [
        Pair(kind, atom, noun)
        for kind in ("adjective", "verb")
        for atom in sorted({pair.atom for pair in held_out if pair.kind == kind})
        for noun in sorted({pair.noun for pair in held_out if pair.kind == kind})
    ]
    train = _columns(world, "train", candidates)
    counts = np.bincount(train.pair[train.pair >= 0], minlength=len(candidates))
    count_of = dict(zip(candidates, counts.tolist(), strict=True))
    seen = tuple(pair for pair in candidates if count_of[pair] and pair not in held_out)
    pairs = (*held_out, *seen)
    facts = [
        _describe(pair) | {"novel": pair in held_out, "train_count": count_of[pair]}
        for pair in pairs
    ]
    marked = {
        split: _columns(world, split, held_out if split == "novel" else pairs)
        for split in world.splits
    }
    return facts, marked


def _describe(pair: Pair) -> dict[str, Any]:
    atom = (ADJECTIVES if pair.kind == "adjective" else VERBS)[pair.atom]
    noun = NOUNS[pair.noun]
    return {"name": f"{atom}_{noun}", "atom": atom, "noun": noun, "kind": pair.kind}


def _columns(world: SceneWorld, split: str, pairs: Sequence[Pair]) -> PairColumns:
    _, items = world.splits[split]
    words, present = items.mention_words(items.mention)
    positions = items.spans()[:, :1] + np.cumsum(present, axis=1) - 1
    pair = np.full(len(words), -1)
    tokens = np.full((len(words), 2), -1)
    first = {"adjective": (1, world.lexicon.adjective), "verb": (3, world.lexicon.verb)}
    for index, (kind, atom, noun) in enumerate(pairs):
        slot, start = first[kind]
        found = present[:, slot] & (words[:, slot] == start + atom)
        found &= words[:, 2] == world.lexicon.noun + noun
        pair[found] = index
        tokens[found] = positions[found][:, [slot, 2]]
    return PairColumns(pair, tokens)
