"""CLIP as judge: the option whose words are nearest to the image or to its description (App. C).

`judge=clip:FOLDER` opens a CLIP model in a Hugging Face folder; ViT-B/32 is the paper's. As in the
release the options are bare raw words and a description counts by its first 200 characters; the
similarity to the right label is 100 times the cosine, not below 0. Unlike there the right answer is
a raw word, too: the release compares with "wireframe" and "amusement park" where the text gave
them, which no option equals.
"""

import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.cobsat.images import decode
from mmgen.prompting.judges.base import NOTHING, Judge, Judgement, Replies, Subject
from mmgen.prompting.requests import Answer, Picture, Request, Text, Turn

STAGES = ("clip_object", "clip_attribute", "clip_label")

LONGEST = 200
"""Characters of a description that are looked at."""


class Embedder(Protocol):
    """CLIP: embeddings of length 1.

    Attributes:
      scale: what a cosine is multiplied by.
    """

    scale: float

    def images(self, images: Sequence[Any]) -> Float[np.ndarray, "n d"]:
        """Of images (Pillow, RGB)."""

    def texts(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Of texts."""


class ClipBackend:
    """CLIP behind the interface of every backend: scores of choices are scaled cosines."""

    reads_images = True
    paints = False
    scores_choices = True

    def __init__(self, embedder: Embedder, identity: Mapping[str, Any], batch_size: int = 32):
        self.identity = {"backend": "clip", **identity}
        self.batch_size = batch_size
        self._embedder = embedder
        self._words: dict[str, np.ndarray] = {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend.answer`; a request has one picture, or one text, and choices."""
        self._learn({word for request in requests for word in request.choices})
        for start in range(0, len(requests), self.batch_size):
            part = requests[start : start + self.batch_size]
            for place, vector in self._subjects(part):
                if isinstance(vector, str):
                    yield start + place, Answer(error=vector)
                    continue
                words = np.stack([self._words[word] for word in part[place].choices])
                scores = self._embedder.scale * (words @ vector)
                yield start + place, Answer(scores=tuple(map(float, scores)))

    def _learn(self, words: set[str]) -> None:
        new = sorted(words - self._words.keys())
        self._words.update(zip(new, self._embedder.texts(new), strict=True))

    def _subjects(self, requests: Sequence[Request]) -> Iterator[tuple[int, np.ndarray | str]]:
        """Place of each request and its vector, or what is wrong with its picture."""
        pictures, images = [], []
        for place, request in enumerate(requests):
            if not request.pictures:
                continue
            try:
                images.append(decode(request.pictures[0].read(), request.item))
                pictures.append(place)
            except UserError as error:
                yield place, str(error)
        yield from zip(pictures, self._embedder.images(images), strict=True)
        texts = [place for place, request in enumerate(requests) if not request.pictures]
        vectors = self._embedder.texts([requests[place].text for place in texts])
        for place, vector in zip(texts, vectors, strict=True):
            # An empty description is like nothing: all options alike.
            yield place, vector if requests[place].text else np.zeros_like(vector)


def open_clip_judge(target: str, options: BackendOptions) -> ClipBackend:
    """The CLIP model in the folder `target`; UserError if there is none."""
    from mmgen.data.columns import file_sha256
    from mmgen.models.lm.clip_embedder import open_clip
    from mmgen.models.lm.images import PROCESSOR_FILES

    folder = pathlib.Path(target).expanduser()
    embedder = open_clip(folder, options.batch_size or 32)
    processor = next(name for name in PROCESSOR_FILES if (folder / name).exists())
    read = [*folder.glob("*.safetensors")]
    read += [folder / name for name in ("config.json", "tokenizer.json", processor)]
    files = {path.name: file_sha256(path) for path in sorted(read)}
    return ClipBackend(embedder, {"files": files}, options.batch_size or 32)


def clip_judge(parser: str = "robust") -> Judge:
    """The judge.

    Args:
      parser: "official" takes the first option where all are alike (an empty description), as
        released; "robust" takes none.
    """
    return Judge("clip", STAGES, _requests, functools.partial(_read, parser == "official"))


def _requests(stage: str, subjects: Sequence[Subject], seed: int) -> list[Request]:
    del seed  # nothing is drawn
    requests = []
    for subject in subjects:
        theme = subject.theme
        if stage == "clip_label":
            if subject.target is None:
                continue
            attribute = theme.attributes[subject.target.attribute]
            kind = theme.objects[subject.target.object]
            choices: tuple[str, ...] = (attribute, kind, f"{attribute} {kind}")
        else:
            choices = theme.items(stage.removeprefix("clip_"))
        part: Picture | Text = subject.picture or Text((subject.text or "")[:LONGEST])
        requests.append(Request(subject.item, "", (Turn("user", (part,)),), choices=choices))
    return requests


def _read(
    first_of_equals: bool, replies: Replies, subjects: Sequence[Subject]
) -> dict[str, Judgement]:
    found = {}
    for subject in subjects:
        kinds = [replies.get(stage, {}).get(subject.item) for stage in STAGES[:2]]
        if any(answer is None or answer.scores is None for answer in kinds):
            continue
        seen = [_best(a.scores, first_of_equals) for a in kinds if a is not None and a.scores]
        label = replies.get(STAGES[2], {}).get(subject.item)
        similarity = None
        if label is not None and label.scores is not None:
            first, second, both = (max(score, 0.0) for score in label.scores)
            similarity = (first, second, both)
        found[subject.item] = Judgement(seen[1], seen[0], seen.count(NOTHING), similarity)
    return found


def _best(scores: Sequence[float], first_of_equals: bool) -> int:
    if max(scores) == min(scores) and not first_of_equals:
        return NOTHING
    return int(np.argmax(scores))
