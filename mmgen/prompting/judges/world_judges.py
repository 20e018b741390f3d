"""Judges that need no model: the pixels of `shape_world`, and the words of a description.

`judge=pixel` reads images of `shape_world`, see `pixel`. `judge=words` takes the one word of each
list that a description names, and abstains where it names none or several.
"""

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from mmgen.data.worlds.shape_captions import named
from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.cobsat.lists import THEMES, Theme
from mmgen.prompting.judges.base import NOTHING, Judge, Judgement, Replies, Subject
from mmgen.prompting.judges.pixel import judge_images
from mmgen.prompting.judges.pixel_features import to_canvas
from mmgen.prompting.requests import Answer, Request, Text, Turn

STAGE = "judge"

CHUNK = 64
"""Images compared at once."""


class PixelBackend:
    """The pixel judge behind the interface of every backend.

    A request holds a picture and the name of a theme; the reply is "attribute object", positions
    from 1 on, 0 where nothing is seen.
    """

    reads_images = True
    paints = False
    scores_choices = False
    batch_size = CHUNK

    def __init__(self) -> None:
        self.identity = {"backend": "pixel", "version": 1}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend.answer`."""
        by_theme: dict[str, list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            by_theme[request.text].append(place)
        for name, places in by_theme.items():
            theme = next(theme for theme in THEMES if theme.name == name)
            for start in range(0, len(places), CHUNK):
                yield from self._chunk(theme, requests, places[start : start + CHUNK])

    def _chunk(
        self, theme: Theme, requests: Sequence[Request], places: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]:
        images, kept = [], []
        for place in places:
            try:
                picture = requests[place].pictures[0].read()
                images.append(to_canvas(picture, requests[place].item))
                kept.append(place)
            except UserError as error:
                yield place, Answer(error=str(error))
        for place, verdict in zip(kept, judge_images(theme, images), strict=True):
            yield place, Answer(text=f"{verdict.attribute + 1} {verdict.object + 1}")


class WordsBackend:
    """The judge of descriptions by their words; requests and replies as of `PixelBackend`."""

    reads_images = False
    paints = False
    scores_choices = False
    batch_size = CHUNK

    def __init__(self) -> None:
        self.identity = {"backend": "words", "version": 1}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend.answer`."""
        for place, request in enumerate(requests):
            attributes, objects, text = (
                part.text for turn in request.turns for part in turn.parts if isinstance(part, Text)
            )
            seen = [named(tuple(words.split(", ")), text) for words in (attributes, objects)]
            yield place, Answer(text=" ".join(str(0 if p is None else p + 1) for p in seen))


def open_pixel(target: str, options: BackendOptions) -> PixelBackend:
    """The pixel judge."""
    del target, options
    return PixelBackend()


def open_words(target: str, options: BackendOptions) -> WordsBackend:
    """The judge of words."""
    del target, options
    return WordsBackend()


def world_judge(kind: str) -> Judge:
    """The judge "pixel" or "words"."""
    return Judge(kind, (STAGE,), functools.partial(_requests, kind), _read)


def _requests(kind: str, stage: str, subjects: Sequence[Subject], seed: int) -> list[Request]:
    del stage, seed  # one question, nothing is drawn
    requests = []
    for subject in subjects:
        if (kind == "pixel") != (subject.picture is not None):
            raise UserError(
                f"judge={kind} cannot judge {'texts' if kind == 'pixel' else 'images'}: give "
                f"judge={'words' if kind == 'pixel' else 'pixel'}, or a model."
            )
        requests.append(_request(kind, subject))
    return requests


def _request(kind: str, subject: Subject) -> Request:
    theme = subject.theme
    if subject.picture is not None:
        if theme not in THEMES:
            raise UserError(f"judge=pixel knows the paper's themes alone, not {theme.name}.")
        turns: tuple[Turn, ...] = (Turn("user", (Text(theme.name), subject.picture)),)
    else:
        words = [", ".join(theme.shown(part)) for part in ("attribute", "object")]
        turns = tuple(Turn("user", (Text(text),)) for text in (*words, subject.text or ""))
    return Request(subject.item, "", turns)


def _read(replies: Replies, subjects: Sequence[Subject]) -> dict[str, Judgement]:
    found = {}
    for subject in subjects:
        answer = replies.get(STAGE, {}).get(subject.item)
        if answer is None or answer.text is None:
            continue
        attribute, kind = (int(number) - 1 for number in answer.text.split())
        found[subject.item] = Judgement(attribute, kind, (attribute, kind).count(NOTHING))
    return found
