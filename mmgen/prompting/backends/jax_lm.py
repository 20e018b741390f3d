"""Language models of the Llama family in JAX: read text, write text, score choices."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mmgen.models.lm.generate import Prompt, generate
from mmgen.models.lm.llava_model import is_llava
from mmgen.models.lm.model import LanguageModel, find_package, open_model
from mmgen.models.lm.score import Candidates, score
from mmgen.models.lm.tokenizer import Untemplated
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.backends.jax_llava import open_jax_llava
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
from mmgen.prompting.requests import Answer, Backend, Request, Text

BATCH_SIZE = 16


class _Prepared(NamedTuple):
    """A request in tokens.

    Attributes:
      place: of the request.
      prompt_tokens: what the model reads before it speaks.
    """

    place: int
    prompt_tokens: int
    ask: Prompt | Candidates


class JaxLM:
    """See `mmgen.prompting.requests.Backend`."""

    reads_images = False
    paints = False
    scores_choices = True

    def __init__(
        self,
        model: LanguageModel,
        batch_size: int = BATCH_SIZE,
        facts: Mapping[str, Any] | None = None,
    ):
        """Wrap an open model.

        Args:
          facts: what its identity says besides (adapters).
        """
        self._model = model
        self.batch_size = batch_size
        # Made once: it is asked for with every request.
        self._identity = identity_of("jax_lm", model, facts)

    @property
    def identity(self) -> dict[str, Any]:
        """See `Backend`."""
        return dict(self._identity)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend`; short prompts come first, those that score choices before the others.

        Raises:
          UserError: the tokenizer has no chat template, and a request is not raw.
        """
        if not all(request.raw for request in requests):
            self._model.tokenizer.require_chat_template()
        prepared = []
        for index, request in enumerate(requests):
            try:
                prepared.append(self._prepare(index, request))
            except (Unanswerable, Untemplated) as error:
                yield index, Answer(error=str(error))
        yield from self._score([one for one in prepared if isinstance(one.ask, Candidates)])
        yield from self._write([one for one in prepared if isinstance(one.ask, Prompt)])

    def _score(self, prepared: Sequence[_Prepared]) -> Iterator[tuple[int, Answer]]:
        items = [one.ask for one in prepared if isinstance(one.ask, Candidates)]
        for place, scored in score(self._model, items, self.batch_size):
            yield (
                prepared[place].place,
                Answer(
                    scores=scored.sums,
                    token_counts=tuple(map(len, items[place].choices)),
                    prompt_tokens=prepared[place].prompt_tokens,
                    seconds=scored.seconds,
                ),
            )

    def _write(self, prepared: Sequence[_Prepared]) -> Iterator[tuple[int, Answer]]:
        prompts = [one.ask for one in prepared if isinstance(one.ask, Prompt)]
        for place, written in generate(self._model, prompts, self.batch_size):
            yield (
                prepared[place].place,
                Answer(
                    text=written.text,
                    prompt_tokens=prepared[place].prompt_tokens,
                    generated_tokens=written.tokens,
                    seconds=written.seconds,
                ),
            )

    def _prepare(self, index: int, request: Request) -> _Prepared:
        if request.want != "text":
            raise Unanswerable("a language model paints no pictures; ask it for text")
        if request.pictures:
            raise Unanswerable("this language model reads no pictures; use captions, or a LLaVA")
        tokenizer = self._model.tokenizer
        text = request.text if request.raw else tokenizer.render(messages(request))
        ids = tokenizer.encode(text, rendered=not request.raw)
        limit = self._model.config.max_length
        if not request.choices:
            check_decoding(request.decoding)
            check_length(len(ids), request.decoding.max_tokens, limit)
            prompt = to_be_continued(np.array(ids, np.int32), request)
            return _Prepared(index, len(ids), prompt)
        joint = [
            tokenizer.encode(text + choice, rendered=not request.raw) for choice in request.choices
        ]
        shared, choices = choices_after(ids, joint)
        check_length(shared, max(map(len, choices)), limit)
        return _Prepared(index, len(ids), Candidates(np.array(ids[:shared], np.int32), choices))


def open_jax(target: str, options: BackendOptions) -> Backend:
    """The model in a Hugging Face folder (Llama family or LLaVA-1.5) or a .gguf file.

    Raises:
      UserError: it cannot be opened.
    """
    path = pathlib.Path(target).expanduser()
    if is_llava(path):
        return open_jax_llava(target, options)
    mesh = chosen_mesh(options)
    model = open_model(path, mesh, options.dtype or "float32", max_length=options.max_context)
    model, facts = fitted(model, options)
    return JaxLM(model, chosen_batch_size(options, BATCH_SIZE), facts)


def open_package(target: str, options: BackendOptions) -> Backend:
    """The model that an installed Python package ships, see `mmgen.models.lm.model.PACKAGES`.

    Raises:
      UserError: no such package, not installed, or not what was published.
    """
    return open_jax(str(find_package(target)), options)


def messages(request: Request) -> list[dict[str, str]]:
    """The conversation in the form that chat templates take."""
    said = [{"role": "system", "content": request.system}] if request.system else []
    for turn in request.turns:
        content = "".join(part.text for part in turn.parts if isinstance(part, Text))
        said.append({"role": turn.role, "content": content})
    return said
