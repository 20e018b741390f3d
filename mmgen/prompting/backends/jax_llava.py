"""LLaVA-1.5 in JAX: reads interleaved pictures, writes text."""

import collections
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from mmgen.errors import UserError
from mmgen.models.lm.buckets import batches, bucket
from mmgen.models.lm.generate import Continuation, generate
from mmgen.models.lm.images import decode_image
from mmgen.models.lm.llava import expand
from mmgen.models.lm.llava_model import LlavaModel, open_llava, read_interleaved, see
from mmgen.models.lm.score import Candidates, ChoiceScores, score
from mmgen.models.lm.tokenizer import Untemplated
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.backends.jax_options import (
    Unanswerable,
    check_decoding,
    check_length,
    choices_after,
    chosen_batch_size,
    chosen_mesh,
    fitted,
    identity_of,
    to_be_continued,
)
from mmgen.prompting.backends.llava_prompt import choose_template, prompt_ids
from mmgen.prompting.requests import Answer, Picture, Request

BATCH_SIZE = 8
KEPT_PICTURES = 64
"""Pictures whose states are kept, since the same ones come again: 9 MB each for the 7b model."""


class _Question(NamedTuple):
    """A request in tokens, every picture as many as it takes, and its choices after them."""

    number: int
    request: Request
    ids: Sequence[int]
    sources: Sequence[int]
    choices: tuple[tuple[int, ...], ...]


class JaxLlava:
    """See `mmgen.prompting.requests.Backend`."""

    reads_images = True
    paints = False
    scores_choices = True

    def __init__(
        self,
        model: LlavaModel,
        batch_size: int = BATCH_SIZE,
        facts: Mapping[str, Any] | None = None,
    ):
        """Wrap an open model.

        Args:
          facts: what its identity says besides (adapters).
        """
        self._model = model
        self._template = choose_template(model.language.tokenizer)
        # Made once: it is asked for with every request.
        self._identity = identity_of("jax_llava", model.language, facts) | {
            "template": self._template
        }
        self._seen: collections.OrderedDict[str, np.ndarray] = collections.OrderedDict()
        self.batch_size = batch_size

    @property
    def identity(self) -> dict[str, Any]:
        """See `Backend`."""
        return dict(self._identity)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend`; embeddings exist for one batch at a time."""
        questions: list[_Question] = []
        for index, request in enumerate(requests):
            try:
                questions.append(self._encode(index, request))
            except (Unanswerable, Untemplated, UserError) as error:
                yield index, Answer(error=str(error))
        for members in batches(questions, _shape, self.batch_size):
            yield from self._batch([questions[place] for place in members])

    def _batch(self, questions: Sequence[_Question]) -> Iterator[tuple[int, Answer]]:
        """Questions of one shape: all to be continued, or all with choices."""
        read: list[tuple[_Question, np.ndarray]] = []
        for question in questions:
            try:
                read.append((question, self._read(question)))
            except UserError as error:
                yield question.number, Answer(error=str(error))
        language = self._model.language
        if not questions[0].choices:
            prompts = [to_be_continued(states, question.request) for question, states in read]
            for place, one in generate(language, prompts, self.batch_size):
                yield read[place][0].number, _written(one, len(prompts[place].inputs))
            return
        candidates = [Candidates(states, question.choices) for question, states in read]
        for place, scored in score(language, candidates, self.batch_size):
            question, states = read[place]
            yield question.number, _scored(scored, question, len(states))

    def _encode(self, index: int, request: Request) -> _Question:
        """The request in tokens; Unanswerable if it cannot be asked."""
        if request.want == "image":
            raise Unanswerable("LLaVA-1.5 paints no pictures")
        ids = prompt_ids(request, self._template, self._model)
        choices: tuple[tuple[int, ...], ...] = ()
        room = request.decoding.max_tokens
        if request.choices:
            texts = [
                prompt_ids(request, self._template, self._model, choice)
                for choice in request.choices
            ]
            shared, choices = choices_after(ids, texts)
            ids, room = ids[:shared], max(map(len, choices))
        else:
            check_decoding(request.decoding)
        expanded, sources = expand(ids, self._model.config)
        check_length(len(expanded), room, self._model.language.config.max_length)
        return _Question(index, request, expanded, sources, choices)

    def _read(self, question: _Question) -> Float[np.ndarray, "t k"]:
        states = self._states(question.request.pictures)
        return read_interleaved(self._model, question.ids, question.sources, states)

    def _states(self, pictures: Sequence[Picture]) -> Float[np.ndarray, "i n k"]:
        """States of the pictures; those not seen lately go through the tower together."""
        keys = [picture.sha256() for picture in pictures]
        new = {
            key: picture
            for key, picture in zip(keys, pictures, strict=True)
            if key not in self._seen
        }
        images = [decode_image(p.read(), p.path or "in a request") for p in new.values()]
        found = {key: self._seen[key] for key in keys if key in self._seen}
        found |= dict(zip(new, see(self._model, images), strict=True))
        for key in keys:
            self._seen[key] = found[key]
            self._seen.move_to_end(key)
        while len(self._seen) > KEPT_PICTURES:
            self._seen.popitem(last=False)
        if not keys:
            return see(self._model, [])
        return np.stack([found[key] for key in keys])


def open_jax_llava(target: str, options: BackendOptions) -> JaxLlava:
    """The model in the folder `target`; UserError if it cannot be opened."""
    path = pathlib.Path(target).expanduser()
    dtype = options.dtype or "float32"
    model = open_llava(path, chosen_mesh(options), dtype, options.max_context)
    language, facts = fitted(model.language, options)
    model = model._replace(language=language)
    return JaxLlava(model, chosen_batch_size(options, BATCH_SIZE), facts)


def _shape(question: _Question) -> tuple[int, int]:
    return len(question.choices), bucket(len(question.ids))


def _written(one: Continuation, prompt_tokens: int) -> Answer:
    return Answer(
        text=one.text.strip(),
        prompt_tokens=prompt_tokens,
        generated_tokens=one.tokens,
        seconds=one.seconds,
    )


def _scored(one: ChoiceScores, question: _Question, prompt_tokens: int) -> Answer:
    return Answer(
        scores=one.sums,
        token_counts=tuple(map(len, question.choices)),
        prompt_tokens=prompt_tokens,
        seconds=one.seconds,
    )
