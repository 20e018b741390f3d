"""What is asked of a model and what it answers, the same for every backend.

A benchmark renders each of its items into a `Request`: turns of text and pictures, without any
model's chat template, which is the backend's business. The answer is text, a picture (PNG), or the
log-probability of every choice.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from mmgen.errors import UserError

KEY_VERSION = 1
"""Part of every key: raise it when the meaning of a request changes."""


class Text(NamedTuple):
    """A part of a turn that is text."""

    text: str


class Picture(NamedTuple):
    """A part of a turn that is an image: a file, or the bytes of one (PNG, JPEG, ...)."""

    path: str | None = None
    data: bytes | None = None

    def read(self) -> bytes:
        """The encoded bytes; UserError if the file cannot be read."""
        if self.data is not None:
            return self.data
        try:
            return pathlib.Path(self.path or "").read_bytes()
        except OSError as error:
            raise UserError(
                f"the picture {self.path} cannot be read ({error.strerror}); put it back, or build "
                "its data set again."
            ) from None

    def sha256(self) -> str:
        """Hex checksum of the encoded bytes; a file is read once until it changes."""
        if self.data is None and self.path is not None:
            try:
                facts = os.stat(self.path)
            except OSError:
                return _sha256(self.read())  # says what is wrong
            return _file_sha256(self.path, facts.st_mtime_ns, facts.st_size)
        return _sha256(self.read())


Part = Text | Picture


class Turn(NamedTuple):
    """What one side says: parts in their order, put together without anything in between."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class Decoding(NamedTuple):
    """How text is generated.

    Attributes:
      max_tokens: at most so many new tokens.
      temperature: 0 is greedy.
      top_p: nucleus; 1 is everything.
      stop: texts before which the answer ends.
    """

    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()


GREEDY = Decoding()


@dataclasses.dataclass(frozen=True)
class Request:
    """One question.

    Attributes:
      item: its name, unique within a stage; no model sees it.
      system: system message, "" is none.
      turns: the conversation so far; the model speaks next.
      choices: exact continuations to score; none means that an answer is generated.
      want: what is generated.
      decoding: how text is generated.
      seed: of this sample, see `sample_seed`, so that order, batch and shard change nothing.
      raw: the texts of `turns` are one plain text to be continued, without a chat template.
      facts: what the fakes of `mmgen.prompting.backends.fakes` may look at. Never sent to a model
        and no part of the key, so requests that differ in facts alone need different seeds.
    """

    item: str
    system: str
    turns: tuple[Turn, ...]
    choices: tuple[str, ...] = ()
    want: Literal["text", "image"] = "text"
    decoding: Decoding = GREEDY
    seed: int = 0
    raw: bool = False
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def text(self) -> str:
        """The texts of all turns in one piece, which is what a raw request asks to continue."""
        return "".join(
            part.text for turn in self.turns for part in turn.parts if isinstance(part, Text)
        )

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all turns, in their order."""
        return tuple(
            part for turn in self.turns for part in turn.parts if isinstance(part, Picture)
        )


class Answer(NamedTuple):
    """What came back.

    Attributes:
      text: generated text.
      image: generated picture, PNG.
      scores: log-probability (nats) of each choice, summed over its tokens.
      token_counts: tokens of each choice.
      prompt_tokens, generated_tokens: 0 where the backend does not say.
      seconds: this request's share of the time.
      error: why there is no answer; then nothing else is an answer.
      image_path: where a stored picture lies; `image` is None then.
    """

    text: str | None = None
    image: bytes | None = None
    scores: tuple[float, ...] | None = None
    token_counts: tuple[int, ...] | None = None
    prompt_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    error: str | None = None
    image_path: str | None = None

    @property
    def picture(self) -> Picture | None:
        """The generated picture, None if there is none."""
        if self.image is None and self.image_path is None:
            return None
        return Picture(self.image_path, self.image)


class Backend(Protocol):
    """A model behind one interface.

    Attributes:
      identity: what decides its answers and is JSON: name, revision or checksum, dtype, template.
        Keys of answers are made from it; secrets and addresses do not belong there.
      reads_images, paints, scores_choices: what it can be asked for.
      batch_size: requests it works on at once; `answer` is given many more and may sort them.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """See above."""

    @property
    def reads_images(self) -> bool:
        """See above."""

    @property
    def paints(self) -> bool:
        """See above."""

    @property
    def scores_choices(self) -> bool:
        """See above."""

    @property
    def batch_size(self) -> int:
        """See above."""

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers with the index of their request, in any order, as soon as each is there.

        What goes wrong with one request (too long, refused, no reply) is an `Answer` with `error`;
        what concerns all of them (no such model, out of memory) is raised.
        """


def request_key(request: Request, identity: Mapping[str, Any]) -> str:
    """Hex SHA-256 over everything that shapes the answer: the request and the backend's identity.

    Pictures count by their bytes, wherever they lie; `item` and `facts` do not count.
    """
    shape = {
        "version": KEY_VERSION,
        "system": request.system,
        "turns": [[turn.role, [_part(part) for part in turn.parts]] for turn in request.turns],
        "choices": request.choices,
        "want": request.want,
        "decoding": request.decoding,
        "seed": request.seed,
        "raw": request.raw,
        "backend": identity,
    }
    return _sha256(json.dumps(shape, sort_keys=True).encode())


def sample_seed(seed: int, item: str) -> int:
    """The seed of one sample, in [0, 2^31): of the run's seed and the item's name alone."""
    digest = hashlib.sha256(f"{seed}/{item}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _part(part: Part) -> list[str]:
    return ["text", part.text] if isinstance(part, Text) else ["image", part.sha256()]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@functools.lru_cache(maxsize=4096)
def _file_sha256(path: str, modified: int, size: int) -> str:
    del modified, size  # of the file that was read
    return _sha256(pathlib.Path(path).read_bytes())
