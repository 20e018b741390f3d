"""Prompts are those that were published; answers are read as they are meant, or not at all."""

import csv
import re

import pytest

from mmgen.prompting.macid.answers import read_number, read_yes_no
from mmgen.prompting.macid.prompts import conversation, make_prompt, question
from mmgen.prompting.requests import Picture, Text, Turn

SENTENCES = ("La donna spinge il carrello", "Il ragazzo preme il tasto", "A", "B")


def asked(name, pairs=False, language="it", sentences=SENTENCES):
    prompt = make_prompt(name, language, pairs=pairs)
    return prompt, question(prompt, [(Text(one),) for one in sentences])


def test_the_harness_prompt_is_the_task_file_word_for_word(real_data):
    with open(real_data / "macid" / "macid_paper_example.csv", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    sentences = [row[f"s{place}"] for place in range(1, 5)]
    text = (real_data / "macid" / "calamita_macid_task.yaml").read_text(encoding="utf-8")
    template = re.search(r'doc_to_text: "(.*)"', text)[1]
    for place, sentence in enumerate(sentences, start=1):
        template = template.replace(f"{{{{s{place}}}}}", sentence)
    assert asked("harness", sentences=sentences)[1] == (Text(template),)


def test_the_paper_prompt_is_the_printed_one_and_the_corrected_one_differs_in_a_word(real_data):
    (text,) = asked("paper")[1]
    (corrected,) = asked("corrected")[1]
    assert text.text.startswith("Le seguenti 4 frasi sono descrizioni di azioni fisiche.")
    assert text.text.endswith(f"4). 1: {SENTENCES[0]} 2: {SENTENCES[1]} 3: A 4: B")
    assert corrected.text == text.text.replace("describe", "descrive") != text.text


def test_the_follow_up_prompts_say_more_and_more():
    texts = [asked(f"follow_up_{level}")[1][0].text for level in range(3)]
    assert len(texts[0]) < len(texts[1]) < len(texts[2])
    harness = asked("harness")[1][0].text.split(" 1) ")[0]
    assert all(text.startswith(harness) for text in texts)
    assert texts[0].endswith(f"\n\n1) {SENTENCES[0]}\n2) {SENTENCES[1]}\n3) A\n4) B\nIntruso: ")


def test_plain_text_ends_without_its_space_where_choices_are_scored():
    prompt, query = asked("harness")
    examples = [(asked("harness")[1], "3")]
    turns, choices = conversation(prompt, examples, query, raw=True, scored=True)
    (turn,) = turns
    assert choices == ("  1", "  2", "  3", "  4")
    text = turn.parts[0].text
    assert text.count("In questo task") == 2
    assert "Intruso: 3\n\nIn questo" in text
    assert text.endswith("Intruso:")
    _, choices = conversation(*asked("follow_up_0")[:1], [], query, raw=True, scored=True)
    assert choices == (" 1", " 2", " 3", " 4")
    (turn,), none = conversation(prompt, [], query, raw=True, scored=False)
    assert turn.parts[0].text.endswith("Intruso: ")
    assert none == ()


def test_examples_are_turns_of_a_chat():
    prompt, query = asked("paper")
    turns, choices = conversation(prompt, [(query, "3")], query, raw=False, scored=True)
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    assert turns[1] == Turn("assistant", (Text("3"),))
    assert choices == ("1", "2", "3", "4")


def test_pictures_stand_after_their_sentence():
    prompt = make_prompt("paper", "it", pairs=True)
    picture = Picture("a.jpg")
    parts = question(prompt, [(Text("uno"), picture), (picture,)])
    assert [type(part) for part in parts] == [Text, Picture, Text, Picture]
    assert parts[0].text.endswith(" 1: uno")
    assert parts[2].text == " 2: "
    assert prompt.answers == ("Sì", "No")


@pytest.mark.parametrize(
    ("text", "robust", "follow_up"),
    [
        ("3", 3, 3),
        (" 3.\n", 3, 3),
        ("**3**", 3, None),
        ("12", None, 1),
        ("5", None, None),
        ("", None, None),
        ("L'intruso è la frase 3, diversa da 1, 2 e 4.", 3, None),
        ("Intruso: 2", 2, None),
        ("Tra le 4 frasi, quella diversa: frase numero 2", 2, None),
        ("1, 2 e 3 sono dello stesso tipo", None, 1),
        ("La terza frase", 3, None),
        ("Non saprei.", None, None),
        ("il ragazzo preme il tasto", 2, None),
        ("<think>forse 1, forse 2</think>4", 4, None),
        ("<think>forse 1", None, None),
        ("forse 1, forse 2</think>4", 4, None),
    ],
)
def test_numbers(text, robust, follow_up):
    assert read_number(text, SENTENCES[:2], "robust") == robust
    assert read_number(text, SENTENCES[:2], "follow_up") == follow_up


@pytest.mark.parametrize(
    ("text", "robust", "follow_up"),
    [
        ("Sì", True, True),
        ("si.", True, True),
        ("No, sono diverse", False, False),
        ("sicuramente no", False, True),
        ("Le due azioni si somigliano", None, None),
        ("La risposta è sì", True, None),
        ("sì e no", True, True),
        ("forse", None, None),
        ("Yes", True, True),
    ],
)
def test_yes_and_no(text, robust, follow_up):
    assert read_yes_no(text, "robust") is robust
    assert read_yes_no(text, "follow_up") is follow_up
