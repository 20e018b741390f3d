"""What the JAX backends have in common: what they are opened with, and what they can be asked."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mmgen.core.mesh import Mesh, make_mesh
from mmgen.errors import UserError
from mmgen.models.lm import lora
from mmgen.models.lm.generate import Prompt
from mmgen.models.lm.model import LanguageModel, file_digest
from mmgen.models.lm.score import split_choices
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.requests import Decoding, Request


class Unanswerable(ValueError):
    """A request that this model cannot be asked; the text says why."""


def chosen_mesh(options: BackendOptions) -> Mesh:
    """The devices that the options name, one device by default."""
    return make_mesh(**options.mesh) if options.mesh else make_mesh(data=1)


def chosen_batch_size(options: BackendOptions, default: int) -> int:
    """How many requests at once; UserError if that is no number of requests."""
    size = default if options.batch_size is None else options.batch_size
    if size < 1:
        raise UserError(f"backend.batch_size is {size}; it must be at least 1.")
    return size


def fitted(
    language: LanguageModel, options: BackendOptions
) -> tuple[LanguageModel, dict[str, str]]:
    """The model with the chat template and the adapters that the options name.

    Returns:
      the model, and what a backend's identity says of the adapters.

    Raises:
      UserError: a file is missing, or the adapters do not fit the model.
    """
    if options.chat_template:
        language.tokenizer.set_chat_template(pathlib.Path(options.chat_template).expanduser())
    if not options.adapter:
        return language, {}
    folder = pathlib.Path(options.adapter).expanduser()
    adapters, settings = lora.load_adapters(folder, language.config)
    language = language._replace(params=lora.merge(language.params, adapters, settings))
    return language, {"adapter": file_digest((folder / lora.WEIGHTS, folder / lora.CONFIG))}


def identity_of(
    backend: str, language: LanguageModel, facts: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A backend's identity: whatever of its language model shapes answers, and `facts` besides."""
    return {
        "backend": backend,
        "name": language.name,
        "digest": language.digest,
        "tokenizer": language.tokenizer.digest,
        # A folder states some of them in a file of their own, which the digest does not cover.
        "ends": list(language.config.eos),
        "dtype": np.dtype(language.dtype).name,
        "max_context": language.config.max_length,
        **(facts or {}),
    }


def check_decoding(decoding: Decoding) -> None:
    """Unanswerable if no text can be drawn so."""
    if decoding.temperature < 0 or not 0 < decoding.top_p <= 1 or decoding.max_tokens < 1:
        raise Unanswerable(
            f"temperature {decoding.temperature}, top_p {decoding.top_p} and max_tokens "
            f"{decoding.max_tokens} cannot be: at least 0, in (0, 1], at least 1"
        )


def check_length(read: int, written: int, limit: int) -> None:
    """Unanswerable if a prompt of `read` tokens and an answer do not fit the model's `limit`."""
    if read < 1:
        raise Unanswerable("the prompt is empty, so there is nothing to go on from")
    if read + written > limit:
        raise Unanswerable(
            f"the prompt has {read} tokens and the answer may have {written}, but the model "
            f"reads {limit}; prompts are never cut"
        )


def choices_after(
    prompt: Sequence[int], texts: Sequence[Sequence[int]]
) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """See `split_choices`; Unanswerable if a choice is empty."""
    shared, choices = split_choices(prompt, texts)
    if not all(choices):
        raise Unanswerable("a choice is empty, so it has no probability")
    return shared, choices


def to_be_continued(
    inputs: Int[np.ndarray, " t"] | Float[np.ndarray, "t k"], request: Request
) -> Prompt:
    """The prompt in tokens or embeddings, to be continued as the request's decoding asks."""
    decoding = request.decoding
    return Prompt(
        inputs,
        decoding.max_tokens,
        decoding.temperature,
        decoding.top_p,
        decoding.stop,
        request.seed,
    )
