"""Words and labels of a train split."""

import pytest

from mmgen.data.compact.vocabulary import (
    BOS,
    EOS,
    PAD,
    SEP,
    UNK,
    UNSEEN,
    AtomLabels,
    CompactVocabulary,
)
from mmgen.errors import UserError


def instance(src, trg, verb="cut", noun="onion"):
    return {"src": src, "trg": trg, "trgverb": verb, "trgnoun": noun}


TRAIN = [
    instance("open tap . take cup . put_down cup", "wash cup", "wash", "cup"),
    instance("take knife . take onion . peel onion", "cut spring_onion", "cut", "spring_onion"),
]


def test_specials_come_first_then_frequent_words():
    vocabulary = CompactVocabulary.of(TRAIN)
    assert vocabulary.tokens[:5] == ("[PAD]", "[BOS]", "[EOS]", "[UNK]", "[SEP]")
    assert (PAD, BOS, EOS, UNK, SEP) == (0, 1, 2, 3, 4)
    # Twice "onion"; three times "cup" and "take", in alphabetical order.
    assert vocabulary.tokens[5:8] == ("cup", "take", "onion")
    assert len(vocabulary) == 5 + 11


def test_a_text_is_decoded_as_it_was():
    vocabulary = CompactVocabulary.of(TRAIN)
    ids = vocabulary.encode(TRAIN[0]["src"])
    assert ids.count(SEP) == 2
    assert vocabulary.decode(ids) == TRAIN[0]["src"]
    assert vocabulary.decode([BOS, *ids, EOS, 9, PAD]) == TRAIN[0]["src"]
    assert vocabulary.encode("wash pan") == [vocabulary.encode("wash")[0], UNK]
    assert "pan" not in vocabulary


def test_the_words_are_those_of_train_alone():
    words = CompactVocabulary.of(TRAIN)
    again = CompactVocabulary.of(list(reversed(TRAIN)))
    other = CompactVocabulary.of(TRAIN[:1])
    assert words.fingerprint == again.fingerprint != other.fingerprint


@pytest.mark.parametrize("tokens", [["[PAD]"], ["."], ["two words"], [""], ["cup", "cup"]])
def test_what_cannot_be_a_word_is_refused(tokens):
    with pytest.raises(UserError, match="vocabulary"):
        CompactVocabulary(tokens)


def test_labels_are_the_target_strings_of_train():
    labels = AtomLabels.of(TRAIN, "noun")
    assert labels.strings == ("cup", "spring_onion")
    assert labels.encode("spring_onion") == 1
    assert labels.encode("knife") == UNSEEN == -1
    assert len(AtomLabels.of(TRAIN, "verb")) == 2
    with pytest.raises(UserError, match="twice"):
        AtomLabels(["cup", "cup"])
