"""The JAX backend: what it is asked comes back, and what it cannot be asked is an error."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from models.lm.tiny_lm import quick_programs, write_model

from mmgen.errors import UserError
from mmgen.models.lm.model import find_package
from mmgen.models.lm.tokenizer import read_tokenizer
from mmgen.prompting.backends import open_backend
from mmgen.prompting.requests import Decoding, Picture, Request, Text, Turn

TESTS = pathlib.Path(__file__).parents[1]
FEW = Decoding(max_tokens=6)


@pytest.fixture(scope="module", autouse=True)
def quick():
    with quick_programs():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def backend(folder):
    return open_backend(f"jax:{folder}", batch_size=4)


def ask(text, *, system="", **settings):
    turns = (Turn("user", (Text(text),)),)
    return Request("item", system, turns, **{"decoding": FEW, **settings})


def answers(backend, requests):
    found = dict(backend.answer(requests))
    assert sorted(found) == list(range(len(requests)))
    return [found[index]._replace(seconds=0.0) for index in range(len(requests))]


MIXED = [
    ask("the cat"),
    ask("which", choices=("a cat", "dog", "the")),
    ask("go on", raw=True, decoding=Decoding(6, temperature=1.0, top_p=0.9), seed=3),
    ask("and now something quite long to read", decoding=Decoding(6, temperature=1.0), seed=1),
    ask("go t", raw=True, choices=("hen", "oo")),
]


def test_requests_of_all_kinds_are_answered_in_any_company(backend):
    together = answers(backend, MIXED)
    assert [one.error for one in together] == [None] * len(MIXED)
    assert answers(backend, MIXED[::-1]) == together[::-1]
    assert answers(backend, MIXED[3:4]) == together[3:4]
    first, scored, drawn, _, merged = together
    # "[u]the cat[a]" has 12 letters and one "th"; a raw text begins with <s>.
    assert (first.prompt_tokens, drawn.prompt_tokens) == (12, 6)
    assert first.generated_tokens <= 6 and first.scores is None
    assert scored.token_counts == (5, 3, 2) and all(score < 0 for score in scored.scores)
    # "go t" + "hen" merges into "th", so both choices are scored from the "t" on.
    assert merged.token_counts == (3, 3)


def test_a_prompt_that_does_not_fit_is_an_error_with_its_length(folder):
    backend = open_backend(f"jax:{folder}", batch_size=4, max_context=20)
    long, fits, choice = answers(
        backend,
        [ask("a" * 15), ask("a" * 8), ask("a" * 10, choices=("b", "bcdef"))],
    )
    assert (
        "the prompt has 21 tokens and the answer may have 6, but the model reads 20" in long.error
    )
    assert long.text is None and fits.error is None
    assert "has 16 tokens and the answer may have 5" in choice.error


def test_what_it_cannot_be_asked_is_an_error_of_that_request(backend):
    wrong = [
        ask("a", system="be brief"),
        Request("item", "", (Turn("user", (Text("a"), Picture(data=b"x"))),)),
        ask("a", want="image"),
        ask("a", choices=("b", "")),
        ask("a", decoding=Decoding(6, top_p=1.5)),
    ]
    *failed, fine = answers(backend, [*wrong, MIXED[0]])
    said = ["no system messages here", "no pictures", "paints no", "is empty", "top_p 1.5"]
    for answer, words in zip(failed, said, strict=True):
        assert words in answer.error and answer.text is answer.scores is None
    assert fine.error is None


def test_a_conversation_needs_a_chat_template(tmp_path):
    folder = write_model(tmp_path, template=None)
    backend = open_backend(f"jax:{folder}", batch_size=4)
    with pytest.raises(UserError, match=f"{folder} has no chat template"):
        list(backend.answer([MIXED[2], MIXED[0]]))
    assert answers(backend, [MIXED[2]])[0].error is None
    template = tmp_path / "own.jinja"
    template.write_text("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    given = open_backend(f"jax:{folder}", batch_size=4, chat_template=str(template))
    assert answers(given, [MIXED[0]])[0].prompt_tokens == len("the cat") - 1
    assert given.identity != backend.identity


def test_identity_tells_what_decides_answers_and_no_path(folder, backend):
    assert json.loads(json.dumps(backend.identity)) == backend.identity
    assert str(folder.parent) not in json.dumps(backend.identity)
    for options in ({"dtype": "bfloat16"}, {"max_context": 30}):
        other = open_backend(f"jax:{folder}", batch_size=4, **options)
        assert other.identity != backend.identity
    assert open_backend(f"jax:{folder}", batch_size=1).identity == backend.identity
    with pytest.raises(UserError, match="batch_size is 0"):
        open_backend(f"jax:{folder}", batch_size=0)


def test_bfloat16_gives_nearly_the_same_scores(folder, backend):
    half = open_backend(f"jax:{folder}", batch_size=4, dtype="bfloat16")
    scores, exact = (answers(one, MIXED[1:2])[0].scores for one in (half, backend))
    np.testing.assert_allclose(scores, exact, rtol=0.05)
    assert scores != exact


SHARDED = """
import json, sys
from mmgen.prompting.backends import open_backend
import jax, test_jax_lm as tests
with tests.quick_programs():
    backend = open_backend(
        f"jax:{sys.argv[1]}", batch_size=4, mesh={"data": 2, "fsdp": 1, "tensor": 2}
    )
    kernel = backend._model.params["layers"]["gate_proj"]["kernel"]
    found = dict(backend.answer(tests.MIXED))
rows = [(found[i].text, found[i].scores, found[i].error) for i in range(len(found))]
print(json.dumps([kernel.sharding.shard_shape(kernel.shape), rows]))
"""


def test_four_devices_answer_like_one(folder, backend):
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "prompting"), *sys.path]),
    }
    command = [sys.executable, "-c", SHARDED, str(folder)]
    process = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr
    shard, rows = json.loads(process.stdout)
    assert shard == [3, 16, 12]
    for (text, scores, error), here in zip(rows, answers(backend, MIXED), strict=True):
        assert (text, error) == (here.text, here.error)
        np.testing.assert_allclose(scores or 0, here.scores or 0, atol=1e-4)


def test_smollm2_knows_the_capital_of_france():
    try:
        find_package("smollm2")
    except UserError as missing:
        pytest.skip(str(missing))
    pytest.importorskip("gguf", reason="needs the package gguf")
    backend = open_backend("jax-package:smollm2", batch_size=2)
    question = "What is the capital of France?"
    choices = (" Paris", " London", " Berlin")
    requests = [
        ask(question, decoding=Decoding(max_tokens=16)),
        dataclasses.replace(ask(f"{question} It is", raw=True), choices=choices),
    ]
    written, scored = answers(backend, requests)
    assert written.text == "The capital of France is Paris."
    assert np.argmax(scored.scores) == 0


def test_whatever_shapes_answers_is_part_of_the_identity(folder, tmp_path):
    def changed(name, change):
        other = shutil.copytree(folder, tmp_path / f"{len(list(tmp_path.iterdir()))}")
        path = other / name
        values = json.loads(path.read_text()) if path.exists() else {}
        change(values)
        path.write_text(json.dumps(values))
        return open_backend(f"jax:{other}").identity

    def same(values):
        del values

    identities = [
        changed("tokenizer.json", same),
        changed("generation_config.json", lambda v: v.update(eos_token_id=[2, 7])),
        changed("tokenizer.json", lambda v: v["model"].update(merges=[])),
        changed("tokenizer.json", lambda v: v.update(normalizer={"type": "Lowercase"})),
        changed("tokenizer.json", lambda v: v.update(post_processor=None)),
    ]
    for identity in identities:
        identity.pop("name")
    told = {json.dumps(identity, sort_keys=True) for identity in identities}
    assert len(told) == len(identities)
    plain = open_backend(f"jax:{folder}").identity
    assert {key: plain[key] for key in identities[0]} == identities[0]


def test_the_tokenizers_digest_is_the_same_after_use(folder):
    tokenizer = read_tokenizer(folder)
    before = tokenizer.digest
    tokenizer.encode("the cat", rendered=False)
    assert tokenizer.digest == before
