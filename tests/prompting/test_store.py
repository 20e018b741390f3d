"""Answers are kept once, errors are never answers, and a torn line costs nothing but itself."""

import json

import pytest

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.backends.fakes import open_fake
from mmgen.prompting.benchmark import Traits
from mmgen.prompting.generate import ask
from mmgen.prompting.requests import Answer, Request, Text, Turn, request_key, sample_seed
from mmgen.prompting.store import ANSWERS, AnswerStore, take_over

PERFECT = open_fake("perfect", BackendOptions())


def question(number: int, **changes) -> Request:
    turns = (Turn("user", (Text(f"{number} + 1?"),)),)
    item = str(number)
    facts = {"perfect": str(number + 1), "options": ("1", "2", "3")}
    return Request(item, "", turns, seed=sample_seed(0, item), facts=facts, **changes)


class Scripted:
    """Answers from a list of (answer or exception), then perfectly; counts what it is asked."""

    reads_images = paints = scores_choices = True
    batch_size = 1
    identity = PERFECT.identity

    def __init__(self, *script, order=list):
        self.script = list(script)
        self.asked: list[str] = []
        self.order = order

    def answer(self, requests):
        for index in self.order(range(len(requests))):
            self.asked.append(requests[index].item)
            scripted = self.script.pop(0) if self.script else None
            if isinstance(scripted, BaseException):
                raise scripted
            right = next(iter(PERFECT.answer([requests[index]])))[1]
            yield index, right if scripted is None else scripted


def texts(store: AnswerStore, requests) -> dict[str, str | None]:
    replies = store.replies(requests, PERFECT.identity)
    return {item: answer.text for item, answer in replies.items()}


def run(folder, backend, requests, **changes):
    store = AnswerStore(Workdir(folder), "answers")
    tally = ask("generate", requests, backend, store, progress=False, **changes)
    store.close()
    return tally


def test_an_interrupted_run_asks_only_for_what_is_missing(tmp_path):
    requests = [question(n) for n in range(5)]
    first = Scripted(None, None, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, first, requests)
    path = tmp_path / "answers" / ANSWERS
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "torn by a ki')
    second = Scripted()
    tally = run(tmp_path, second, requests)
    assert second.asked == ["2", "3", "4"]
    assert (tally.requests, tally.answered, tally.failed) == (5, 5, 0)
    assert path.read_bytes().startswith(whole)
    store = AnswerStore(Workdir(tmp_path), "answers")
    assert texts(store, requests) == {str(n): str(n + 1) for n in range(5)}


def test_order_and_batches_change_no_stored_answer(tmp_path):
    requests = [question(n) for n in range(6)]
    run(tmp_path / "a", Scripted(), requests)
    run(tmp_path / "b", Scripted(order=reversed), requests[:4])
    run(tmp_path / "b", Scripted(), requests[::-1])
    stores = [AnswerStore(Workdir(tmp_path / name), "answers") for name in "ab"]
    assert texts(stores[0], requests) == texts(stores[1], requests)


def test_errors_are_stored_counted_and_asked_again_but_never_answers(tmp_path):
    requests = [question(n) for n in range(3)]
    pauses: list[float] = []
    busy = Answer(error="the server said 500")
    tally = run(tmp_path, Scripted(None, busy), requests)
    assert (tally.answered, tally.failed, tally.error) == (2, 1, busy.error)
    store = AnswerStore(Workdir(tmp_path), "answers")
    assert texts(store, requests) == {"0": "1", "2": "3"}
    tally = run(tmp_path, Scripted(busy), requests, pause=pauses.append)
    assert store.get(request_key(requests[1], PERFECT.identity)) is None
    again = Scripted()
    tally = run(tmp_path, again, requests, pause=pauses.append)
    assert again.asked == ["1"]
    assert (tally.answered, tally.failed) == (3, 0)
    assert 0 < pauses[0] <= 1 < pauses[1] <= 2.001


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (question(1), Answer()),
        (question(1, choices=("1", "2")), Answer(text="2")),
        (question(1, choices=("1", "2")), Answer(scores=(-1.0,))),
        (question(1, choices=("1", "2")), Answer(scores=(-1.0, float("nan")))),
        (question(1, want="image"), Answer(text="a red car")),
    ],
)
def test_what_is_no_answer_to_the_request_is_an_error(tmp_path, request_, answer):
    tally = run(tmp_path, Scripted(answer), [request_])
    assert (tally.answered, tally.failed) == (0, 1)


def test_a_painted_picture_lies_beside_and_is_asked_for_again_when_it_is_lost(tmp_path):
    request = question(1, want="image")
    run(tmp_path, Scripted(Answer(image=b"pixels")), [request])
    (file,) = (tmp_path / "answers" / "images").iterdir()
    store = AnswerStore(Workdir(tmp_path), "answers")
    answer = store.replies([request], PERFECT.identity)["1"]
    assert answer.picture is not None
    assert answer.picture.read() == b"pixels"
    file.unlink()
    assert not AnswerStore(Workdir(tmp_path), "answers").replies([request], PERFECT.identity)


def test_a_damaged_line_is_named(tmp_path):
    run(tmp_path, Scripted(), [question(0)])
    path = tmp_path / "answers" / ANSWERS
    path.write_bytes(b'{"item": "no key"}\n' + path.read_bytes())
    with pytest.raises(UserError, match=r"answers\.jsonl:1 is no stored answer"):
        AnswerStore(Workdir(tmp_path), "answers")


def test_a_store_belongs_to_one_model(tmp_path):
    store = AnswerStore(Workdir(tmp_path), "answers")
    store.claim(Traits.of(PERFECT))
    store.claim(Traits.of(PERFECT))
    assert store.traits() == Traits.of(PERFECT)
    with pytest.raises(UserError, match=r"another model: identity\.name"):
        store.claim(Traits.of(open_fake("random", BackendOptions())))


def test_answers_of_another_store_are_taken_over_by_key(tmp_path):
    requests = [question(n) for n in range(4)]
    run(tmp_path / "a", Scripted(), requests[:3])
    ours = AnswerStore(Workdir(tmp_path / "b"), "answers")
    theirs = AnswerStore(Workdir(tmp_path / "a"), "answers")
    wanted = [(request_key(r, PERFECT.identity), "generate", r.item) for r in requests[1:]]
    assert take_over(ours, theirs, wanted) == 2
    assert texts(ours, requests) == {"1": "2", "2": "3"}


def test_the_file_holds_nothing_but_what_was_answered(tmp_path):
    run(tmp_path, Scripted(), [question(0, choices=("1", "2"))])
    line = json.loads((tmp_path / "answers" / ANSWERS).read_text())
    assert set(line) == {"key", "stage", "item", "scores", "seconds"}
