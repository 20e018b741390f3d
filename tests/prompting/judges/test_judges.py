"""Judges of CoBSAT: their questions, how replies are read, and how far they are to be trusted."""

import io
import pathlib
import shutil

import numpy as np
import pytest

from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions, open_backend
from mmgen.prompting.backends.fakes import open_fake
from mmgen.prompting.cobsat.lists import THEMES, Cell
from mmgen.prompting.judges.audit import agreement, audit, corrected, kappa, plant_errors
from mmgen.prompting.judges.base import NOTHING, Judgement, Subject, judge_kind, make_judge
from mmgen.prompting.judges.clip_judge import ClipBackend
from mmgen.prompting.judges.model_judge import cut_question, question
from mmgen.prompting.judges.parsing import parse
from mmgen.prompting.requests import Picture

COLOR, BACKGROUND = THEMES[:2]
SETTINGS = {"parser": "robust", "cut": "none"}


def ask(judge, backend, subjects):
    replies = {}
    for stage in judge.stages:
        requests = judge.requests(stage, subjects, 0)
        replies[stage] = {requests[i].item: a for i, a in backend.answer(requests)}
    return judge.read(replies, subjects)


def test_questions_are_those_of_the_release():
    assert question(COLOR, "object") == (
        "What is the main object in this image? Answer from the following options:  (1)leaf (2)hat "
        "(3)cup (4)chair (5)car (6)box (7)book (8)ball (9)bag (10)apple. Answer the number only "
        "and do not include any other texts (e.g., 1)."
    )
    assert question(BACKGROUND, "attribute").startswith(
        "What is the background (of the main object) in this image? Answer from the following "
        "options:  (1)beach (2)desert (3)glacier (4)volcano (5)amusement park (6)gym"
    )
    assert question(COLOR, "attribute", "A red car").startswith(
        "Image caption: A red car. What is the color (of the main object) in the image based on "
        "the description? Answer"
    )
    assert question(COLOR, "object", "A red car").startswith(
        "Image caption: A red car. What is the main object in this image based on the description? "
    )


def test_only_the_official_cut_loses_the_question():
    long = "x" * 3000
    assert cut_question(COLOR, "object", long, "official") == f"Image caption: {long}"[:2047]
    kept = cut_question(COLOR, "object", long, "description")
    assert len(kept) == 2047
    assert kept.endswith("(e.g., 1).")
    assert len(cut_question(COLOR, "object", long, "none")) > 3000


@pytest.mark.parametrize(
    ("reply", "official", "robust"),
    [
        ("1.", 1, 1),
        ("(1) leaf", 1, 1),
        ("The answer is 1", 1, 1),
        ("01", 1, 1),
        ("10", 10, 10),
        ("0", None, None),
        ("", None, None),
        ("leaf", None, 1),
        ("It is a Leaf.", None, 1),
        ("a leaf or a hat", None, None),
        ("1 or 3", None, None),
        ("1 (e.g., 1)", None, 1),
        ("3 (e.g., 1)", None, 3),
        ("²", None, None),
        ("11", None, None),
        ("<think>maybe 2, or 4</think>5", None, 5),
        ("maybe 2, or 4</think>5", None, 5),
        ("<think>maybe 2", 2, None),
        ("<think>2</think>5<think>or 4", None, 5),
        ("1" * 6000, None, None),
        ("option 7, a book", 7, 7),
        ("3.5", None, None),
    ],
)
def test_replies_are_read(reply, official, robust):
    options = COLOR.shown("object")
    for parser, expected in (("official", official), ("robust", robust)):
        assert parse(reply, options, parser) == (NOTHING if expected is None else expected - 1)


def test_a_model_judges_with_two_questions():
    subjects = [
        Subject("a", COLOR, text="x", target=Cell(0, 0), shown=Cell(2, 4)),
        Subject("b", COLOR, picture=Picture(data=b""), shown=Cell(9, 0)),
    ]
    judge = make_judge("server:x", SETTINGS)
    judged = ask(judge, open_fake("perfect", BackendOptions()), subjects)
    assert judged == {"a": Judgement(2, 4), "b": Judgement(9, 0)}
    unread = ask(judge, open_fake("noise", BackendOptions()), subjects[:1])
    assert unread["a"] == Judgement(NOTHING, NOTHING, unread=2)
    assert judge.read({}, subjects) == {}


def picture(color):
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (4, 4), color).save(out, "PNG")
    return Picture(data=out.getvalue())


class WordVectors:
    """An embedder that knows red and car alone."""

    scale = 100.0

    def texts(self, texts):
        found = [["red" in text, "car" in text, "red" not in text] for text in texts]
        rows = np.asarray(found, float).reshape(-1, 3)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)

    def images(self, images):
        return self.texts(["red car"] * len(images))


def test_clip_takes_the_nearest_words_and_says_how_near():
    backend = ClipBackend(WordVectors(), {"weights": "none"}, batch_size=2)
    red, car = COLOR.attributes.index("red"), COLOR.objects.index("car")
    subjects = [
        Subject("image", COLOR, picture=picture("red"), target=Cell(red, car)),
        Subject("text", COLOR, text="a red car", target=Cell(red, car)),
        Subject("empty", COLOR, text="", target=Cell(red, car)),
        Subject("broken", COLOR, picture=Picture(data=b"?"), target=Cell(red, car)),
    ]
    judged = ask(make_judge("clip:x", SETTINGS), backend, subjects)
    assert set(judged) == {"image", "text", "empty"}
    for name in ("image", "text"):
        assert (judged[name].attribute, judged[name].object) == (red, car)
        assert judged[name].similarity[2] == pytest.approx(100)
    assert (judged["empty"].attribute, judged["empty"].object) == (NOTHING, NOTHING)
    released = ask(make_judge("clip:x", {**SETTINGS, "parser": "official"}), backend, subjects)
    assert (released["empty"].attribute, released["empty"].object) == (0, 0)


def test_a_clip_folder_is_opened_as_a_judge():
    folder = pathlib.Path(__file__).parents[2] / "fixtures" / "clip"
    backend = open_backend(f"clip:{folder}")
    subjects = [
        Subject("image", COLOR, picture=picture("red"), target=Cell(2, 4)),
        Subject("text", COLOR, text="a red car", target=Cell(2, 4)),
    ]
    judged = ask(make_judge("clip:x", SETTINGS), backend, subjects)
    assert all(0 <= one.object < 10 and 0 <= one.attribute < 10 for one in judged.values())
    assert judged["text"].similarity[2] <= 100.001


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "preprocessor_config.json"])
def test_every_file_that_clip_reads_is_part_of_its_identity(tmp_path, name):
    folder = pathlib.Path(__file__).parents[2] / "fixtures" / "clip"
    other = shutil.copytree(folder, tmp_path / "clip")
    (other / name).write_text((other / name).read_text() + "\n")
    first, second = open_backend(f"clip:{folder}"), open_backend(f"clip:{other}")
    assert "model.safetensors" in first.identity["files"]
    assert first.identity != second.identity


def test_words_judge_abstains_from_two():
    subjects = [
        Subject("one", COLOR, text="a red car by a wooden wall"),
        Subject("two", COLOR, text="a red or blue car"),
    ]
    judge, backend = make_judge("words", SETTINGS), open_backend("words")
    judged = ask(judge, backend, subjects)
    assert judged == {"one": Judgement(2, 4), "two": Judgement(NOTHING, 4, unread=1)}
    with pytest.raises(UserError, match="give judge=pixel"):
        judge.requests("judge", [Subject("x", COLOR, picture=Picture(data=b""))], 0)


def test_pixel_judge_answers_and_reports_what_does_not_decode(shape_world):
    cell = Cell(2, 4)
    subjects = [
        Subject("right", COLOR, picture=shape_world.images.picture(COLOR, cell)),
        Subject("plain", COLOR, picture=picture("red")),
        Subject("broken", COLOR, picture=Picture(data=b"?")),
    ]
    judged = ask(make_judge("pixel", SETTINGS), open_backend("pixel"), subjects)
    assert judged == {
        "right": Judgement(2, 4),
        "plain": Judgement(NOTHING, NOTHING, unread=2),
    }


def test_kinds_of_judges():
    kinds = {"clip:/x": "clip", "pixel": "pixel", "words": "words", "jax:/x": "model"}
    assert {spec: judge_kind(spec) for spec in kinds} == kinds


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_planted_errors_are_recovered(rate):
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 10, 2000)
    clusters = np.arange(2000) % 500
    found = audit(plant_errors(labels, 10, rate), labels, 10, clusters)
    assert found.accuracy.low <= 1 - rate <= found.accuracy.high
    expected = (1 - rate - 0.1) / 0.9
    assert found.kappa.low <= expected <= found.kappa.high
    # A system that is right 60 % of the time, seen through this judge.
    outputs = np.where(generator.random(20000) < 0.6, 0, generator.integers(1, 10, 20000))
    observed = float(np.mean(plant_errors(outputs, 10, rate, seed=1) == 0))
    assert abs(observed - 0.6) > 0.6 * rate / 2
    assert corrected(observed, found.hit, found.false) == pytest.approx(0.6, abs=0.02)


def test_agreement_beyond_chance():
    first = np.array([0, 1, 2, 3] * 25)
    same = agreement(first, first, 4, np.arange(100))
    assert same.share.mean == same.kappa.mean == 1
    # By hand: 1/2 agree, chance is 1/2.
    assert kappa(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), 2, np.arange(4)).mean == 0
    abstaining = agreement(first, np.full(100, -1), 4, np.arange(100))
    assert abstaining.share.mean == 0
    assert np.isnan(corrected(0.5, 0.1, 0.1))
