"""CoBSAT's prompts: the release's records bit for bit, its stems, words and instructions."""

import hashlib
import json
from collections import Counter

import numpy as np
import pytest

from mmgen.errors import UserError
from mmgen.prompting.cobsat import records
from mmgen.prompting.cobsat.instructions import MODELS, Instruction, instruction, second_step
from mmgen.prompting.cobsat.lists import ITEMS, THEMES, Cell
from mmgen.prompting.cobsat.samples import (
    leave_one_out,
    letters,
    make_samples,
    select_demonstrations,
    show_query_before,
    train_samples,
    trigram_counts,
)
from mmgen.prompting.cobsat.tasks import TASKS, choose_tasks, make_tasks, read_theme
from mmgen.prompting.cobsat.texts import sample_texts, target_words

OUTPUTS = ("image", "text")
BY_NAME = {task.name: task for task in TASKS}


def stems(task, shots, count=3, split="default"):
    return [s.stem for s in make_samples(BY_NAME[task], shots, split, count=count)]


def test_prompt_files_have_the_bytes_of_the_release():
    # Length of the released files; the head of the fine-tuning test as it is printed there.
    assert len(records.prompt_file()) == 376_002
    digest = hashlib.sha256(records.prompt_file().encode()).hexdigest()
    assert digest == "28e9dfb4b2d65abd8e365360e34c6b959ec974ea0c25768741d77445dcc9647d"
    heldout = records.prompt_file("ft_test")
    assert len(heldout) == 226_002
    assert json.loads(heldout)[0] == {"x_list": [8, 6, 9, 7, 5], "theta_list": [9, 6, 8, 5, 7]}
    assert json.loads(heldout)[2] == {"x_list": [6, 9, 7, 5, 8], "theta_list": [8, 5, 6, 7, 9]}
    assert json.loads(records.prompt_file("ft_train_all")) == [0, 1, 2, 3, 4]
    assert records.prompt_file("ft_train_leave_one_out") == records.prompt_file()
    assert records.prompt_file(seed=124) != records.prompt_file()


@pytest.mark.parametrize(
    ("task", "shots", "split", "expected"),
    [
        (
            "Color-I",
            2,
            "default",
            ["0_car_blue_brown_orange", "1_hat_brown_pink_purple", "2_book_white_pink_black"],
        ),
        ("Color-I", 4, "default", ["0_leaf_blue_brown_orange_black_red"]),
        ("Color-II", 2, "default", ["0_pink_bag_ball_box"]),
        ("Background-II", 2, "default", ["0_park_cat_cow_lion"]),
        ("Color-I", 2, "ft_test", ["0_box_blue_green_black"]),
    ],
)
def test_stems_are_those_of_the_release(task, shots, split, expected):
    assert stems(task, shots, len(expected), split) == expected


def test_sampling_statistics_of_the_release():
    distinct = {}
    for shots in (0, 2, 4, 6, 8):
        samples = make_samples(TASKS[0], shots)
        distinct[shots] = len({(s.texts, s.latent) for s in samples})
        cells = Counter(s.cluster for s in samples)
        assert len(cells) == 100
        assert 2 <= min(cells.values()) <= max(cells.values()) <= 20
    assert distinct == {0: 100, 2: 942, 4: 999, 6: 1000, 8: 1000}
    heldout = {
        shots: {(s.texts, s.latent) for s in make_samples(TASKS[0], shots, "ft_test")}
        for shots in (2, 4)
    }
    assert {shots: len(found) for shots, found in heldout.items()} == {2: 170, 4: 212}


def test_the_latent_is_never_misleading_but_in_the_four_shot_test():
    for shots in (1, 4, 8):
        assert all(s.latent not in s.misleading for s in make_samples(TASKS[2], shots, count=50))
    heldout = make_samples(TASKS[2], 4, "ft_test")
    assert len(heldout) == 250
    assert all(s.latent in s.misleading for s in heldout)


def test_too_many_shots_are_refused():
    with pytest.raises(UserError, match="0 to 8"):
        make_samples(TASKS[0], 9)
    with pytest.raises(UserError, match="0 to 4"):
        make_samples(TASKS[0], 5, "ft_test")
    with pytest.raises(UserError, match="enough for 0 to 4"):
        train_samples(TASKS[0], 5)


def test_training_splits():
    assert [len(train_samples(TASKS[0], shots)) for shots in (2, 4)] == [300, 600]
    assert all(max(*s.texts, s.latent) < 5 for s in train_samples(TASKS[0], 2))
    others = leave_one_out(TASKS, "style")
    assert sum(len(train_samples(task, 2, "leave_one_out")) for task in others) == 8000
    assert not any(task.theme.name == "style" for task in others)


def test_a_prompt_file_of_ones_own_is_read_and_checked(tmp_path):
    path = tmp_path / "prompts.json"
    path.write_text(records.prompt_file("ft_test"))
    assert records.read_prompt_file(path) == records.make_records(records.heldout_positions())
    path.write_text('[{"x_list": [0, 0], "theta_list": [0, 1]}]')
    with pytest.raises(UserError, match="record 0"):
        records.read_prompt_file(path)
    path.write_text("{}")
    assert records.read_prompt_file(path) == []
    path.write_text("[1]")
    with pytest.raises(UserError, match="no prompt file"):
        records.read_prompt_file(path)


def test_tasks_are_table_1():
    assert [task.name for task in TASKS[:4]] == [
        "Color-I", "Color-II", "Background-I", "Background-II",
    ]  # fmt: skip
    assert BY_NAME["Action-I"].words == ITEMS["action"]
    assert BY_NAME["Action-II"].latents == ITEMS["action"]
    assert all(len(theme.attributes) == len(theme.objects) == 10 for theme in THEMES)
    assert BY_NAME["Color-I"].cell(2, 4) == Cell(attribute=2, object=4)
    assert BY_NAME["Color-II"].cell(4, 2) == Cell(attribute=2, object=4)
    assert [task.number for task in choose_tasks(["style", 1])] == [1, 5, 6]
    assert len(choose_tasks(["object"])) == 5
    with pytest.raises(UserError, match="Weather-I"):
        choose_tasks(["Weather-I"])


def test_words_of_each_prompt_type():
    car = make_samples(BY_NAME["Color-I"], 2, count=1)[0]
    assert sample_texts(car, "default") == ["blue: ", "brown: ", "orange: "]
    assert sample_texts(car, "exact") == ["blue car: ", "brown car: ", "orange car: "]
    misleading = sample_texts(car, "misleading")
    assert [text.split()[0] for text in misleading] == ["blue", "brown", "orange"]
    assert not any("car" in text for text in misleading)
    assert target_words(car) == ("orange", "car")
    pink = make_samples(BY_NAME["Color-II"], 2, count=1)[0]
    assert sample_texts(pink, "exact") == ["bag pink: ", "ball pink: ", "box pink: "]


def test_latent_words_leak_raw_only_where_asked():
    park = make_samples(BY_NAME["Background-II"], 2, count=1)[0]
    assert sample_texts(park, "exact", leak=True)[0] == "cat park: "
    assert sample_texts(park, "exact")[0] == "cat amusement park: "
    shown = sample_texts(make_samples(BY_NAME["Background-I"], 8, count=1)[0], "default", leak=True)
    assert "amusement park: " in shown


def test_printed_instructions():
    assert instruction(BY_NAME["Action-II"], "instruct", "image").start == (
        "Please identify the common action/mood the animal is doing in the images, and generate "
        "another image of the requested animal doing the same action/mood."
    )
    assert instruction(BY_NAME["Color-II"], "instruct", "text").start == (
        "Please identify the common main color in the images, and describe the next image to be "
        "generated based on the sequence below. Your description of the image should contain the "
        "description of the requested object and the common color."
    )
    assert instruction(TASKS[0], "caption", "text").start.endswith(
        "predict the next image description."
    )
    assert instruction(TASKS[0], "default", "image", "seed") == Instruction()
    assert second_step("image", "red: ").endswith("the next image for the request 'red: '")


def test_every_printed_instruction_is_the_one_compared_with_the_paper():
    # All of them were found in the paper's text letter by letter; the checksum holds them there.
    printed = [
        *(instruction(task, "instruct", output).start for task in TASKS for output in OUTPUTS),
        *(instruction(TASKS[0], "caption", output).start for output in OUTPUTS),
        *(
            part
            for model in MODELS
            for output in OUTPUTS
            for part in instruction(TASKS[0], "default", output, model)
        ),
    ]
    digest = hashlib.sha256("\n".join(printed).encode()).hexdigest()
    assert digest[:16] == "a8b1453f0bcbf018"


def test_instructions_of_the_repository():
    def repo(kind, output, model="none"):
        return instruction(TASKS[0], kind, output, model, "repo")

    assert repo("default", "image", "gill").system == (
        "You are a professional assistant can generate a new image based on the seqeunce."
    )
    assert repo("default", "text", "gill").end.endswith("can cause huge loss. ")
    assert "details such as" in repo("default", "text", "gpt4v").start
    qwen = repo("default", "text", "qwen")
    assert qwen.start == ""
    assert qwen.system.endswith("or even random guess.")
    assert qwen.end.startswith("\nBased on")
    assert "description of image should" in repo("instruct", "text").start
    assert "what the relationship" in repo("cot", "text").end
    assert second_step("text", "red: ", "repo").endswith(
        "describe what the next image should be look like given the request 'red: '"
    )


def test_selected_demonstrations_keep_query_and_latent():
    sample = make_samples(TASKS[0], 2, count=1)[0]
    for rule in ("fixed", "similar", "dissimilar"):
        other = select_demonstrations(sample, rule, trigram_counts)
        assert (other.query, other.latent, other.shots) == (sample.query, sample.latent, 2)
        assert len(set(other.texts)) == 3
    assert select_demonstrations(sample, "record", trigram_counts) == sample
    # Vectors on a line: the demonstrations are the query's neighbours, the nearest last.
    angle = np.linspace(0, 1, 10)
    line = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    near = select_demonstrations(sample._replace(texts=(3, 4, 0)), "similar", lambda words: line)
    assert near.texts == (2, 1, 0)
    far = select_demonstrations(sample._replace(texts=(3, 4, 0)), "dissimilar", lambda words: line)
    assert far.texts == (8, 9, 0)


def test_letters_can_be_answered_from_the_demonstrations():
    sample = show_query_before(make_samples(TASKS[0], 2, count=2)[1])
    assert sample.query in sample.texts[:-1]
    assert sorted(letters(sample)) == list("ABCDEFGHIJ")
    assert letters(sample) == letters(sample)
    with pytest.raises(UserError, match="needs a demonstration"):
        show_query_before(make_samples(TASKS[0], 0, count=1)[0])


def test_a_theme_of_ones_own(tmp_path):
    lists = {"attributes": ["one", "two", "three"], "objects": ["hat", "cup", "leaf"]}
    theme = {"name": "Count", "attribute": "count", "object": "object", **lists}
    (tmp_path / "theme.json").write_text(json.dumps(theme))
    tasks = make_tasks([read_theme(tmp_path)], first=11)
    assert [(task.number, task.name) for task in tasks] == [(11, "Count-I"), (12, "Count-II")]
    assert make_samples(tasks[0], 1, count=1)[0].texts
    assert "common object" in instruction(tasks[0], "instruct", "text").start
    theme["objects"] = ["hat", "cup"]
    (tmp_path / "theme.json").write_text(json.dumps(theme))
    with pytest.raises(UserError, match="3 attributes and 2 objects"):
        read_theme(tmp_path)
    with pytest.raises(UserError, match="is missing"):
        read_theme(tmp_path / "nowhere")
