"""What copying a demonstration's caption is worth, and how texts are judged."""

import pytest

from mmgen.prompting.cobsat.samples import Sample
from mmgen.prompting.cobsat.tasks import TASKS
from mmgen.prompting.finetuning.baselines import (
    copy_nearest,
    judge_words,
    nearest_demonstration,
    substitute,
)
from mmgen.prompting.finetuning.evaluation import make_records
from mmgen.prompting.finetuning.examples import Example
from mmgen.prompting.requests import Request

COLOR_I, COLOR_II = TASKS[:2]


def sample(task, texts, latent):
    words, latents = task.words, task.latents
    places = tuple(words.index(text) for text in texts)
    return Sample(task, 0, places, latents.index(latent), ())


def caption(theme, cell):
    attribute = theme.shown("attribute")[cell.attribute]
    return f"A {attribute.title()} {theme.shown('object')[cell.object]}, seen from above."


def test_the_nearest_word_shares_most_letters_and_the_last_of_equals_counts():
    assert nearest_demonstration(sample(COLOR_II, ("box", "ball", "leaf"), "red")) == 1
    assert nearest_demonstration(sample(COLOR_II, ("chair", "leaf", "hat"), "red")) == 1
    assert nearest_demonstration(sample(COLOR_II, ("ball", "leaf", "bag"), "red")) == 0
    with pytest.raises(ValueError, match="no nearest"):
        nearest_demonstration(sample(COLOR_II, ("bag",), "red"))


def test_a_copy_has_the_latent_right_and_the_given_word_wrong():
    prompt = sample(COLOR_I, ("blue", "black", "brown"), "car")
    copied = copy_nearest(prompt, caption)
    assert copied == "A Black car, seen from above."
    assert judge_words(prompt, copied) == (False, True)
    assert judge_words(prompt, f"a red hat?</think>{copied}") == (False, True)
    assert judge_words(prompt, substitute(prompt, caption)) == (True, True)
    assert copy_nearest(sample(COLOR_I, ("blue",), "car"), caption) == ""


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a brown car", (True, True)),
        ("A BROWN thing", (True, False)),
        ("a brown and red car", (False, True)),
        ("brownish cars", (False, False)),
        ("", (False, False)),
        (None, (False, False)),
    ],
)
def test_right_is_a_text_that_names_one_word_and_the_right_one(text, right):
    assert judge_words(sample(COLOR_I, ("blue", "brown"), "car"), text) == right


def test_records_are_clustered_by_cell_across_tasks():
    first, second = (
        Sample(task, 0, texts, latent, ())
        for task, texts, latent in ((COLOR_I, (1, 2, 3), 4), (COLOR_II, (5, 6, 3), 4))
    )
    other = Sample(COLOR_I, 1, (1, 2, 3), 5, ())
    request = Request("a prompt", "", ())
    examples = [Example(request, "a red car", one) for one in (first, second, other)]
    records = make_records(examples, [1.0, 2.0, 3.0], None, caption)
    assert [record["cluster"] for record in records] == ["3/4", "3/4", "3/5"]
