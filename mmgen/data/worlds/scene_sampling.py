"""Draws of `scene_world`: images with features, captions, and the spans that are masked.

Everything is an array over images, captions or items; padded object slots are zero.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.core.rng import numpy_generator
from mmgen.data.worlds.scene_grammar import (
    PREPOSITIONS,
    SECOND,
    SUBJECT,
    Grammar,
    Lexicon,
    Prior,
    SceneWorldSettings,
    make_grammar,
    make_lexicon,
)

MENTION = 4
"""Slots of a mention in a caption's layout: determiner, adjective, noun, verb."""
LAYOUT = 2 * MENTION + 1
"""Slots of a caption: mention of the subject, preposition, mention of the second object."""

ROLE_AREAS = ((0.35, 0.65), (0.15, 0.40), (0.05, 0.20))
"""Share of the image that the box of a subject, second and background object covers."""
ANY_AREA = (0.05, 0.65)
"""Share that a box covers when roles are switched off."""


class Codes(NamedTuple):
    """What atoms and roles look like: unit vectors in the latent, `l` dimensions.

    Attributes:
      noun, adjective, verb, role: one row per atom or role.
      projection: from latent to feature: orthonormal rows, times the scale that brings features
        to the root mean square of real ones.
    """

    noun: Float[np.ndarray, "n l"]
    adjective: Float[np.ndarray, "a l"]
    verb: Float[np.ndarray, "v l"]
    role: Float[np.ndarray, "3 l"]
    projection: Float[np.ndarray, "l d"]


class Scenes(NamedTuple):
    """Images: `i` images, `o` objects. Objects stand by role, features by (shuffled) slot.

    Attributes:
      topic: topic of an image.
      objects: number of objects.
      noun, adjective, verb: atoms of the object in each role.
      role: role of the object in each slot.
      latent: what each slot shows.
      boxes: x1, y1, x2, y2 in [0, 1] of each slot.
    """

    topic: Int[np.ndarray, " i"]
    objects: Int[np.ndarray, " i"]
    noun: Int[np.ndarray, "i o"]
    adjective: Int[np.ndarray, "i o"]
    verb: Int[np.ndarray, "i o"]
    role: Int[np.ndarray, "i o"]
    latent: Float[np.ndarray, "i o l"]
    boxes: Float[np.ndarray, "i o 4"]


class Items(NamedTuple):
    """Captions `c` and masked spans `m`, in the order image, caption, mention.

    Attributes:
      words: index of every word of a caption's layout in the lexicon.
      present: which slots of the layout the caption has.
      caption_image: image of each caption.
      caption: caption of each item.
      image: image of each item.
      mention: which mention is masked, SUBJECT or SECOND; also the role of its object.
    """

    words: Int[np.ndarray, "c 9"]
    present: Bool[np.ndarray, "c 9"]
    caption_image: Int[np.ndarray, " c"]
    caption: Int[np.ndarray, " m"]
    image: Int[np.ndarray, " m"]
    mention: Int[np.ndarray, " m"]

    def mention_words(
        self, mention: Int[np.ndarray, " m"]
    ) -> tuple[Int[np.ndarray, "m 4"], Bool[np.ndarray, "m 4"]]:
        """Determiner, adjective, noun, verb of a mention of each item's caption; which it has."""
        columns = (MENTION + 1) * mention[:, None] + np.arange(MENTION)
        where = (self.caption[:, None], columns)
        return self.words[where], self.present[where]

    def lengths(self) -> Int[np.ndarray, " m"]:
        """Masked tokens of each item."""
        return self.mention_words(self.mention)[1].sum(1)

    def spans(self) -> Int[np.ndarray, "m 2"]:
        """Half-open spans of the masked mentions over the caption's tokens."""
        before = np.where(self.mention == SUBJECT, 0, MENTION + 1)[:, None] > np.arange(LAYOUT)
        start = (self.present[self.caption] & before).sum(1)
        return np.stack([start, start + self.lengths()], axis=1)


class SceneWorld(NamedTuple):
    """A world in memory.

    Attributes:
      settings: what it was made from.
      grammar, codes, lexicon: what its draws come from.
      splits: name -> images and items; no two share an image.
    """

    settings: SceneWorldSettings
    grammar: Grammar
    codes: Codes
    lexicon: Lexicon
    splits: dict[str, tuple[Scenes, Items]]


def make_scene_world(settings: SceneWorldSettings) -> SceneWorld:
    """Draw a world: pure, and seeded by `settings.data_seed`. Splits of size 0 are left out."""
    grammar, codes = make_grammar(settings), make_codes(settings)
    lexicon = make_lexicon(settings)
    sizes = {
        "train": settings.instances,
        "validation": settings.validation_items,
        "test": settings.test_items,
        "novel": settings.novel_items,
    }
    splits = {}
    for split, size in sizes.items():
        if size:
            rng = numpy_generator(settings.data_seed, f"scene_world/{split}")
            # Every caption has a mention of the subject, so these images are enough.
            images = -(-size // settings.captions_per_image)
            novel = split == "novel"
            scenes = sample_scenes(settings, grammar, codes, images, rng, novel=novel)
            splits[split] = sample_items(settings, lexicon, scenes, size, rng)
    return SceneWorld(settings, grammar, codes, lexicon, splits)


def make_codes(settings: SceneWorldSettings) -> Codes:
    """Codes of a world and its map from latents to features."""
    rng = numpy_generator(settings.data_seed, "scene_world/codes")
    sizes = (settings.nouns, settings.adjectives, settings.verbs, 3)
    codes = [rng.standard_normal((size, settings.latent_dim)) for size in sizes]
    noun, adjective, verb, role = (
        code / np.linalg.norm(code, axis=1, keepdims=True) for code in codes
    )
    basis, _ = np.linalg.qr(rng.standard_normal((settings.feature_dim, settings.latent_dim)))
    expected = 3 * settings.amplitude**2 + settings.role_amplitude**2 + settings.latent_dim
    scale = settings.feature_rms * np.sqrt(settings.feature_dim / expected)
    return Codes(noun, adjective, verb, role, projection=basis.T * scale)


def sample_scenes(
    settings: SceneWorldSettings,
    grammar: Grammar,
    codes: Codes,
    images: int,
    rng: np.random.Generator,
    *,
    novel: bool,
) -> Scenes:
    """Draw `images` images; every novel one holds one held-out pair, others none."""
    prior = grammar.train
    count = rng.integers(1, settings.max_objects + 1, size=images)
    pair = _choose_pairs(rng, grammar, count) if novel else None
    topic = _topics(rng, prior, images, pair)
    noun = _choose(rng, np.repeat(prior.noun[topic][:, None], settings.max_objects, axis=1))
    if pair is not None:
        noun[pair.image, pair.role] = pair.noun
    adjective = _choose(rng, prior.adjective[noun])
    verb = _choose(rng, prior.verb[noun])
    if pair is not None:
        for kind, table in (("adjective", adjective), ("verb", verb)):
            of_kind = pair.kind == kind
            table[pair.image[of_kind], pair.role[of_kind]] = pair.atom[of_kind]
    role = _shuffled_roles(rng, count, settings.max_objects)
    return Scenes(
        topic,
        count,
        noun,
        adjective,
        verb,
        role,
        latent=_latents(rng, settings, codes, count, (noun, adjective, verb), role),
        boxes=_boxes(rng, settings, count, role),
    )


class _Planted(NamedTuple):
    image: Int[np.ndarray, " i"]
    role: Int[np.ndarray, " i"]
    kind: np.ndarray
    atom: Int[np.ndarray, " i"]
    noun: Int[np.ndarray, " i"]


def _choose_pairs(
    rng: np.random.Generator, grammar: Grammar, count: Int[np.ndarray, " i"]
) -> _Planted:
    # A pair for every image, all pairs alike, in an object that captions mention.
    which = rng.integers(len(grammar.held_out), size=len(count))
    role = np.where(count > 1, rng.integers(2, size=len(count)), SUBJECT)
    kind, atom, noun = (np.array(column)[which] for column in zip(*grammar.held_out, strict=True))
    return _Planted(np.arange(len(count)), role, kind, atom, noun)


def _topics(
    rng: np.random.Generator, prior: Prior, images: int, pair: _Planted | None
) -> Int[np.ndarray, " i"]:
    if pair is None:
        return _choose(rng, np.broadcast_to(prior.topic, (images, len(prior.topic))))
    joint = prior.topic[:, None] * prior.noun
    return _choose(rng, (joint / joint.sum(0)).T[pair.noun])


def _choose(rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """One draw from the last axis of `probabilities` for every index of the others."""
    # Without the last cumulative sum, rounding can never choose past the end.
    cumulative = np.cumsum(probabilities, axis=-1)[..., :-1]
    return (rng.random((*cumulative.shape[:-1], 1)) >= cumulative).sum(-1)


def _shuffled_roles(
    rng: np.random.Generator, count: Int[np.ndarray, " i"], objects: int
) -> Int[np.ndarray, "i o"]:
    # Random order of an image's own objects; padded slots keep the roles that it lacks.
    key = rng.random((len(count), objects))
    padded = np.arange(objects) >= count[:, None]
    return np.argsort(np.where(padded, 1.0 + np.arange(objects), key), axis=1)


def _latents(
    rng: np.random.Generator,
    settings: SceneWorldSettings,
    codes: Codes,
    count: Int[np.ndarray, " i"],
    atoms: tuple[np.ndarray, np.ndarray, np.ndarray],
    role: Int[np.ndarray, "i o"],
) -> Float[np.ndarray, "i o l"]:
    atom_code = sum(code[atom] for code, atom in zip(codes[:3], atoms, strict=True))
    in_slots = np.take_along_axis(settings.amplitude * atom_code, role[..., None], axis=1)
    latent = in_slots + settings.role_amplitude * codes.role[role]
    latent += rng.standard_normal(latent.shape)
    return np.where((np.arange(role.shape[1]) < count[:, None])[..., None], latent, 0.0)


def _boxes(
    rng: np.random.Generator,
    settings: SceneWorldSettings,
    count: Int[np.ndarray, " i"],
    role: Int[np.ndarray, "i o"],
) -> Float[np.ndarray, "i o 4"]:
    areas = np.array(ROLE_AREAS if settings.role_amplitude > 0 else (ANY_AREA,) * 3)
    low, high = np.moveaxis(areas[role], -1, 0)
    area = low + (high - low) * rng.random(role.shape)
    # A width between the area and 1 keeps width and height inside the image.
    width = area ** rng.uniform(0.25, 0.75, role.shape)
    size = np.stack([width, area / width], axis=-1)
    corner = rng.random(size.shape) * (1 - size)
    boxes = np.concatenate([corner, corner + size], axis=-1)
    return np.where((np.arange(role.shape[1]) < count[:, None])[..., None], boxes, 0.0)


def sample_items(
    settings: SceneWorldSettings,
    lexicon: Lexicon,
    scenes: Scenes,
    size: int,
    rng: np.random.Generator,
) -> tuple[Scenes, Items]:
    """Captions of the first images whose mentions are `size` items, and those images.

    The last image may give only some of its mentions.
    """
    captions = settings.captions_per_image
    image = np.repeat(np.arange(len(scenes.objects)), captions)
    second = (scenes.objects[image] > 1) & (rng.random(len(image)) < settings.second_probability)
    mentioned = np.stack([np.ones_like(second), second], axis=1)
    mentions = [_mention(settings, lexicon, scenes, image, role, rng) for role in (SUBJECT, SECOND)]
    preposition = lexicon.preposition + rng.integers(len(PREPOSITIONS), size=(len(image), 1))
    words = np.concatenate([mentions[0][0], preposition, mentions[1][0]], axis=1)
    present = np.concatenate(
        [mentions[0][1], second[:, None], mentions[1][1] & second[:, None]], axis=1
    )
    caption, mention = np.nonzero(mentioned)
    caption, mention = caption[:size], mention[:size]
    items = Items(words, present, image, caption, image[caption], mention)
    return images_of(scenes, np.arange(items.image[-1] + 1 if size else 0)), items


def _mention(
    settings: SceneWorldSettings,
    lexicon: Lexicon,
    scenes: Scenes,
    image: Int[np.ndarray, " c"],
    role: int,
    rng: np.random.Generator,
) -> tuple[Int[np.ndarray, "c 4"], Bool[np.ndarray, "c 4"]]:
    draw = rng.random((len(image), MENTION - 1))
    role = min(role, settings.max_objects - 1)  # Never mentioned where there is no second.
    words = np.stack(
        [
            (draw[:, 0] >= settings.the_probability).astype(np.int64),
            lexicon.adjective + scenes.adjective[image, role],
            lexicon.noun + scenes.noun[image, role],
            lexicon.verb + scenes.verb[image, role],
        ],
        axis=1,
    )
    always = np.ones(len(image), bool)
    adjective = draw[:, 1] < settings.adjective_probability
    verb = draw[:, 2] < settings.verb_probability
    return words, np.stack([always, adjective, always, verb], axis=1)


def images_of(scenes: Scenes, images: Int[np.ndarray, " k"]) -> Scenes:
    """Some images, in that order."""
    return Scenes(*(field[images] for field in scenes))


def items_of(items: Items, images: Int[np.ndarray, " k"]) -> Items:
    """The items of some images."""
    return select_items(items, np.isin(items.image, images))


def select_items(items: Items, which: np.ndarray) -> Items:
    """Some items, with all captions kept."""
    picked = {name: getattr(items, name)[which] for name in ("caption", "image", "mention")}
    return items._replace(**picked)
