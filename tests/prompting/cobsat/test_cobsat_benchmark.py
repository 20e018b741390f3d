"""CoBSAT from request to score: fakes have the scores that they must have, exactly."""

import json
from typing import ClassVar

import numpy as np
import pytest

from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions, open_backend
from mmgen.prompting.backends.fakes import open_fake
from mmgen.prompting.benchmark import Traits
from mmgen.prompting.benchmarks import cobsat as benchmark
from mmgen.prompting.cobsat.chance import levels
from mmgen.prompting.cobsat.facts import SampleFacts
from mmgen.prompting.cobsat.lists import Cell
from mmgen.prompting.cobsat.samples import make_samples
from mmgen.prompting.cobsat.scoring import majority
from mmgen.prompting.cobsat.tasks import TASKS
from mmgen.prompting.judges.base import Judgement
from mmgen.prompting.requests import Picture, Text
from mmgen.settings.prompting import prompting_config
from mmgen.settings.resolve_prompting import resolve


def make_config(world, limit=4, **keys):
    config = prompting_config()
    config.benchmark = "cobsat"
    config.dataset.name = str(world.root)
    config.limit = limit
    config.cobsat.task = ("Color-I", "Action-II")
    config.judge.spec = "words"
    for key, value in keys.items():
        group = config.cobsat if key in config.cobsat else config
        if key in ("temperature", "max_tokens"):
            group = config.decoding
        if key == "judge":
            config.judge.spec = value
        else:
            group[key] = value
    return resolve(config)


def run(config, model, judge=None):
    """Scores of a fake, asked and judged in memory."""
    made = benchmark.make(config)
    backends = {"model": model, "judge": judge or open_backend(config.judge.spec)}
    replies = {}
    for stage in made.stages:
        backend = backends[stage.role]
        requests = stage.requests(Traits.of(backend), replies)
        answers = {requests[i].item: answer for i, answer in backend.answer(requests)}
        replies[stage.name] = {k: a for k, a in answers.items() if a.error is None}
    return made.score(replies, Traits.of(model))


def fake(name):
    return open_fake(name, BackendOptions())


@pytest.mark.parametrize(
    ("name", "named", "shown", "joint", "copied"),
    [("perfect", 1, 1, 1, 0), ("copy", 0, 1, 0, 1), ("noise", 0, 0, 0, 0)],
)
@pytest.mark.parametrize("output", ["text", "image"])
def test_fakes_of_one_score(shape_world, name, named, shown, joint, copied, output):
    judge = {"text": "words", "image": "pixel"}[output]
    metrics = run(make_config(shape_world, output=output, judge=judge), fake(name)).metrics
    assert metrics["n" if "n" in metrics else "joint/n"] == 8
    found = [metrics[key] for key in ("textual", "visual", "joint", "copied")]
    assert found == [named, shown, joint, copied]


@pytest.mark.parametrize(
    ("name", "keys", "expected"),
    [
        ("text_only", {}, (1, 0.1, 0.1)),
        ("random", {}, (0.1, 0.1, 0.01)),
        ("text_only", {"prompt": "exact"}, (1, 1, 1)),
        ("text_only", {"prompt": "exact", "shots": 0}, (1, 1, 1)),
        ("perfect", {"shots": 0}, (1, 1, 1)),
        ("text_only", {"shots": 0}, (1, 0.1, 0.1)),
        ("misled", {"prompt": "misleading"}, (1, 0, 0)),
        ("perfect", {"prompt": "misleading", "shots": 1}, (1, 1, 1)),
        ("text_only", {"prompt": "caption"}, (1, 1, 1)),
        # Eight demonstrations name every latent but the right one.
        ("text_only", {"prompt": "misleading", "shots": 8}, (1, 1, 1)),
    ],
)
def test_fakes_and_chance_by_prompt_type(shape_world, name, keys, expected):
    config = make_config(shape_world, limit=400, task=("Color-I",), **keys)
    metrics = run(config, fake(name)).metrics
    for key, share in zip(("textual", "visual", "joint"), expected, strict=True):
        error = 4.5 * np.sqrt(share * (1 - share) / 400)
        assert metrics[key] == pytest.approx(share, abs=error + 1e-12), key
    if name == "misled":
        assert metrics["misled"] == 1


def test_a_judge_that_must_choose_credits_noise_by_chance(shape_world):
    config = make_config(shape_world, limit=500, task=("Color-I",), judge="fake:random")
    metrics = run(config, fake("noise")).metrics
    for key, share in (("object", 0.1), ("attribute", 0.1), ("joint", 0.01)):
        assert metrics[key] == pytest.approx(share, abs=4.5 * np.sqrt(share * (1 - share) / 500))


def test_majority_of_noisy_readings():
    """By enumeration .70, .70, .915, .969 and .989: a demonstration is misread with p = .3."""
    found = {}
    for shots in (1, 2, 4, 6, 8):
        samples = make_samples(TASKS[0], shots)
        facts = (SampleFacts(s, "default", i, lambda cell: cell) for i, s in enumerate(samples))
        right = [f["majority"] == s.target for f, s in zip(facts, samples, strict=True)]
        found[shots] = float(np.mean(right))
    for shots, share in ((1, 0.7), (2, 0.7), (4, 0.915), (6, 0.969), (8, 0.989)):
        assert found[shots] == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 1000))


def test_levels_are_exact():
    def joint(prompt, shots, split="default"):
        return levels(make_samples(TASKS[0], shots, split, count=1)[0], prompt)

    assert joint("default", 2) == (0.01, 0.1, 1)
    assert joint("default", 0) == (0.01, 0.1, 0.1)
    assert joint("exact", 0) == (0.01, 1, 1)
    assert joint("misleading", 2).text_only == pytest.approx(1 / 7)
    assert joint("misleading", 8).text_only == 1
    assert joint("misleading", 4, "ft_test").text_only == 0.1
    assert joint("caption", 2).text_only == 1


def test_a_missing_output_is_wrong_and_stays_in_the_denominator(shape_world, tmp_path):
    config = make_config(shape_world, limit=2, task=("Color-I",))
    asked = benchmark.make(config).stages[0].requests(Traits({}, True, True, True), {})
    lines = [json.dumps({"item": asked[0].item, "text": "an orange car"})]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    metrics = run(config, open_backend(f"folder:{tmp_path}")).metrics
    assert (metrics["joint"], metrics["missing"], metrics["joint/n"]) == (0.5, 0.5, 2)


def test_the_release_s_tree_of_results_is_read(shape_world, tmp_path):
    config = make_config(shape_world, limit=2, task=("Color-I",))
    folder = tmp_path / "task_1"
    folder.mkdir()
    result = {"description": "an orange car", "time": 1.0, "text_inputs": [], "image_inputs": []}
    (folder / "0_car_blue_brown_orange.json").write_text(json.dumps(result))
    (folder / "1_hat_brown_pink_purple.json").write_text("{}")
    metrics = run(config, open_backend(f"folder:{tmp_path}")).metrics
    assert (metrics["joint"], metrics["missing"]) == (0.5, 0.5)


def test_the_release_s_images_are_read(shape_world, tmp_path):
    config = make_config(shape_world, limit=1, task=("Color-I",), output="image", judge="pixel")
    folder = tmp_path / "task_1"
    folder.mkdir()
    theme = TASKS[0].theme
    cell = Cell(theme.attributes.index("orange"), theme.objects.index("car"))
    data = shape_world.images.path(theme, cell).read_bytes()
    (folder / "0_car_blue_brown_orange.jpg").write_bytes(data)
    assert run(config, open_backend(f"folder:{tmp_path}")).metrics["joint"] == 1


class Thinker:
    """Says what it thinks, then the right answer."""

    identity: ClassVar = {"backend": "thinker"}
    reads_images = paints = scores_choices = True
    batch_size = 4

    def answer(self, requests):
        for place, answer in fake("perfect").answer(requests):
            first = requests[place].turns[-1].role == "user" and len(requests[place].turns) == 1
            yield place, answer._replace(text="The object is common.") if first else answer


def test_both_steps_of_a_chain_of_thought(shape_world):
    config = make_config(shape_world, limit=1, task=("Color-I",), prompt="cot")
    made = benchmark.make(config)
    assert [stage.name for stage in made.stages] == ["analysis", "generate", "judge"]
    traits = Traits.of(fake("perfect"))
    first = made.stages[0].requests(traits, {})[0]
    texts = [part.text for part in first.turns[0].parts if isinstance(part, Text)]
    assert texts[0].startswith("We provide a few examples")
    assert texts[-1].endswith("in each example.\n\n\n")
    assert len(first.pictures) == 2
    assert run(config, Thinker()).metrics["joint"] == 1
    # A sample whose first step failed has no second one, and counts as wrong.
    assert made.stages[1].requests(traits, {"analysis": {}}) == []


def test_what_a_model_thinks_aloud_is_not_judged(shape_world, tmp_path):
    config = make_config(shape_world, limit=1, task=("Color-I",))
    asked = benchmark.make(config).stages[0].requests(Traits({}, True, True, True), {})
    line = {"item": asked[0].item, "text": "A blue hat? No.</think>an orange car"}
    (tmp_path / "answers.jsonl").write_text(json.dumps(line))
    assert run(config, open_backend(f"folder:{tmp_path}")).metrics["joint"] == 1


def test_a_prompt_shows_texts_and_images_in_turns(shape_world):
    config = make_config(shape_world, limit=1, task=("Color-I",), instructions="qwen")
    request = benchmark.make(config).stages[0].requests(Traits.of(fake("perfect")), {})[0]
    kinds = [type(part) for part in request.turns[0].parts]
    assert kinds == [Text, Picture, Text, Picture, Text]
    texts = [part.text for part in request.turns[0].parts if isinstance(part, Text)]
    assert texts[0].endswith("without any excuses. blue: ")
    assert texts[1] == "brown: "
    assert texts[2].startswith("orange: Based on the sequence")
    assert request.item == "task_1/0_car_blue_brown_orange"


def test_a_caption_prompt_has_words_alone(shape_world):
    config = make_config(shape_world, limit=1, task=("Color-I",), prompt="caption")
    request = benchmark.make(config).stages[0].requests(Traits.of(fake("perfect")), {})[0]
    assert not request.pictures
    assert "blue: " in request.text
    assert request.text.endswith(" orange: ")
    assert "car" in request.text


def test_self_consistency_takes_the_most_frequent_pair(shape_world):
    a, b, nothing = Judgement(1, 2), Judgement(3, 4), Judgement(-1, 4, unread=1)
    assert majority([b, a, a, nothing, nothing, nothing]) == a
    assert majority([nothing]) == nothing
    assert majority([]) is None
    config = make_config(shape_world, limit=2, votes=3, temperature=0.7)
    metrics = run(config, fake("perfect")).metrics
    assert metrics["joint"] == 1
    with pytest.raises(UserError, match="temperature= above 0"):
        benchmark.make(make_config(shape_world, votes=3))


def test_the_judge_is_audited_on_known_images(shape_world):
    config = make_config(
        shape_world, limit=1, task=("Color-I",), output="image", judge="pixel", audit=True
    )
    scores = run(config, fake("perfect"))
    assert scores.metrics["judge/joint/accuracy"] >= 0.98
    assert scores.tables[-1].rows[0][1] == 100


def test_letters_are_answered_from_the_demonstrations(shape_world):
    config = make_config(shape_world, limit=3, words="letters", task=("Color-I",))
    request = benchmark.make(config).stages[0].requests(Traits.of(fake("perfect")), {})[0]
    assert "blue" not in request.text


def test_what_cannot_be_asked_is_refused(shape_world):
    made = benchmark.make(make_config(shape_world))
    with pytest.raises(UserError, match="prompt=caption"):
        made.stages[0].requests(Traits({}, False, False, False), {})
    made = benchmark.make(make_config(shape_world, output="image", judge="pixel"))
    with pytest.raises(UserError, match="paints no images"):
        made.stages[0].requests(Traits({}, True, False, False), {})
    with pytest.raises(UserError, match="0 to 8"):
        benchmark.make(make_config(shape_world, shots=9))
    with pytest.raises(UserError, match="no CoBSAT data set"):
        config = make_config(shape_world)
        with config.unlocked():
            config.dataset.name = "cobsat_of_nobody"
        benchmark.make(config)
