"""Fakes answer as they promise, and recorded outputs are answers like any other."""

import json

import pytest

from mmgen.errors import UserError
from mmgen.prompting.backends import open_backend
from mmgen.prompting.backends.fakes import NAMES
from mmgen.prompting.requests import Picture, Request, sample_seed

OPTIONS = ("1", "2", "3", "4")


def asks(count=400, **changes) -> list[Request]:
    facts = {"options": OPTIONS, "copy": "2", "text_only": "4"}
    return [
        Request(
            str(n),
            "",
            (),
            seed=sample_seed(0, str(n)),
            facts=facts | {"perfect": OPTIONS[n % 4]},
            **changes,
        )
        for n in range(count)
    ]


def texts(spec, requests):
    return [answer.text for _, answer in open_backend(spec).answer(requests)]


def test_what_each_fake_says():
    right = [OPTIONS[n % 4] for n in range(400)]
    said = {name: texts(f"fake:{name}", asks()) for name in NAMES}
    assert said["perfect"] == right
    assert set(said["constant"]) == {"1"}
    assert set(said["copy"]) == {"2"}
    assert set(said["text_only"]) == {"4"}
    share = [sum(map(str.__eq__, said[name], right)) / 400 for name in ("random", "biased")]
    assert abs(share[0] - 0.25) < 3 * 0.022
    assert abs(share[1] - 0.625) < 3 * 0.025
    assert all(a in ("1", b) for a, b in zip(said["biased"], right, strict=True))


def test_a_choice_is_scored_as_it_would_be_said_and_unknown_prompts_score_flat():
    scored = asks(choices=(" 1", " 2", " 3", " 4"))
    for name in ("perfect", "random"):
        answers = [answer for _, answer in open_backend(f"fake:{name}").answer(scored)]
        best = [OPTIONS[a.scores.index(max(a.scores))] for a in answers]
        assert best == texts(f"fake:{name}", asks())
    ((_, flat),) = open_backend("fake:perfect").answer([Request("free", "", (), OPTIONS)])
    assert len(set(flat.scores)) == 1


def test_order_and_company_change_no_answer():
    requests = asks()
    for name in ("random", "biased"):
        assert texts(f"fake:{name}", requests[::-1])[::-1] == texts(f"fake:{name}", requests)


def test_a_painter_shows_the_picture_of_its_facts(tmp_path):
    from PIL import Image

    file = tmp_path / "a.jpg"
    Image.new("RGB", (8, 8), "red").save(file)
    facts = {"perfect": Picture(str(file))}
    request = Request("1", "", (), want="image", facts=facts)
    ((_, answer),) = open_backend("fake:perfect").answer([request])
    assert answer.image.startswith(b"\x89PNG")
    ((_, noise),) = open_backend("fake:noise").answer([request])
    ((_, again),) = open_backend("fake:noise").answer([request])
    assert noise.image == again.image != answer.image


def test_an_unknown_fake_gets_one_sentence():
    with pytest.raises(UserError, match="did you mean 'perfect'"):
        open_backend("fake:perfekt")


def test_a_folder_of_lines_and_a_folder_of_files(tmp_path):
    lines = [{"item": "0", "text": "1", "scores": [-1, -2, -3, -4]}, {"item": "1", "text": ""}]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "a_2.txt").write_text("three")
    (tmp_path / "a_2.png").write_bytes(b"pixels")
    backend = open_backend(f"folder:{tmp_path}")
    assert backend.scores_choices
    requests = [Request(item, "", ()) for item in ("0", "1", "a/2", "3")]
    requests += [Request("0", "", (), OPTIONS), Request("a/2", "", (), want="image")]
    answers = dict(backend.answer(requests))
    assert [answers[n].text for n in range(3)] == ["1", "", "three"]
    assert "no output for item 3" in answers[3].error
    assert answers[4].scores == (-1, -2, -3, -4)
    assert answers[5].image == b"pixels"
    before = backend.identity
    (tmp_path / "a_2.txt").write_text("four")
    assert open_backend(f"folder:{tmp_path}").identity != before


def test_a_missing_or_empty_folder_gets_one_sentence(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        open_backend(f"folder:{tmp_path / 'x'}")
    with pytest.raises(UserError, match="is empty"):
        open_backend(f"folder:{tmp_path}")
