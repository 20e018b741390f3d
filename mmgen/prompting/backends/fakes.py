"""Deterministic models whose scores are known, for tests and for looking at a benchmark's floor.

They read `Request.facts`, which no real model sees:

    perfect     facts["perfect"]: the right answer
    text_only   facts["text_only"]: the best answer of a model that ignores pictures
    copy        facts["copy"]: what the last demonstration shows
    misled      facts["misled"]: the answer that a misleading prompt suggests
    majority    facts["majority"]: the most frequent reading of demonstrations, some of them misread
    random      one of facts["options"], each equally likely
    constant    the first of facts["options"]
    biased      the first of facts["options"] with probability .5, else the right answer
    noise       a text that is no answer

A fact is a text, or a `Picture` where a picture is asked for. A fact that a request lacks is
replaced by a random option; a request without options is answered by an empty text, and its choices
are all scored alike (the content-free prompts of calibration). `options` default to the choices.
"""

import hashlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mmgen.core.rng import numpy_generator
from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.requests import Answer, Picture, Request
from mmgen.settings.suggest import closest

NAMES = (
    "perfect",
    "text_only",
    "copy",
    "misled",
    "majority",
    "random",
    "constant",
    "biased",
    "noise",
)

NOISE = "?!"

MARGIN = 10.0
"""Nats between the chosen choice and each of the others."""


class FakeBackend:
    """See the module; a `Backend`."""

    reads_images = True
    paints = True
    scores_choices = True

    def __init__(self, name: str, batch_size: int = 64):
        self.identity: Mapping[str, Any] = {"backend": "fake", "name": name, "version": 1}
        self.batch_size = batch_size
        self._name = name

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend.answer`."""
        for index, request in enumerate(requests):
            yield index, self._one(request)

    def _one(self, request: Request) -> Answer:
        choice = self._choose(request)
        if request.choices:
            return Answer(scores=_scores(request.choices, choice))
        if request.want == "image":
            return Answer(image=_as_png(choice, request.seed))
        text = choice if isinstance(choice, str) else ""
        return Answer(text=text, generated_tokens=len(text.split()))

    def _choose(self, request: Request) -> str | Picture | None:
        if self._name == "noise":
            return NOISE
        # Not a tuple: each option may be a picture that is drawn when it is looked at.
        options = request.facts.get("options", ())
        if self._name == "constant" and options:
            return options[0]
        if self._name == "biased" and options:
            heads = _draw(request, "coin", 2) == 0
            return options[0] if heads else request.facts["perfect"]
        if self._name in request.facts:
            return request.facts[self._name]
        return options[_draw(request, "option", len(options))] if options else None


def open_fake(target: str, options: BackendOptions) -> FakeBackend:
    """The fake called `target`; UserError with the nearest name if there is none."""
    if target not in NAMES:
        raise UserError(
            f"There is no fake model {target!r}{closest(target, NAMES)}; there are "
            f"{', '.join(NAMES)}."
        )
    return FakeBackend(target, options.batch_size or 64)


def _draw(request: Request, purpose: str, count: int) -> int:
    """A number in [0, count) that depends on the sample alone."""
    text = f"{purpose}/{request.seed}/{request.item}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % count


def _scores(choices: Sequence[str], choice: str | Picture | None) -> tuple[float, ...]:
    """Log-probabilities that sum to one; the chosen one is ahead, or none if it is no choice."""
    ahead = [isinstance(choice, str) and one.strip() == choice.strip() for one in choices]
    total = math.log(sum(math.exp(MARGIN * one) for one in ahead))
    return tuple(MARGIN * one - total for one in ahead)


def _as_png(choice: str | Picture | None, seed: int) -> bytes | None:
    """The picture as PNG, or coloured noise for `NOISE`; None where the fake has no picture."""
    from PIL import Image

    if isinstance(choice, Picture):
        image = Image.open(io.BytesIO(choice.read())).convert("RGB")
    elif choice == NOISE:
        pixels = numpy_generator(seed, "fake/noise").integers(0, 256, (64, 64, 3), dtype=np.uint8)
        image = Image.fromarray(pixels)
    else:
        return None
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
