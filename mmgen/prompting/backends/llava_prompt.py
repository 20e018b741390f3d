"""Requests as LLaVA-1.5 reads them: one text in which a token stands for each picture."""

from collections.abc import Sequence
from typing import Any

from mmgen.models.lm.llava_model import LlavaModel
from mmgen.models.lm.tokenizer import Tokenizer, Untemplated
from mmgen.prompting.backends.jax_options import Unanswerable
from mmgen.prompting.requests import Picture, Request, Text, Turn

IMAGE = "<image>"

SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions."
)
"""What Vicuna v1 was told, and so LLaVA-1.5."""

OWN, VICUNA = "own", "vicuna_v1"


def choose_template(tokenizer: Tokenizer) -> str:
    """`OWN` if the tokenizer's chat template keeps pictures where they stand, else `VICUNA`.

    The templates of converted LLaVA folders put all pictures first, which would tear them from the
    words that they belong to. LLaVA's own code places each where it is, in a Vicuna conversation.
    """
    if not tokenizer.has_chat_template:
        return VICUNA
    parts = (Text("first"), Picture(data=b""), Text("second"), Picture(data=b""), Text("third"))
    tokenizer.require_chat_template()
    try:
        shown = tokenizer.render(_messages("", (Turn("user", parts),)))
    except Untemplated:
        return VICUNA
    return OWN if f"first{IMAGE}second{IMAGE}third" in shown else VICUNA


def prompt_text(request: Request, template: str, tokenizer: Tokenizer) -> str:
    """The text up to where the model speaks, `IMAGE` for each picture."""
    if request.raw:
        return "".join(_shown(turn.parts) for turn in request.turns)
    if template == OWN:
        return tokenizer.render(_messages(request.system, request.turns))
    return vicuna(request.system, request.turns)


def vicuna(system: str, turns: Sequence[Turn]) -> str:
    """A conversation in the form of Vicuna v1 (LLaVA's `conv_vicuna_v1`)."""
    text = f"{system or SYSTEM} "
    for turn in turns:
        said = _shown(turn.parts)
        text += f"USER: {said} " if turn.role == "user" else f"ASSISTANT: {said}</s>"
    return f"{text}ASSISTANT:"


def prompt_ids(request: Request, template: str, model: LlavaModel, choice: str = "") -> list[int]:
    """Tokens of the prompt, and of a choice after it, one per picture.

    Raises:
      Unanswerable: its words hold the token of a picture.
    """
    tokenizer = model.language.tokenizer
    rendered = template == OWN and not request.raw
    text = prompt_text(request, template, tokenizer) + choice
    ids = tokenizer.encode(text, rendered=rendered)
    if ids.count(model.config.image_token) != len(request.pictures):
        raise Unanswerable(
            f"the prompt has {len(request.pictures)} pictures, but {IMAGE} stands in it "
            f"{ids.count(model.config.image_token)} times"
        )
    return ids


def _messages(system: str, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """As the templates of models that see want it: content in typed parts."""
    said = [{"role": "system", "content": [_typed(Text(system))]}] if system else []
    return said + [{"role": t.role, "content": [_typed(part) for part in t.parts]} for t in turns]


def _typed(part: Text | Picture) -> dict[str, str]:
    return {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}


def _shown(parts: Sequence[Text | Picture]) -> str:
    return "".join(part.text if isinstance(part, Text) else IMAGE for part in parts)
