import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from mmgen.data import tokenizer as module
from mmgen.data.tokenizer import (
    APPENDED,
    RELEASE_ROWS,
    Vocabulary,
    flickr_vocabulary,
    load_wordpiece,
    read_vocabulary,
    world_vocabulary,
    write_tokens,
)
from mmgen.errors import UserError


@pytest.fixture(scope="module")
def wordpiece():
    if module._packaged_vocabulary() is None:
        pytest.skip("no package with the BERT vocabulary is installed")
    return load_wordpiece()


def test_the_packaged_vocabulary_is_the_official_one_with_the_released_ids(wordpiece):
    vocabulary = wordpiece.vocabulary
    assert len(vocabulary) == 30_522 + 52
    assert vocabulary.rows == RELEASE_ROWS
    assert (vocabulary.pad, vocabulary.unk, vocabulary.sep, vocabulary.mask) == (0, 100, 102, 103)
    assert (vocabulary.img, vocabulary.txt) == (30_522, 30_523)
    assert vocabulary.id_of("[NEW49]") == 30_573


def test_captions_become_lower_case_wordpieces(wordpiece):
    (ids,) = wordpiece.encode(["A Skateboarder, riding."])
    assert wordpiece.vocabulary.tokens_of(ids) == [
        "a",
        "skate",
        "##board",
        "##er",
        ",",
        "riding",
        ".",
    ]
    assert wordpiece.vocabulary.decode(ids) == "a skateboarder , riding ."
    assert wordpiece.encode(["", "a"]) == [[], [1037]]


def test_offsets_point_into_the_text(wordpiece):
    text = "A Café, riding"
    ((ids, offsets),) = wordpiece.encode_with_offsets([text])
    assert [text[start:stop] for start, stop in offsets] == ["A", "Café", ",", "riding"]
    assert len(ids) == 4


def test_a_folder_and_a_file_are_the_same_tokenizer(wordpiece, tmp_path):
    write_tokens(tmp_path / "vocab.txt", wordpiece.vocabulary.tokens[:30_522])
    for source in (tmp_path, tmp_path / "vocab.txt"):
        assert load_wordpiece(str(source)).vocabulary == wordpiece.vocabulary


def test_a_vocabulary_of_the_wrong_size_or_order_is_refused(wordpiece, tmp_path):
    tokens = list(wordpiece.vocabulary.tokens[:30_522])
    write_tokens(tmp_path / "vocab.txt", tokens[:-1])
    with pytest.raises(UserError, match="30,521 tokens, bert-base-uncased has 30,522"):
        load_wordpiece(str(tmp_path))
    tokens[2000], tokens[2001] = tokens[2001], tokens[2000]
    write_tokens(tmp_path / "vocab.txt", tokens)
    with pytest.raises(UserError, match="is not bert-base-uncased's vocabulary"):
        load_wordpiece(str(tmp_path))
    assert len(load_wordpiece(str(tmp_path), official=False).vocabulary) == 30_574


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"there is no file .*vocab\.txt"):
        load_wordpiece(str(tmp_path))


def test_the_hub_is_asked_last_and_for_one_file(wordpiece, tmp_path, monkeypatch, capsys):
    path = tmp_path / "vocab.txt"
    write_tokens(path, wordpiece.vocabulary.tokens[:30_522])
    asked = []
    monkeypatch.setattr(module, "_packaged_vocabulary", lambda: None)
    monkeypatch.setattr(
        huggingface_hub, "hf_hub_download", lambda *names: asked.append(names) or str(path)
    )
    assert load_wordpiece().vocabulary == wordpiece.vocabulary
    assert asked == [(module.BERT_HUB_NAME, "vocab.txt")]
    assert "fetching" in capsys.readouterr().err


def test_offline_without_a_vocabulary_says_what_to_do(monkeypatch):
    def unreachable(*names):
        raise LocalEntryNotFoundError("no network")

    monkeypatch.setattr(module, "_packaged_vocabulary", lambda: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(UserError, match="--tokenizer FILE"):
        load_wordpiece()


def test_flickr_words_get_the_52_appended_tokens(real_data):
    vocabulary = flickr_vocabulary(real_data / "viscoll" / "flickr_vocab.txt")
    assert len(vocabulary) == 20_316 + 52
    assert vocabulary.rows == RELEASE_ROWS
    ids = [vocabulary.pad, vocabulary.unk, vocabulary.sep, vocabulary.mask, vocabulary.img]
    assert ids == [0, 1, 2, 4, 20_316]
    assert vocabulary.tokens[-52:] == APPENDED


def test_a_flickr_vocabulary_of_the_wrong_size_is_refused(tmp_path):
    write_tokens(tmp_path / "v.txt", ["[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]"])
    with pytest.raises(UserError, match=r"v\.txt has 5 tokens, the released .* has 20,316"):
        flickr_vocabulary(tmp_path / "v.txt")


def test_world_words_follow_the_specials():
    vocabulary = world_vocabulary(["dog", "cat"])
    assert vocabulary.encode_words(["cat", "cow"]) == [8, vocabulary.unk]
    assert vocabulary.rows == len(vocabulary) == 9
    assert vocabulary.decode([7, 8, 30]) == "dog cat [ROW30]"


@pytest.mark.parametrize(
    ("tokens", "complaint"),
    [
        (("[UNK]", "[PAD]"), "must start with"),
        (("[PAD]", "[UNK]"), r"no token \[SEP\]"),
        ((*world_vocabulary(["dog"]).tokens, "dog"), "'dog' twice"),
    ],
)
def test_an_unusable_vocabulary_is_refused(tokens, complaint):
    with pytest.raises(UserError, match=complaint):
        Vocabulary(tokens, word_level=True, rows=100)


def test_fewer_rows_than_tokens_are_refused():
    with pytest.raises(UserError, match="more than its 3 rows"):
        Vocabulary(world_vocabulary([]).tokens, word_level=True, rows=3)


def test_a_vocabulary_file_round_trips_and_its_size_is_checked(tmp_path):
    vocabulary = world_vocabulary(["dog", "\u2028"])
    write_tokens(tmp_path / "vocab.txt", vocabulary.tokens)
    assert read_vocabulary(tmp_path / "vocab.txt", word_level=True, size=9) == vocabulary
    with pytest.raises(UserError, match="9 tokens, expected 8"):
        read_vocabulary(tmp_path / "vocab.txt", word_level=True, size=8)
