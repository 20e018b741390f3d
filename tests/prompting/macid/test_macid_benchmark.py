"""Fakes score what they must, whatever the prompt, the reading, the order and the format."""

import numpy as np
import pytest

from mmgen.errors import UserError
from mmgen.prompting.backends import open_backend
from mmgen.prompting.benchmark import Traits
from mmgen.prompting.benchmarks.macid import make
from mmgen.prompting.macid.asking import video_frames
from mmgen.prompting.macid.reading import content_free_preference
from mmgen.prompting.requests import Answer, Picture, Text
from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments
from mmgen.settings.resolve_prompting import resolve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("prepared"))


def benchmark_of(folder, argument, **macid):
    config = prompting_config()
    config.data_dir = folder
    config.macid.update(macid)
    return make(resolve(apply_arguments(config, argument)))


def asked(benchmark, spec):
    """Replies of every stage, straight from the backend."""
    backend = open_backend(spec)
    replies = {}
    for stage in benchmark.stages:
        requests = stage.requests(Traits.of(backend), replies)
        answers = dict(backend.answer(requests))
        replies[stage.name] = {r.item: answers[i] for i, r in enumerate(requests)}
    return replies, Traits.of(backend)


def metrics(folder, argument, spec, **macid):
    benchmark = benchmark_of(folder, argument, **macid)
    return benchmark.score(*asked(benchmark, spec)).metrics


READINGS = ("generate", "choices", "calibrated")


@pytest.mark.parametrize(
    ("prompt", "form"),
    [("paper", "quadruples"), ("harness", "quadruples"), ("follow_up_2", "pairs")],
)
def test_perfect_is_one_and_constant_is_exactly_chance_in_every_reading(folder, prompt, form):
    argument = f"prompt={prompt},format={form}"
    perfect = metrics(folder, argument, "fake:perfect")
    constant = metrics(folder, argument, "fake:constant")
    for reading in READINGS:
        assert perfect[f"{reading}/accuracy"] == 1.0
        assert constant[f"{reading}/accuracy"] == perfect["chance"]
        assert perfect[f"{reading}/unusable"] == constant[f"{reading}/unusable"] == 0.0
    assert perfect["chance"] == (0.25 if form == "quadruples" else 0.5)


@pytest.mark.parametrize("form", ["quadruples", "pairs"])
def test_random_is_chance_within_its_own_error(folder, form):
    found = metrics(folder, f"format={form},orders=rotations", "fake:random")
    key = "generate/orders/mean" if form == "quadruples" else "generate/accuracy"
    assert abs(found[key] - found["chance"]) < 3 * found[f"{key}/se"]


def test_position_bias_shows_in_the_orders(folder):
    found = metrics(folder, "orders=rotations", "fake:biased", groups=200)
    for key in ("generate/accuracy", "generate/orders/mean"):
        assert abs(found[key] - 0.625) < 3 * found[f"{key}/se"]
    # At each of the four places once: right in all rotations with probability .5 ^ 3.
    assert abs(found["generate/orders/all_right"] - 0.125) < 0.06
    assert abs(found["generate/says/1"] - 0.625) < 0.05
    assert found["generate/by/intruder_shown_at_1"] == 1.0


def test_the_expected_score_of_a_position_biased_model_is_exact(folder):
    always_first = metrics(folder, "orders=rotations", "fake:constant")
    perfect = metrics(folder, "orders=rotations", "fake:perfect")
    for key in ("generate/accuracy", "generate/orders/mean"):
        assert 0.5 * always_first[key] + 0.5 * perfect[key] == 0.625


def test_noise_is_unusable_and_chooses_nothing(folder):
    found = metrics(folder, "", "fake:noise")
    for reading in READINGS:
        assert found[f"{reading}/accuracy"] == 0.0
        assert found[f"{reading}/unusable"] == 1.0


def test_breakdowns_divide_the_groups_as_the_world_was_built(folder):
    found = metrics(folder, "", "fake:perfect")
    sizes = {k: v for k, v in found.items() if k.startswith("generate/by/") and k.endswith("/n")}
    by = {key.removeprefix("generate/by/").removesuffix("/n"): n for key, n in sizes.items()}
    assert {k: n for k, n in by.items() if k.startswith("pattern")} == {
        "pattern_1_1_1_1": 12,
        "pattern_2_1_1": 32,
        "pattern_2_2": 16,
        "pattern_3_1": 28,
        "pattern_4": 12,
    }
    assert (by["intruders_verb_shared"], by["intruders_verb_not_shared"]) == (62, 38)
    assert (by["3_1_odd_verb_is_the_intruders"], by["3_1_odd_verb_is_not_the_intruders"]) == (4, 24)
    assert [by[f"intruder_shown_at_{place}"] for place in range(1, 5)] == [25] * 4
    assert [by[f"similarity_{name}"] for name in ("high", "medium", "low")] == [33, 33, 34]
    assert by["not_held_out"] == 95


def test_few_shot_asks_the_other_groups_and_the_same_without_examples(folder):
    benchmark = benchmark_of(folder, "shots=5,scoring=generate")
    replies, traits = asked(benchmark, "fake:perfect")
    found = benchmark.score(replies, traits).metrics
    assert found["generate/accuracy/n"] == found["zero_shot/generate/accuracy/n"] == 95
    assert found["generate/minus_zero_shot"] == 0.0
    stage = benchmark.stages[0]
    request = stage.requests(traits, {})[0]
    assert [turn.role for turn in request.turns] == ["user", "assistant"] * 5 + ["user"]
    shown = {turn.parts[0].text for turn in request.turns if turn.role == "user"}
    zero = next(s for s in benchmark.stages if s.name == "zero_shot/generate")
    assert {len(r.turns) for r in zero.requests(traits, {})} == {1}
    queries = {r.turns[-1].parts[0].text for r in stage.requests(traits, {})}
    assert len(shown & queries) == 1


def test_the_few_shot_set_shows_every_verb_pattern(folder):
    benchmark = benchmark_of(folder, "shots=5,scoring=generate")
    records = benchmark.score(*asked(benchmark, "fake:perfect")).records
    asked_groups = {one["group"] for one in records}
    assert len(asked_groups) == 95
    found = metrics(folder, "shots=5,scoring=generate", "fake:perfect")
    assert found["generate/by/pattern_4/n"] == 11
    assert found["generate/by/pattern_1_1_1_1/n"] == 11


def test_missing_answers_are_left_out_not_counted_as_wrong(folder):
    benchmark = benchmark_of(folder, "scoring=generate")
    replies, traits = asked(benchmark, "fake:perfect")
    kept = dict(list(replies["generate"].items())[:40])
    found = benchmark.score({"generate": kept}, traits).metrics
    assert (found["generate/accuracy"], found["generate/accuracy/n"]) == (1.0, 40)


def test_calibration_takes_away_what_is_preferred_without_content():
    uniform = content_free_preference(
        {"a": Answer(scores=(-1.0, -1.0)), "b": Answer(scores=(0, 0))}
    )
    np.testing.assert_allclose(uniform, np.log([0.5, 0.5]))
    leaning = content_free_preference(
        {
            "a": Answer(scores=tuple(np.log([0.9, 0.1]))),
            "b": Answer(scores=tuple(np.log([0.5, 0.5]))),
        }
    )
    np.testing.assert_allclose(np.exp(leaning), [0.7, 0.3])
    assert content_free_preference({}) is None


def test_the_other_language_and_its_instruction(folder):
    benchmark = benchmark_of(folder, "language=en,scoring=generate")
    replies, traits = asked(benchmark, "fake:perfect")
    text = benchmark.stages[0].requests(traits, {})[0].turns[0].parts[0].text
    assert text.startswith("The following 4 sentences")
    assert benchmark.score(replies, traits).metrics["generate/accuracy"] == 1.0
    with pytest.raises(UserError, match="no sentences in language 'de'"):
        benchmark_of(folder, "language=de")


def test_frames_stand_in_for_sentences(folder, tmp_path):
    benchmark = benchmark_of(folder, "scoring=generate")
    replies, traits = asked(benchmark, "fake:perfect")
    del replies
    text = benchmark.stages[0].requests(traits, {})[0]
    assert not text.pictures
    for number in range(400):
        (tmp_path / f"push_{number:05d}.jpg").write_bytes(b"pixels")
    with pytest.raises(
        UserError, match=r"group 1, sentence 1: there are no frames of video 'push_"
    ):
        shown = benchmark_of(folder, "modality=frames", frames=str(tmp_path / "none"))
        shown.stages[0].requests(traits, {})
    blind = Traits({}, reads_images=False, paints=False, scores_choices=True)
    with pytest.raises(UserError, match="reads no pictures"):
        benchmark_of(folder, "modality=frames").stages[0].requests(blind, {})


def test_frames_are_evenly_spread(tmp_path, folder):
    benchmark = benchmark_of(folder, "limit=1")
    del benchmark
    from mmgen.data.macid.groups import Group

    group = Group("g", {"it": ("a", "b", "c", "d")}, ("clip", "", "still", ""), 1)
    (tmp_path / "clip").mkdir()
    for number in range(6):
        (tmp_path / "clip" / f"{number}.jpg").write_bytes(b"pixels")
    (tmp_path / "still.png").write_bytes(b"pixels")
    names = [p.path.rsplit("/", 1)[-1] for p in video_frames(tmp_path, group, 1, 3)]
    assert names == ["1.jpg", "3.jpg", "5.jpg"]
    assert video_frames(tmp_path, group, 3, 3) == (Picture(str(tmp_path / "still.png")),)


def test_a_model_without_log_probabilities(folder):
    mute = Traits({}, reads_images=True, paints=True, scores_choices=False)
    stages = benchmark_of(folder, "").stages
    assert [len(stage.requests(mute, {})) for stage in stages] == [100, 0, 0]
    with pytest.raises(UserError, match="gives no log-probabilities; ask with scoring=generate"):
        benchmark_of(folder, "scoring=choices").stages[1].requests(mute, {})


def test_too_many_examples_are_refused(folder):
    with pytest.raises(UserError, match=r"shots is 6, but 5 groups are held out"):
        benchmark_of(folder, "shots=6")


def test_the_rotated_question_shows_the_same_sentences_elsewhere(folder):
    benchmark = benchmark_of(folder, "orders=rotations,scoring=generate,limit=1")
    traits = Traits({}, reads_images=True, paints=True, scores_choices=True)
    requests = benchmark.stages[0].requests(traits, {})
    assert len(requests) == 4
    assert {r.facts["perfect"] for r in requests} == {"1", "2", "3", "4"}
    texts = [part.text for r in requests for part in r.turns[0].parts if isinstance(part, Text)]
    assert len(set(texts)) == 4
    assert len({tuple(sorted(text)) for text in texts}) == 1
