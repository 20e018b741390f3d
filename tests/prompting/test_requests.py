"""A request's key is over everything that shapes its answer, and nothing else."""

import dataclasses

import pytest

from mmgen.errors import UserError
from mmgen.prompting.backends import open_backend
from mmgen.prompting.requests import (
    Decoding,
    Picture,
    Request,
    Text,
    Turn,
    request_key,
    sample_seed,
)

IDENTITY = {"backend": "fake", "name": "perfect"}
PIXELS = b"not really a png"


def ask(*parts, **changes) -> Request:
    turn = Turn("user", parts or (Text("Which one?"),))
    return dataclasses.replace(Request("7", "Be brief.", (turn,)), **changes)


def test_the_key_changes_with_all_that_shapes_the_answer():
    variants = [
        ask(),
        ask(Text("Which two?")),
        ask(Text("Which "), Text("one?")),
        ask(Text("Which one?"), Picture(data=PIXELS)),
        ask(Text("Which one?"), Picture(data=PIXELS + b"!")),
        ask(system=""),
        ask(turns=(Turn("assistant", (Text("Which one?"),)),)),
        ask(choices=("1", "2")),
        ask(want="image"),
        ask(decoding=Decoding(max_tokens=4)),
        ask(decoding=Decoding(temperature=0.5)),
        ask(decoding=Decoding(stop=("\n",))),
        ask(seed=1),
        ask(raw=True),
    ]
    keys = [request_key(variant, IDENTITY) for variant in variants]
    keys.append(request_key(ask(), {**IDENTITY, "revision": "b"}))
    assert len(set(keys)) == len(keys)


def test_the_key_does_not_change_with_the_place_of_a_picture_or_the_name_of_the_item(tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(PIXELS)
    keys = {
        request_key(ask(Picture(data=PIXELS)), IDENTITY),
        request_key(ask(Picture(str(file))), IDENTITY),
        request_key(ask(Picture(str(file)), item="8", facts={"perfect": "1"}), IDENTITY),
    }
    assert len(keys) == 1
    file.write_bytes(PIXELS + b"changed")
    assert request_key(ask(Picture(str(file))), IDENTITY) not in keys


def test_a_missing_picture_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.png cannot be read"):
        request_key(ask(Picture(str(tmp_path / "gone.png"))), IDENTITY)


def test_seeds_belong_to_the_sample():
    seeds = {sample_seed(seed, item) for seed in range(3) for item in ("a", "b", "c")}
    assert len(seeds) == 9
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert sample_seed(1, "a") == sample_seed(1, "a")


def test_an_unknown_model_gets_one_sentence():
    with pytest.raises(UserError, match=r"did you mean 'server'"):
        open_backend("serve:http://localhost#x")
