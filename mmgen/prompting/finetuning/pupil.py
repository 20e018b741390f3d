"""The model that is fine-tuned: how it reads an example, and what of it never changes."""

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from mmgen.core.mesh import put_replicated
from mmgen.errors import UserError
from mmgen.models.lm import lora
from mmgen.models.lm.images import decode_image
from mmgen.models.lm.llava import expand
from mmgen.models.lm.llava_model import LlavaModel, is_llava, open_llava, see
from mmgen.models.lm.model import LanguageModel, find_package, open_model
from mmgen.prompting.backends.jax_llava import JaxLlava
from mmgen.prompting.backends.jax_lm import JaxLM, messages
from mmgen.prompting.backends.llava_prompt import choose_template, prompt_ids, prompt_text
from mmgen.prompting.finetuning.examples import Example
from mmgen.prompting.finetuning.packing import Encoded
from mmgen.prompting.requests import Backend, Picture

Encode = Callable[[Example], Encoded]


class PictureTable:
    """Numbers of the pictures that examples show, each once.

    Attributes:
      pictures: by their number.
    """

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self._numbers: dict[str, int] = {}

    def number(self, picture: Picture) -> int:
        """Its number; equal bytes have one."""
        key = picture.sha256()
        if key not in self._numbers:
            self._numbers[key] = len(self.pictures)
            self.pictures.append(picture)
        return self._numbers[key]


class Pupil(NamedTuple):
    """An open model.

    Attributes:
      language: what the adapters change.
      llava: the whole, if it reads images.
    """

    language: LanguageModel
    llava: LlavaModel | None = None


def open_pupil(spec: str, mesh: Mesh, dtype: str) -> Pupil:
    """The model of `jax:FOLDER` or `jax-package:NAME`, on the mesh.

    Raises:
      UserError: another kind of model, or it cannot be opened.
    """
    kind, _, target = spec.partition(":")
    if kind not in ("jax", "jax-package") or not target:
        raise UserError(
            f"config.model.spec is {spec!r}; models are fine-tuned in JAX: give jax:FOLDER or "
            "jax-package:NAME."
        )
    path = find_package(target) if kind == "jax-package" else pathlib.Path(target).expanduser()
    if is_llava(path):
        llava = open_llava(path, mesh, dtype)
        return Pupil(llava.language, llava)
    return Pupil(open_model(path, mesh, dtype))


def make_encoder(pupil: Pupil, table: PictureTable) -> Encode:
    """How the pupil reads an example: the prompt as its backend renders it, then the answer.

    Prompt and answer are tokenised as one text, as long as the prompt's own tokens stay what they
    are when it is asked; otherwise the answer apart. The token that ends an answer comes last.

    Args:
      table: takes up the pictures that are read.

    Raises:
      UserError: the model has no chat template, no token that ends an answer, or (when an example
        is read) no eyes for its pictures.
    """
    end = end_of_answer(pupil)
    if pupil.llava is None:
        pupil.language.tokenizer.require_chat_template()
        return lambda example: _encode_text(pupil.language, example, end)
    llava, template = pupil.llava, choose_template(pupil.language.tokenizer)
    return lambda example: _encode_pictures(llava, template, example, end, table)


def end_of_answer(pupil: Pupil) -> int:
    """The token that the model ends its turns with.

    Models may have several ending tokens; that of a turn is the one that the chat template puts
    behind what the assistant has said.
    """
    ends, tokenizer = pupil.language.config.eos, pupil.language.tokenizer
    if not ends:
        raise UserError(f"{pupil.language.name} has no token that ends an answer.")
    if pupil.llava is None and tokenizer.has_chat_template:
        said = [
            {"role": role, "content": word}
            for role, word in (("user", "one"), ("assistant", "two"), ("user", "three"))
        ]
        after = tokenizer.render(said).split("two", 1)[-1]
        written = tokenizer.encode(after, rendered=True)
        return next((token for token in written if token in ends), ends[0])
    return ends[0]


def frozen_arrays(pupil: Pupil, table: PictureTable, mesh: Mesh) -> dict[str, Any]:
    """What every step reads and none changes, on the mesh; see `training.Frozen`.

    What the tower makes of each picture is computed here, once for all epochs.
    """
    language = pupil.language
    if pupil.llava is None or not table.pictures:
        return {"text": language.params}
    images = [decode_image(one.read(), one.path or "in memory") for one in table.pictures]
    features = see(pupil.llava, images).astype(language.dtype)
    return {"text": language.params, "features": put_replicated(features, mesh)}


def as_backend(
    pupil: Pupil, adapters: lora.Adapters, settings: lora.LoraConfig, batch_size: int
) -> Backend:
    """The model with its adapters merged, ready to be asked."""
    merge = jax.jit(lambda params, added: lora.merge(params, added, settings))
    language = pupil.language._replace(params=merge(pupil.language.params, adapters))
    if pupil.llava is None:
        return JaxLM(language, batch_size)
    return JaxLlava(pupil.llava._replace(language=language), batch_size)


def _encode_text(model: LanguageModel, example: Example, end: int) -> Encoded:
    tokenizer, request = model.tokenizer, example.request
    if request.pictures:
        raise UserError(
            f"{model.name} reads no images; give prompt=caption, or the folder of a LLaVA-1.5 as "
            "model=jax:DIR."
        )
    rendered = not request.raw
    text = request.text if request.raw else tokenizer.render(messages(request))
    prompt = tokenizer.encode(text, rendered=rendered)
    answer = _separated(text, example.answer)
    joint = tokenizer.encode(text + answer, rendered=rendered)
    return _joined(prompt, joint, lambda: tokenizer.encode(answer, rendered=True), end)


def _encode_pictures(
    model: LlavaModel, template: str, example: Example, end: int, table: PictureTable
) -> Encoded:
    request, tokenizer = example.request, model.language.tokenizer
    answer = _separated(prompt_text(request, template, tokenizer), example.answer)
    prompt = prompt_ids(request, template, model)
    joint = prompt_ids(request, template, model, answer)
    short = _joined(prompt, joint, lambda: tokenizer.encode(answer, rendered=True), end)
    numbers = [table.number(picture) for picture in request.pictures]
    tokens, sources = expand(short.tokens, model.config, numbers)
    start = short.start + len(tokens) - len(short.tokens)
    return Encoded(tokens, start, sources if numbers else None)


def _separated(prompt: str, answer: str) -> str:
    return answer if prompt[-1:].isspace() else f" {answer}"


def _joined(
    prompt: list[int], joint: list[int], alone: Callable[[], list[int]], end: int
) -> Encoded:
    whole = joint if joint[: len(prompt)] == prompt else prompt + alone()
    return Encoded([*whole, end], len(prompt))
