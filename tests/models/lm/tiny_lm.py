"""A tiny language model with a tokenizer of letters, as a folder and opened."""

import contextlib
import functools
import json
import pathlib
from collections.abc import Iterator

import jax
import pytest
from models.tiny_models import QUICK
from peers import lm_folders
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from mmgen.core.mesh import make_mesh
from mmgen.models.lm import generate, score
from mmgen.models.lm.model import LanguageModel, open_model

TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{ raise_exception('no system messages here') }}{% endif %}"
    "[{{ message['role'][0] }}]{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[a]{% endif %}"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz []."


def write_tokenizer(folder: pathlib.Path, template: str | None = TEMPLATE) -> None:
    """One token per letter, and "th" as one; begin and end of text as ids 1 and 2."""
    specials = ["<unk>", "<s>", "</s>"]
    vocabulary = {token: row for row, token in enumerate([*specials, *LETTERS, "th"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("t", "h")], unk_token="<unk>"))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("]", "merged_with_previous")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_model(
    folder: pathlib.Path, name: str = "llama", template: str | None = TEMPLATE
) -> pathlib.Path:
    """A folder as Hugging Face publishes models."""
    lm_folders.write_folder(folder, lm_folders.config_of(name))
    write_tokenizer(folder, template)
    return folder


def open_tiny(folder: pathlib.Path, name: str = "llama") -> LanguageModel:
    """`write_model`, opened on one device."""
    return open_model(write_model(folder, name), make_mesh(data=1))


@contextlib.contextmanager
def quick_programs() -> Iterator[None]:
    """Generation and scoring compiled in a hurry, for tests that run them a handful of times."""
    static = ("config", "dtype")
    with pytest.MonkeyPatch.context() as patch:
        for module, name, settings in (
            (generate, "_read", {"static_argnames": (*static, "room")}),
            (generate, "_write", {"static_argnames": static, "donate_argnums": 1}),
            (score, "_scores", {"static_argnames": static}),
        ):
            quick = functools.partial(jax.jit, compiler_options=QUICK, **settings)
            patch.setattr(module, name, quick(getattr(module, name).__wrapped__))
        yield
