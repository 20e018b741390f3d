"""The PyTorch backend with a stand-in for the model: what it is asked, and how it is read.

The stand-in says the next letter of the alphabet and prefers it by one nat; its tokens are letters.
"""

import contextlib
import dataclasses
import importlib.util
import types
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions, open_backend
from mmgen.prompting.backends.transformers_torch import TorchBackend, open_torch
from mmgen.prompting.requests import Decoding, Picture, Request, Text, Turn

ROWS = 128


class Tensor:
    def __init__(self, data):
        self.data = np.asarray(data)
        self.shape = self.data.shape

    def __getitem__(self, index):
        return Tensor(self.data[index])

    def tolist(self):
        return self.data.tolist()

    def float(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.data


class Inputs(dict):
    def to(self, device):
        return self


class Letters:
    """A tokenizer or processor whose tokens are characters."""

    chat_template = "a template"
    image_token = "@"

    def __init__(self):
        self.calls = []

    def __call__(self, text, **options):
        self.calls.append(options)
        return Inputs(input_ids=Tensor([[ord(letter) for letter in text[0]]]))

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        assert not tokenize
        assert add_generation_prompt
        return "|".join(f"{m['role']}:{_shown(m['content'])}" for m in messages) + ">"

    def decode(self, tokens, skip_special_tokens):
        return "".join(map(chr, tokens))

    def post_process_multimodal_output(self, pixels, generation_mode):
        return [Image.new("RGB", (4, 4), "red")]


def _shown(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "@") for part in content)


class Alphabet:
    """Continues with the next letters."""

    device = "cpu"

    def __init__(self, model_type="idefics3", context=64):
        self.config = types.SimpleNamespace(model_type=model_type, max_position_embeddings=context)
        self.options = []

    def generate(self, input_ids, **options):
        self.options.append(options)
        ids = input_ids.data[0].tolist()
        for _ in range(options.get("max_new_tokens", 3)):
            ids.append(ids[-1] + 1)
        return Tensor([ids])

    def __call__(self, input_ids):
        ids = input_ids.data[0]
        logits = np.zeros((1, len(ids), ROWS))
        logits[0, np.arange(len(ids)), ids + 1] = 1.0
        return types.SimpleNamespace(logits=Tensor(logits))

    def decode_image_tokens(self, tokens):
        return tokens


class Torch:
    seeds: ClassVar[list[int]] = []

    inference_mode = staticmethod(contextlib.nullcontext)

    def manual_seed(self, seed):
        self.seeds.append(seed)


def backend(reads_images=True, **model):
    return TorchBackend(
        Torch(), Alphabet(**model), Letters(), {"name": "letters"}, reads_images=reads_images
    )


def ask(*parts, **changes):
    request = Request("1", "", (Turn("user", parts),), decoding=Decoding(max_tokens=3), seed=7)
    return dataclasses.replace(request, **changes)


def answer(one, request):
    ((_, found),) = one.answer([request])
    return found


def picture():
    import io

    out = io.BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    return Picture(data=out.getvalue())


def test_plain_text_is_continued_greedily_and_counted():
    one = backend()
    found = answer(one, ask(Text("abc"), raw=True))
    assert (found.text, found.prompt_tokens, found.generated_tokens) == ("def", 3, 3)
    assert one._model.options[0]["do_sample"] is False
    assert one._processor.calls[0]["add_special_tokens"] is True
    assert Torch.seeds[-1] == 7


def test_a_chat_goes_through_the_template_with_pictures_in_their_places():
    one = backend()
    request = ask(Text("see "), picture(), Text(" it"), system="be brief")
    found = answer(one, request)
    assert found.text == "?@A"
    (call,) = one._processor.calls
    assert call["add_special_tokens"] is False
    assert len(call["images"]) == 1
    assert one._rendered(request) == "system:be brief|user:see @ it>"
    assert one._rendered(ask(Text("see "), picture(), raw=True)) == "see @"


def test_sampling_and_stops():
    one = backend()
    decoding = Decoding(max_tokens=3, temperature=0.7, top_p=0.9, stop=("e",))
    assert answer(one, ask(Text("abc"), raw=True, decoding=decoding)).text == "d"
    options = one._model.options[0]
    assert (options["do_sample"], options["temperature"], options["top_p"]) == (True, 0.7, 0.9)
    assert options["stop_strings"] == ["e"]


def test_choices_are_scored_by_their_own_tokens():
    found = answer(backend(), ask(Text("abc"), raw=True, choices=("d", "de", "x")))
    likely = 1 - np.log(np.e + ROWS - 1)
    np.testing.assert_allclose(found.scores, [likely, 2 * likely, likely - 1])
    assert found.token_counts == (1, 2, 1)


class Merging(Letters):
    """Has one token, 1, for the last letter of the prompt and the first of a choice."""

    def __call__(self, text, **options):
        return super().__call__([text[0].replace("cd", "\1")], **options)


def test_choices_are_scored_over_the_same_characters():
    one = backend()
    one._processor = Merging()
    found = answer(one, ask(Text("abc"), raw=True, choices=("d", "x")))
    likely = 1 - np.log(np.e + ROWS - 1)
    np.testing.assert_allclose(found.scores, [likely - 1, likely + likely - 1])
    assert found.token_counts == (1, 2)
    empty = answer(backend(), ask(Text(""), raw=True, choices=("d", "x")))
    assert "no token that the choices go on from" in empty.error
    assert "adds no token" in answer(backend(), ask(Text("a"), raw=True, choices=("", "x"))).error


def test_what_cannot_be_asked_is_an_error_of_that_request():
    assert "context is 64" in answer(backend(), ask(Text("a" * 70), raw=True)).error
    assert "reads no pictures" in answer(backend(reads_images=False), ask(picture())).error
    assert "does not decode" in answer(backend(), ask(Picture(data=b"no"))).error
    assert "paints no pictures" in answer(backend(), ask(Text("a"), want="image")).error
    bare = backend()
    bare._processor.chat_template = None
    with pytest.raises(UserError, match="no chat template"):
        answer(bare, ask(Text("a")))


def test_janus_paints():
    found = answer(backend(model_type="janus"), ask(Text("red"), want="image"))
    assert found.image.startswith(b"\x89PNG")


def test_opening_without_a_folder_or_without_pytorch(tmp_path):
    with pytest.raises(UserError, match=r"no config\.json"):
        open_torch(str(tmp_path), BackendOptions())
    (tmp_path / "config.json").write_text("{}")
    if importlib.util.find_spec("torch") is None:
        with pytest.raises(UserError, match=r"pip install 'mmgen\[torch\]'"):
            open_backend(f"torch:{tmp_path}")
