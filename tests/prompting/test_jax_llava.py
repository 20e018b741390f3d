"""The LLaVA backend on tiny random weights: conversations, interleaved pictures, batches."""

import io
import json
import pathlib
import shutil

import numpy as np
import pytest
from peers.pictures import pictures

from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.backends.jax_llava import open_jax_llava
from mmgen.prompting.backends.llava_prompt import OWN, SYSTEM, VICUNA, choose_template, vicuna
from mmgen.prompting.requests import Decoding, Picture, Request, Text, Turn

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures" / "llava"


def encoded(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return Picture(data=buffer.getvalue())


RED, BLUE = (encoded(picture) for picture in pictures()[:2])
FEW = Decoding(max_tokens=6)


def raw(*parts, **settings):
    settings = {"decoding": FEW, **settings}
    return Request(item="i", system="", turns=(Turn("user", parts),), raw=True, **settings)


INTERLEAVED = raw(Text("red: "), RED, Text("blue: "), BLUE, Text("green: "))
SHORT = raw(Text("one "), RED)


@pytest.fixture(scope="module")
def backend():
    return open_jax_llava(str(FOLDER), BackendOptions(batch_size=2))


@pytest.fixture(scope="module")
def answers(backend):
    """Both prompts of the fixture, and what cannot be asked, in one call."""
    requests = [
        INTERLEAVED,
        SHORT,
        raw(Text("a <image>")),
        raw(Text("a" * 300)),
        raw(RED, want="image"),
        raw(Picture(data=b"no picture")),
        raw(Text("a"), decoding=Decoding(max_tokens=6, temperature=-1.0)),
        raw(Text("a"), decoding=Decoding(max_tokens=0)),
        raw(Text("a"), decoding=Decoding(max_tokens=6, top_p=0.0)),
    ]
    return dict(backend.answer(requests))


def test_greedy_answers_are_transformers(backend, answers):
    with np.load(FOLDER / "expected.npz") as expected:
        for row in range(2):
            tokens = expected[f"greedy/{row}"].tolist()
            text = backend._model.language.tokenizer.decode(tokens).strip()
            assert answers[row].text == text
            assert answers[row].prompt_tokens == len(expected[f"ids/{row}"])


def test_what_cannot_be_asked_is_an_error_of_its_own(answers):
    assert "stands in it 1 times" in answers[2].error
    assert "301 tokens" in answers[3].error
    assert "paints no pictures" in answers[4].error
    assert "cannot be decoded" in answers[5].error
    for row in (6, 7, 8):
        assert "cannot be: at least 0, in (0, 1], at least 1" in answers[row].error


def test_the_order_of_pictures_matters_and_that_of_requests_does_not(backend, answers):
    swapped = raw(Text("red: "), BLUE, Text("blue: "), RED, Text("green: "))
    again = dict(backend.answer([SHORT, swapped, INTERLEAVED]))
    assert again[2].text == answers[0].text
    assert again[0].text == answers[1].text
    assert again[1].text != answers[0].text


def test_choices_are_scored_after_pictures(backend):
    one = raw(Text("red: "), RED, Text("blue: "), choices=("a cat", "a hat", "ten"))
    ((_, answer),) = backend.answer([one])
    assert answer.token_counts == (5, 5, 3)
    assert all(score < 0 for score in answer.scores)


def test_conversations_are_vicunas():
    turns = (
        Turn("user", (Text("red: "), RED, Text("blue: "))),
        Turn("assistant", (Text("a hat"),)),
        Turn("user", (Text("and "), BLUE)),
    )
    said = "USER: red: <image>blue:  ASSISTANT: a hat</s>USER: and <image> ASSISTANT:"
    assert vicuna("", turns) == f"{SYSTEM} {said}"
    assert vicuna("Be brief.", turns).startswith("Be brief. USER: ")


IN_ORDER = (
    "{% for m in messages %}{% for c in m['content'] %}"
    "{{ c['text'] if c['type'] == 'text' else '<image>' }}{% endfor %}{% endfor %}"
)
PICTURES_FIRST = (
    "{% for m in messages %}{% for c in m['content'] if c['type'] == 'image' %}<image>\n"
    "{% endfor %}{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }}{% endfor %}"
    "{% endfor %}"
)


@pytest.mark.parametrize(("template", "chosen"), [(IN_ORDER, OWN), (PICTURES_FIRST, VICUNA)])
def test_a_template_that_moves_pictures_is_not_used(tmp_path, template, chosen):
    from mmgen.models.lm.tokenizer import read_tokenizer

    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER / name, tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    assert choose_template(read_tokenizer(tmp_path)) == chosen


def test_identity_tells_models_and_settings_apart(backend):
    identity = backend.identity
    assert identity["template"] == VICUNA
    json.dumps(identity)
    assert identity["ends"] == list(backend._model.language.config.eos)
    shorter = open_jax_llava(str(FOLDER), BackendOptions(max_context=20))
    assert shorter.identity != identity
    ((_, answer),) = shorter.answer([INTERLEAVED])
    assert "reads 20" in answer.error


def test_the_identity_is_made_once(backend, monkeypatch):
    from mmgen.models.lm.tokenizer import Tokenizer

    monkeypatch.setattr(Tokenizer, "digest", property(lambda _: pytest.fail("hashed again")))
    assert backend.identity == backend.identity


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "llava")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="holds no tokenizer"):
        open_jax_llava(str(folder), BackendOptions())
