import json

import numpy as np
import pytest

from mmgen.data.builders.heldout import read_heldout
from mmgen.data.builders.instances import make_instances
from mmgen.data.composition import PairTable, find_pairs, lemmas
from mmgen.data.tokenizer import Vocabulary, world_vocabulary
from mmgen.errors import UserError

SYNONYMS = {
    "adjectives": {"black": ["black"], "big": ["big", "large"], "wooden": ["wooden"]},
    "nouns": {
        "cat": ["cat", "kitten"],
        "man": ["man", "boy"],
        "child": ["child", "boy"],
        "plane": ["plane", "minibus"],
        "bus": ["bus", "minibus"],
    },
    "verbs": {"eat": ["eat", "bite"], "hold": ["hold"]},
}
HELDOUT = ["black_cat", "eat_man", "hold_child", "big_bus", "big_plane"]
WORDS = (
    "a the black large cat kittens boy boys men eats eating holding minibus wooden planes dogs"
).split()


@pytest.fixture
def table():
    return PairTable.make(HELDOUT, SYNONYMS)


def spans_of(vocabulary, *texts):
    """Instances of whole captions; words outside < > are not in the span."""
    rows = []
    for number, text in enumerate(texts):
        words = text.replace("<", "").replace(">", "").split()
        inside = [index for index, word in enumerate(text.split()) if "<" in word or ">" in word]
        start, stop = (inside[0], inside[-1] + 1) if inside else (0, len(words))
        rows.append((vocabulary.encode_words(words), start, stop, 0, number, 1))
    return make_instances(rows)


def pairs_of(table, texts, train=()):
    vocabulary = world_vocabulary(WORDS)
    splits = {"novel": spans_of(vocabulary, *texts)}
    if train:
        splits["train"] = spans_of(vocabulary, *train)
    pairs, found = find_pairs(splits, vocabulary, table)
    index, positions = found["novel"]
    names = [pair["name"] for pair in pairs]
    return [
        (names[i] if i >= 0 else None, tuple(p))
        for i, p in zip(index, positions.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a black cat", ("black_cat", (1, 2))),
        ("the black kittens", ("black_cat", (1, 2))),
        ("a large minibus", ("big_bus", (1, 2))),
        ("men eating", ("eat_man", (1, 0))),
        ("a wooden cat", (None, (-1, -1))),
        ("a cat", (None, (-1, -1))),
        ("black <a cat>", (None, (-1, -1))),
        # A boy is a man and a child: whatever of the two is held out counts.
        ("a boy eats", ("eat_man", (2, 1))),
        ("boys holding", ("hold_child", (1, 0))),
        # The last match of the span wins.
        ("black cat men eating", ("eat_man", (3, 2))),
    ],
)
def test_pairs_are_found_by_lemma_and_synonym_in_either_order(table, text, expected):
    assert pairs_of(table, [text]) == [expected]


def test_a_seen_pair_is_one_that_the_training_spans_hold(table):
    texts = ["a large cat", "black men", "a black boy"]
    assert [name for name, _ in pairs_of(table, texts)] == [None, None, None]
    train = ["a large cat", "<the black> cat", "large kittens"]
    assert [name for name, _ in pairs_of(table, texts, train)] == ["big_cat", None, None]


def test_a_held_out_pair_wins_over_a_seen_one(table):
    train = ["a black boy", "a large cat"]
    assert pairs_of(table, ["a black cat large cat"], train)[0][0] == "black_cat"


def test_the_manifest_says_kind_and_training_count(table):
    vocabulary = world_vocabulary(WORDS)
    train = spans_of(vocabulary, "a large cat", "large kittens", "boy eats")
    pairs, found = find_pairs({"train": train}, vocabulary, table)
    assert [pair["name"] for pair in pairs] == [*HELDOUT, "big_cat", "eat_child"]
    by_name = {pair["name"]: pair for pair in pairs}
    assert by_name["eat_man"] == {
        "name": "eat_man",
        "atom": "eat",
        "noun": "man",
        "kind": "verb",
        "novel": True,
        "train_count": 1,
    }
    assert by_name["big_cat"]["kind"] == "adjective"
    assert (by_name["big_cat"]["novel"], by_name["big_cat"]["train_count"]) == (False, 2)
    assert found["train"][0].tolist() == [5, 5, 1]
    assert found["train"][0].dtype == np.int32


def test_a_piece_of_a_longer_word_is_no_word(table):
    tokens = (*world_vocabulary(["black", "cat", "##fish"]).tokens,)
    vocabulary = Vocabulary(tokens, word_level=False, rows=len(tokens))
    black, cat, fish = 7, 8, 9
    rows = [([black, cat, fish], 0, 3, 0, 1, 1), ([black, cat], 0, 2, 0, 2, 1)]
    _, found = find_pairs({"novel": make_instances(rows)}, vocabulary, table)
    assert found["novel"][0].tolist() == [-1, 0]


def test_a_misfiled_synonym_is_left_out(table):
    assert table.canonical["minibus"] == {"bus"}
    assert table.canonical["boy"] == {"man", "child"}


def test_lemmas_are_dictionary_forms_and_no_guesses():
    assert {"man"} <= lemmas("men")
    assert {"ride"} <= lemmas("riding")
    assert {"lie"} <= lemmas("lying")
    assert lemmas("bi") == {"bi"}


@pytest.mark.parametrize("pair", ["black_cow", "green_cat"])
def test_a_pair_without_synonyms_is_refused(pair):
    with pytest.raises(UserError, match=f"{pair}.*no list of synonyms"):
        PairTable.make([pair], SYNONYMS)


def test_the_published_pairs(real_data):
    heldout = read_heldout(real_data / "compositional_captioning")
    assert len(heldout.table.heldout) == 24
    kinds = [heldout.table.kind[pair.partition("_")[0]] for pair in heldout.table.heldout]
    assert (kinds.count("verb"), kinds.count("adjective")) == (8, 16)
    assert "black_cat" in heldout.table.heldout
    assert len(heldout.sources) == 5


def test_synonyms_may_be_folders_as_in_the_source(tmp_path, real_data):
    for file in (real_data / "compositional_captioning").glob("dataset_splits_[1-4].json.gz"):
        (tmp_path / file.name).symlink_to(file)
    whole = json.loads((real_data / "compositional_captioning" / "synonyms.json").read_text())
    for kind, words in whole.items():
        (tmp_path / "synonyms" / kind).mkdir(parents=True)
        for word, others in words.items():
            (tmp_path / "synonyms" / kind / f"{word}.json").write_text(json.dumps(others))
    assert (
        read_heldout(tmp_path).table == read_heldout(real_data / "compositional_captioning").table
    )


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        read_heldout(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"dataset_splits_1\.json is missing"):
        read_heldout(tmp_path)
    (tmp_path / "dataset_splits_1.json").write_text('{"heldout_pairs": []}')
    with pytest.raises(UserError, match=r"dataset_splits_1\.json is no split file"):
        read_heldout(tmp_path)
