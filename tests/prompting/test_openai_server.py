"""The server backend against a real server that answers late, wrongly or not at all."""

import dataclasses

import pytest
from rude_server import KEY, serving

from mmgen.errors import UserError
from mmgen.prompting.backends import http_client, open_backend
from mmgen.prompting.requests import Decoding, Picture, Request, Text, Turn

PNG = b"\x89PNG\r\n and so on"


@pytest.fixture
def rude(monkeypatch):
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("MMGEN_API_KEY", KEY)
    with serving() as (server, address):
        server.address = address
        yield server


def open_at(server, **options):
    options = {"timeout": 0.3, "attempts": 3, "concurrency": 4} | options
    return open_backend(f"server:{server.address}#parrot@r1", **options)


def ask(*words, **changes) -> Request:
    turns = tuple(Turn("user", (Text(word),)) for word in words)
    return dataclasses.replace(Request(words[0], "", turns, seed=5), **changes)


def answers(backend, requests):
    return dict(backend.answer(requests))


def test_it_answers_with_bounded_concurrency_and_counts_tokens(rude):
    backend = open_at(rude)
    found = answers(backend, [ask(f"question {n}") for n in range(20)])
    assert {n: a.text for n, a in found.items()} == {n: f"echo of question {n}" for n in range(20)}
    assert found[0].prompt_tokens == 7
    assert found[0].generated_tokens == 3
    assert 1 <= rude.most_in_flight <= 4
    assert rude.keys == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    "act", [429, 500, 503, "garbage", "no json fields", "empty", "slow", "hang up"]
)
def test_a_passing_fault_is_survived_and_a_lasting_one_is_an_error(rude, act):
    backend = open_at(rude)
    rude.script.extend([act, act])
    assert answers(backend, [ask("hello")])[0].text == "echo of hello"
    rude.script.extend([act, act, act])
    answer = answers(backend, [ask("hello")])[0]
    assert answer.text is None
    assert "tried 3 times" in (answer.error or "")


def test_a_refused_request_is_an_error_at_once_and_the_others_go_on(rude):
    backend = open_at(rude, concurrency=1)
    rude.script.append(400)
    found = answers(backend, [ask("too long"), ask("short")])
    assert found[0].error == "HTTP 400: told 400"
    assert found[1].text == "echo of short"


@pytest.mark.parametrize(("act", "sentence"), [(401, "refuses the key"), (404, "does not know")])
def test_what_concerns_every_request_stops_the_run(rude, act, sentence):
    backend = open_at(rude)
    rude.script.extend([act] * 9)
    with pytest.raises(UserError, match=sentence):
        answers(backend, [ask(f"question {n}") for n in range(9)])


def test_no_server_gets_one_sentence():
    with pytest.raises(UserError, match="no server answers at"):
        open_backend("server:http://127.0.0.1:9/v1#x", timeout=1.0)
    with pytest.raises(UserError, match="is no server; write server:"):
        open_backend("server:localhost")


def test_the_key_is_in_no_message(rude):
    backend = open_at(rude)
    rude.script.append("repeat key")
    answer = answers(backend, [ask("hello")])[0]
    assert answer.error == "HTTP 400: Bearer [key]"
    assert KEY not in str(backend.identity)


def test_a_request_is_sent_as_it_is(rude):
    backend = open_at(rude)
    parts = (Text("What is this? "), Picture(data=PNG))
    decoding = Decoding(max_tokens=9, temperature=0.5, top_p=0.9, stop=("\n",))
    turns = (Turn("user", parts), Turn("assistant", (Text("A cup."),)), Turn("user", parts))
    answers(backend, [ask("x", system="Be brief.", turns=turns, decoding=decoding)])
    body = rude.bodies[-1]
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    image = body["messages"][1]["content"][1]["image_url"]["url"]
    assert image.startswith("data:image/png;base64,")
    assert (body["max_tokens"], body["temperature"], body["top_p"], body["stop"], body["seed"]) == (
        9,
        0.5,
        0.9,
        ["\n"],
        5,
    )


def test_plain_text_goes_to_completions_and_its_choices_are_scored_by_echo(rude):
    backend = open_at(rude)
    assert backend.scores_choices
    raw = ask("one two", raw=True)
    assert answers(backend, [raw])[0].text == "echo of one two"
    scored = dataclasses.replace(raw, choices=(" 1", " four more"))
    answer = answers(backend, [scored])[0]
    assert answer.scores == (-2.0, -5.0 - 5.0)
    assert answer.token_counts == (1, 2)


def test_choices_of_a_chat_are_scored_by_its_first_token(rude):
    backend = open_at(rude)
    answer = answers(backend, [ask("which?", choices=("1", "2", "3"))])[0]
    assert answer.scores == (-1.5, -3.0, -0.5)
    lost = answers(backend, [ask("which?", choices=("7", "8"))])[0]
    assert lost.scores is None
    assert "none of 7, 8" in (lost.error or "")


def test_a_choice_of_several_tokens_is_scored_by_the_one_that_it_alone_begins_with(rude):
    backend = open_at(rude)
    rude.top = [("", -0.1), ("S", -0.5), ("Sì", -0.9), (" No", -1.5), ("x", -3)]
    answer = answers(backend, [ask("which?", choices=("No", "Sì", "Forse"))])[0]
    assert answer.scores == (-1.5, -0.5, -3)
    shared = answers(backend, [ask("which?", choices=("Sì", "So", "No"))])[0]
    assert shared.scores is None
    assert "Sì and So begin with the same token 'S'" in (shared.error or "")


def test_echoed_choices_are_scored_over_the_same_characters(rude):
    # "two" and the first choice are one token; the second choice is one of its own.
    raw = ask("one two", raw=True, choices=("some", " more"))
    answer = answers(open_at(rude), [raw])[0]
    assert answer.scores == (-8.0, -4.0 - 5.0)
    assert answer.token_counts == (1, 2)


def test_a_server_without_log_probabilities_says_so(rude):
    rude.echoes = rude.lists_tokens = False
    assert not open_at(rude).scores_choices


@pytest.mark.parametrize("act", [400, 404, 501, "no json fields"])
def test_what_is_refused_or_unreadable_is_not_offered(rude, act):
    rude.script.extend([act] * (3 if act == "no json fields" else 1))
    rude.lists_tokens = False
    assert not open_at(rude).scores_choices


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (429, "does not say now"),
        (503, "does not say now"),
        ("slow", "does not say now"),
        (401, "refuses the key"),
    ],
)
def test_a_passing_failure_of_the_question_is_no_answer_to_it(rude, act, sentence):
    rude.script.extend([act] * 3)
    with pytest.raises(UserError, match=sentence):
        _ = open_at(rude).scores_choices
    rude.script.clear()
    assert open_at(rude).scores_choices


def test_a_model_that_neither_path_knows_is_told(rude):
    rude.script.extend([404, 404])
    with pytest.raises(UserError, match="does not know the model or the path"):
        _ = open_at(rude).scores_choices


def test_stopping_does_not_wait_for_what_is_in_flight(rude):
    backend = open_at(rude, concurrency=2)
    rude.script.extend([None, "slow", "slow", "slow"])
    stream = backend.answer([ask(f"question {n}") for n in range(4)])
    next(stream)
    stream.close()
    assert len(rude.bodies) < 5
