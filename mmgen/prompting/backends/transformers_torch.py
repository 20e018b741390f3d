"""Hugging Face models with PyTorch, for what the JAX backend does not cover.

    model=torch:/path/to/folder

Text models and models that read pictures (IDEFICS, the Qwen-VL family, LLaVA, Llama-Vision, ...),
whatever `AutoModelForCausalLM` and `AutoModelForImageTextToText` load; Janus paints pictures, too.
Other painters (Emu3, Chameleon, SEED-LLaMA) need code of their own: run it, and give its outputs as
model=folder:DIR.

One request at a time, with the sample's own seed, so that answers do not depend on batches. Choices
are tokenised together with their prompt; what all tokenizations share in front is the prompt.
"""

import io
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mmgen.errors import UserError
from mmgen.models.lm.score import split_choices
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.requests import Answer, Picture, Request, Text

INSTALL = "pip install 'mmgen[torch]'"

PAINTERS = ("janus",)
"""`model_type` of models that generate pictures through `generate(generation_mode="image")`."""

DIGESTED = (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt")
"""Endings of the files whose contents are the model's identity."""


class TorchBackend:
    """See the module; a `Backend`.

    Args:
      torch: the module.
      model: with `generate`, `__call__`, `config` and `device`.
      processor: a processor, or the tokenizer of a text model.
      facts: of its identity.
      reads_images: is `processor` one that takes pictures?
      max_context: tokens that prompt and answer may have; None is the model's limit.
    """

    batch_size = 1
    scores_choices = True

    def __init__(
        self,
        torch: Any,
        model: Any,
        processor: Any,
        facts: Mapping[str, Any],
        *,
        reads_images: bool,
        max_context: int | None = None,
    ):
        self._torch = torch
        self._model = model
        self._processor = processor
        self._tokenizer = getattr(processor, "tokenizer", processor)
        config = getattr(model.config, "text_config", model.config)
        self._max_context = max_context or getattr(config, "max_position_embeddings", None)
        self.reads_images = reads_images
        self.paints = getattr(model.config, "model_type", "") in PAINTERS
        self.identity: Mapping[str, Any] = {"backend": "torch", **facts}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend.answer`."""
        for index, request in enumerate(requests):
            start = time.perf_counter()
            answer = self._one(request)
            yield index, answer._replace(seconds=time.perf_counter() - start)

    def _one(self, request: Request) -> Answer:
        if request.pictures and not self.reads_images:
            return Answer(error="this model reads no pictures")
        if request.want == "image" and not self.paints:
            return Answer(error="this model paints no pictures")
        try:
            images = [_open(picture) for picture in request.pictures]
        except (OSError, ValueError) as error:
            return Answer(error=f"a picture does not decode ({error})")
        text = self._rendered(request)
        with self._torch.inference_mode():
            if request.choices:
                return self._scored(request, text, images)
            if request.want == "image":
                return self._painted(request, text, images)
            return self._generated(request, text, images)

    def _rendered(self, request: Request) -> str:
        """The prompt as the model's own text, with a placeholder for each picture."""
        if request.raw:
            mark = getattr(self._processor, "image_token", "<image>")
            return "".join(
                part.text if isinstance(part, Text) else str(mark)
                for turn in request.turns
                for part in turn.parts
            )
        if not getattr(self._processor, "chat_template", None):
            raise UserError(
                "the model has no chat template; give one by config.model.chat_template, or ask "
                "in plain text (chat=false)."
            )
        return self._processor.apply_chat_template(
            self._messages(request), tokenize=False, add_generation_prompt=True
        )

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if request.system:
            found.append({"role": "system", "content": self._content([Text(request.system)])})
        turns = ({"role": t.role, "content": self._content(t.parts)} for t in request.turns)
        return [*found, *turns]

    def _content(self, parts: Sequence[Text | Picture]) -> Any:
        """Plain text for tokenizers, a list of parts for processors."""
        if not self.reads_images:
            return "".join(part.text for part in parts if isinstance(part, Text))
        return [
            {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
            for part in parts
        ]

    def _inputs(self, text: str, images: Sequence[Any], raw: bool, **options: Any) -> Any:
        # Chat templates write the special tokens themselves.
        options |= {"return_tensors": "pt", "add_special_tokens": raw}
        if images:
            options["images"] = list(images)
        return self._processor(text=[text], **options).to(self._model.device)

    def _generated(self, request: Request, text: str, images: Sequence[Any]) -> Answer:
        inputs = self._inputs(text, images, request.raw)
        length = inputs["input_ids"].shape[1]
        decoding = request.decoding
        if error := self._too_long(length, decoding.max_tokens):
            return Answer(error=error)
        options: dict[str, Any] = {"max_new_tokens": decoding.max_tokens, "do_sample": False}
        if decoding.temperature > 0:
            options |= {
                "do_sample": True,
                "temperature": decoding.temperature,
                "top_p": decoding.top_p,
                "top_k": 0,
            }
        if decoding.stop:
            options |= {"stop_strings": list(decoding.stop), "tokenizer": self._tokenizer}
        self._torch.manual_seed(request.seed)
        new = self._model.generate(**inputs, **options)[0][length:].tolist()
        said = self._tokenizer.decode(new, skip_special_tokens=True)
        for stop in decoding.stop:
            said = said.split(stop)[0]
        return Answer(text=said, prompt_tokens=length, generated_tokens=len(new))

    def _scored(self, request: Request, text: str, images: Sequence[Any]) -> Answer:
        prompt = self._inputs(text, images, request.raw)["input_ids"][0].tolist()
        read = [self._inputs(text + choice, images, request.raw) for choice in request.choices]
        texts = [inputs["input_ids"][0].tolist() for inputs in read]
        if error := self._too_long(max(map(len, texts)), 0):
            return Answer(error=error)
        start, endings = split_choices(prompt, texts)
        if not start:
            return Answer(error="the prompt has no token that the choices go on from")
        for choice, tokens in zip(request.choices, endings, strict=True):
            if not tokens:
                return Answer(error=f"the choice {choice!r} adds no token to the prompt")
        scores = []
        for inputs, tokens in zip(read, endings, strict=True):
            logits = self._model(**inputs).logits[0][start - 1 : -1].float().cpu().numpy()
            scores.append(_log_probability(logits, tokens))
        counts = tuple(map(len, endings))
        return Answer(scores=tuple(scores), token_counts=counts, prompt_tokens=len(prompt))

    def _painted(self, request: Request, text: str, images: Sequence[Any]) -> Answer:
        inputs = self._inputs(text, images, request.raw, generation_mode="image")
        self._torch.manual_seed(request.seed)
        sampled = request.decoding.temperature > 0
        tokens = self._model.generate(**inputs, generation_mode="image", do_sample=sampled)
        pixels = self._model.decode_image_tokens(tokens)
        (image,) = self._processor.post_process_multimodal_output(pixels, generation_mode="image")
        out = io.BytesIO()
        image.save(out, "PNG")
        return Answer(image=out.getvalue(), prompt_tokens=inputs["input_ids"].shape[1])

    def _too_long(self, length: int, more: int) -> str:
        if self._max_context is None or length + more <= self._max_context:
            return ""
        return (
            f"the prompt has {length:,} tokens and the answer may have {more:,}, but the context "
            f"is {self._max_context:,}"
        )


def open_torch(target: str, options: BackendOptions) -> TorchBackend:
    """The model in the folder `target`, on a GPU if there is one.

    Raises:
      UserError: PyTorch is not installed, no such folder, or a model that does not load.
    """
    root = pathlib.Path(target).expanduser()
    if not (root / "config.json").is_file():
        raise UserError(f"model=torch:{target}: there is no config.json in that folder.")
    try:
        import torch
        import transformers
    except ImportError:
        raise UserError(f"model=torch: needs PyTorch: {INSTALL}") from None
    from mmgen.models.lm.model import file_digest

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = options.dtype or ("bfloat16" if device == "cuda" else "float32")
    try:
        config = transformers.AutoConfig.from_pretrained(root)
        sees = getattr(config, "vision_config", None) is not None
        kind = (
            transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
        )
        reader = transformers.AutoProcessor if sees else transformers.AutoTokenizer
        loaded: Any = kind.from_pretrained(root, dtype=getattr(torch, dtype))
        model = loaded.to(device).eval()
        processor = reader.from_pretrained(root)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"model=torch:{target} does not load ({error}).") from None
    files = sorted(f for f in root.iterdir() if f.suffix in DIGESTED)
    facts = {"name": root.name, "digest": file_digest(files), "dtype": dtype}
    if options.chat_template:
        processor.chat_template = pathlib.Path(options.chat_template).read_text(encoding="utf-8")
        facts["template"] = file_digest([pathlib.Path(options.chat_template)])
    return TorchBackend(
        torch, model, processor, facts, reads_images=sees, max_context=options.max_context
    )


def _open(picture: Picture) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(picture.read())).convert("RGB")


def _log_probability(logits: Float[np.ndarray, "t v"], tokens: Sequence[int]) -> float:
    """Sum of the log-probabilities of tokens, each under its row of logits."""
    total = np.logaddexp.reduce(logits.astype(np.float64), axis=-1)
    chosen = logits[np.arange(len(tokens)), tokens]
    return float((chosen - total).sum())
