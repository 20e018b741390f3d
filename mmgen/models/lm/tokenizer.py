"""Text to tokens and back as the model was trained: its own tokenizer and its own chat template."""

import hashlib
import importlib.util
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from mmgen.errors import UserError

TEMPLATE_DATE = "26 Jul 2024"
"""What templates that state today's date are given instead: prompts must not change overnight.

It is the date that Llama 3's templates fall back to.
"""


class Untemplated(ValueError):
    """A conversation that the model's chat template refuses."""


class Tokenizer:
    """A tokenizer of transformers with the few operations that prompting needs.

    Attributes:
      where: folder or file it comes from, for errors.
    """

    def __init__(self, tokenizer: Any, where: str):
        self._tokenizer = tokenizer
        self.where = where

    @property
    def has_chat_template(self) -> bool:
        """Whether conversations can be rendered."""
        return bool(self._tokenizer.chat_template)

    @property
    def size(self) -> int:
        """One more than the largest token id."""
        return max(self._tokenizer.get_vocab().values()) + 1

    @property
    def digest(self) -> str:
        """Hex SHA-256 over all that turns text to tokens and back, and the chat template."""
        rules = json.loads(self._tokenizer.backend_tokenizer.to_str())
        # Set by each call for itself.
        rules |= {"truncation": None, "padding": None}
        parts = (
            rules,
            (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id),
            sorted(self._tokenizer.all_special_ids),
            self._tokenizer.chat_template,
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def set_chat_template(self, file: pathlib.Path) -> None:
        """Replaces the chat template; UserError if the file cannot be read."""
        try:
            self._tokenizer.chat_template = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"the chat template {file} cannot be read ({error}).") from None

    def require_chat_template(self) -> None:
        """UserError if conversations cannot be rendered."""
        if not self.has_chat_template:
            raise UserError(
                f"the tokenizer of {self.where} has no chat template, so it cannot hold a "
                "conversation; give the model's template (config.model.chat_template=FILE), or an "
                "instruction-tuned model."
            )
        if importlib.util.find_spec("jinja2") is None:
            raise UserError("chat templates need jinja2: run `pip install 'mmgen[lm]'`.")

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The conversation as the model was trained to see it, up to where it speaks.

        Args:
          messages: each with `role` ("system", "user" or "assistant") and `content`.

        Raises:
          Untemplated: the template refuses it, as some refuse a system message.
        """
        import jinja2

        try:
            return self._tokenizer.apply_chat_template(
                list(messages),
                tokenize=False,
                add_generation_prompt=True,
                date_string=TEMPLATE_DATE,
            )
        except jinja2.TemplateError as error:
            raise Untemplated(f"the chat template refuses the conversation: {error}") from None

    def encode(self, text: str, *, rendered: bool) -> list[int]:
        """Token ids; with the tokenizer's begin-of-text unless a template has `rendered` it."""
        return self._tokenizer.encode(text, add_special_tokens=not rendered)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones left out, spaces as they are."""
        return self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


def read_tokenizer(folder: pathlib.Path) -> Tokenizer:
    """The tokenizer of a Hugging Face folder.

    Raises:
      UserError: there is none, or transformers cannot read it.
    """
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        raise UserError(
            f"{folder} holds no tokenizer (tokenizer.json); copy the tokenizer files from where "
            "the model was published."
        )
    try:
        tokenizer = import_transformers().AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UserError(f"the tokenizer in {folder} cannot be read ({reason}).") from None
    return Tokenizer(tokenizer, str(folder))


def import_transformers() -> Any:
    """The package, without its advice to install PyTorch."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    import transformers

    return transformers
