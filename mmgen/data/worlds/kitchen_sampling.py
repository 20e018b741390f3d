"""Drawing `kitchen_world`: videos of clips, and what is seen and heard in each.

Everything is drawn for all videos at once, clip after clip. A window of four consecutive clips
passes the builder's filters exactly when its inputs have three different nouns and its target is
one of them and no planted repeat: filler clips are about new nouns, and a repeat has the verb and
noun of the clip before. In these windows the target depends on nothing but the three inputs.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.core.rng import numpy_generator
from mmgen.data.worlds.kitchen_grammar import Grammar, KitchenLaws, make_grammar, verb_law
from mmgen.data.worlds.kitchen_words import FORMS
from mmgen.errors import UserError

INPUTS = 3


@dataclasses.dataclass(frozen=True)
class VideoSettings(KitchenLaws):
    """The laws, and how much is drawn.

    Attributes:
      data_seed: of the videos, and of the split.
      videos: number of videos.
      clips_per_video: narrated clips of each.
      repeats: probability that a clip is narrated again.
    """

    data_seed: int = 0
    videos: int = 160
    clips_per_video: int = 200
    repeats: float = 0.03

    def __post_init__(self) -> None:
        """Refuse settings that describe no world."""
        super().__post_init__()
        for key, low in (("videos", 1), ("clips_per_video", INPUTS + 1), ("data_seed", 0)):
            if getattr(self, key) < low:
                raise UserError(
                    f"kitchen_world: {key} must be at least {low}, not {getattr(self, key)}"
                )
        if not 0 <= self.repeats < 1:
            raise UserError(f"kitchen_world: repeats must be from 0 to 1, not {self.repeats}")


class Clips(NamedTuple):
    """All clips, video by video; `c` of them.

    Attributes:
      noun, verb: classes.
      noun_form, verb_form: which string of its class is said.
      shown: noun that vision shows.
      heard: sound group that is heard.
      tags: nouns that the tags list.
      has_audio, has_tags: False for the clips without.
    """

    noun: Int[np.ndarray, " c"]
    noun_form: Int[np.ndarray, " c"]
    verb: Int[np.ndarray, " c"]
    verb_form: Int[np.ndarray, " c"]
    shown: Int[np.ndarray, " c"]
    heard: Int[np.ndarray, " c"]
    tags: Bool[np.ndarray, "c k"]
    has_audio: Bool[np.ndarray, " c"]
    has_tags: Bool[np.ndarray, " c"]


class Features(NamedTuple):
    """Features of clips as they are stored, float16."""

    vision: Float[np.ndarray, "c d"]
    audio: Float[np.ndarray, "c d"]
    tags: Float[np.ndarray, "c k"]


class KitchenWorld(NamedTuple):
    """A drawn world."""

    settings: VideoSettings
    grammar: Grammar
    clips: Clips
    features: Features


def make_kitchen_world(settings: VideoSettings) -> KitchenWorld:
    """Draw a world; the same settings, the same world."""
    grammar = make_grammar(settings)
    rng = numpy_generator(settings.data_seed, "kitchen_world/videos")
    # One clip more than there are: also the last one shows what comes next.
    actions = _draw_actions(settings, grammar, rng)
    clips = _draw_hints(settings, grammar, actions, rng)
    return KitchenWorld(settings, grammar, clips, _draw_features(settings, grammar, clips, rng))


class _Actions(NamedTuple):
    noun: Int[np.ndarray, "videos t"]
    noun_form: Int[np.ndarray, "videos t"]
    verb: Int[np.ndarray, "videos t"]
    verb_form: Int[np.ndarray, "videos t"]


def _draw_actions(settings: VideoSettings, grammar: Grammar, rng: np.random.Generator) -> _Actions:
    videos, count = settings.videos, settings.clips_per_video + 1
    noun, verb, verb_form = (np.zeros((videos, count), np.int64) for _ in range(3))
    every = np.arange(videos)
    for t in range(count):
        again = rng.random(videos) < settings.repeats if t else np.zeros(videos, bool)
        pointed = rng.choice(INPUTS, size=videos, p=settings.pointer)
        new = _new_noun(grammar, noun[:, max(t - INPUTS, 0) : t], rng)
        about_input = np.zeros(videos, bool)
        done = None
        if t >= INPUTS:
            inputs = np.sort(noun[:, t - INPUTS : t], axis=1)
            about_input = (inputs[:, 1:] != inputs[:, :-1]).all(axis=1)
            place = t - INPUTS + pointed
            done = np.stack([verb[every, place], verb_form[every, place]], axis=1)
            new = np.where(about_input, noun[every, place], new)
        noun[:, t] = new
        last = verb[:, t - 1] if t else None
        law = verb_law(grammar, new, last)
        law[about_input] = verb_law(grammar, new, last, done)[about_input]
        drawn = _draw(law.reshape(videos, -1), rng)
        verb[:, t], verb_form[:, t] = np.divmod(drawn, len(FORMS))
        for values in (noun, verb, verb_form):
            values[again, t] = values[again, t - 1]
    # A narrator calls a thing by one name throughout a video.
    habit = rng.choice(len(FORMS), size=(videos, settings.nouns), p=FORMS)
    return _Actions(noun, np.take_along_axis(habit, noun, axis=1), verb, verb_form)


def _new_noun(
    grammar: Grammar, last: Int[np.ndarray, "videos t"], rng: np.random.Generator
) -> Int[np.ndarray, " videos"]:
    weight = np.tile(grammar.noun, (len(last), 1))
    np.put_along_axis(weight, last, 0, axis=1)
    return _draw(weight / weight.sum(1, keepdims=True), rng)


def _draw(law: Float[np.ndarray, "m k"], rng: np.random.Generator) -> Int[np.ndarray, " m"]:
    cumulative = law.cumsum(axis=1)
    return (cumulative > rng.random((len(law), 1)) * cumulative[:, -1:]).argmax(axis=1)


def _draw_hints(
    settings: VideoSettings, grammar: Grammar, actions: _Actions, rng: np.random.Generator
) -> Clips:
    videos, count = settings.videos, settings.clips_per_video
    following = actions.noun[:, 1:].reshape(-1)
    # Nouns in reach: of the clip and the two before it.
    near = np.zeros((videos, count, settings.nouns), bool)
    for back in range(INPUTS):
        rows = actions.noun[:, : count - back, None]
        np.put_along_axis(near[:, back:], rows, True, axis=2)
    other = near.reshape(-1, settings.nouns)
    other[np.arange(len(other)), following] = False
    wrong = (rng.random(len(other)) >= settings.vision_accuracy) & other.any(axis=1)
    choice = np.where(other, rng.random(other.shape), -1).argmax(axis=1)
    tags = other & (rng.random(other.shape) < settings.tag_noise)
    tags[np.arange(len(tags)), following] = rng.random(len(tags)) < settings.tag_recall
    group = grammar.group[actions.verb[:, 1:].reshape(-1)]
    groups = len(grammar.heard)
    deaf = rng.random(len(group)) >= settings.audio_accuracy
    shift = rng.integers(1, groups, size=len(group))
    own = [values[:, :count].reshape(-1) for values in actions]
    return Clips(
        noun=own[0],
        noun_form=own[1],
        verb=own[2],
        verb_form=own[3],
        shown=np.where(wrong, choice, following),
        heard=np.where(deaf, (group + shift) % groups, group),
        tags=tags,
        has_audio=rng.random(len(group)) >= settings.absent,
        has_tags=rng.random(len(group)) >= settings.absent,
    )


def _draw_features(
    settings: VideoSettings, grammar: Grammar, clips: Clips, rng: np.random.Generator
) -> Features:
    vision, audio = (
        codes[which] + settings.noise * rng.normal(size=(len(which), settings.feature_dim))
        for codes, which in ((grammar.seen, clips.shown), (grammar.heard, clips.heard))
    )
    return Features(*(value.astype(np.float16) for value in (vision, audio, clips.tags)))
