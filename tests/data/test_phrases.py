import json
import sys
import types

import pytest

from mmgen.data.builders.flickr_shift import (
    parse_sentence,
    phrase_tasks,
    read_sentence_folder,
    read_sentences,
)
from mmgen.data.phrases import (
    chunks,
    labelled_spans,
    main,
    noun_lemma,
    read_noun_table,
    task_nouns,
    token_tags,
)
from mmgen.data.tagging import caption_text, iterate_tags, read_captions, tag_texts, write_tags
from mmgen.errors import UserError


def tag_line(text):
    """Tags of "a/DT dog/NN"."""
    return [word.split("/")[1] for word in text.split()]


@pytest.mark.parametrize(
    ("tagged", "release", "vbz"),
    [
        ("a/DT man/NN sits/VBZ", [(0, 2)], [(0, 3)]),
        ("a/DT black/JJ honda/NNP motorcycle/NN parked/VBN in/IN", [(0, 5)], [(0, 5)]),
        ("men/NNS riding/VBG big/JJ bikes/NNS", [(0, 2), (2, 4)], [(0, 2), (2, 4)]),
        ("the/DT running/VBG dog/NN", [(0, 3)], [(0, 3)]),
        ("two/CD dogs/NNS are/VBP running/VBG", [(1, 4)], [(1, 4)]),
        ("a/DT the/DT dog/NN", [(1, 3)], [(1, 3)]),
        ("a/DT bigger/JJR dog/NN", [(2, 3)], [(2, 3)]),
        ("quickly/RB runs/VBZ", [], []),
        ("", [], []),
    ],
)
def test_chunks(tagged, release, vbz):
    assert chunks(tag_line(tagged), "release") == release
    assert chunks(tag_line(tagged), "vbz") == vbz


def test_a_piece_has_the_tag_of_the_word_it_lies_in():
    # "a skateboarder's": words a / skateboarder / 's, pieces a / skate / ##board / ##er / ' / s
    tags = [(0, 1, "DT"), (2, 14, "NN"), (14, 16, "POS")]
    offsets = [(0, 1), (2, 7), (7, 12), (12, 14), (14, 15), (15, 16)]
    assert token_tags(offsets, tags) == ["DT", "NN", "NN", "NN", "POS", "POS"]
    assert token_tags([(0, 1), (5, 6)], [(0, 1, "DT"), (8, 9, "NN")]) == ["DT", ""]
    assert token_tags([(3, 4)], []) == [""]


@pytest.fixture(scope="module")
def nouns(real_data):
    return {
        objects: read_noun_table(real_data / "viscoll" / "coco_nouns.txt", objects)
        for objects in ("release", "fixed")
    }


def tasks_in(text, table):
    return [table.tasks[task] for _, task in task_nouns(text.split(), table)]


@pytest.mark.parametrize(
    ("text", "release", "fixed"),
    [
        ("a dog", ["dog"], ["dog"]),
        ("a hot dog", ["dog"], ["hot dog"]),
        ("a teddy bear", ["bear"], ["teddy bear"]),
        ("a traffic light", ["traffic light"], ["traffic light"]),
        # Lines whose number is no category id are lost in the release.
        ("a stop sign", [], ["stop sign"]),
        ("an umbrella", [], ["umbrella"]),
        # Nouns that WordPiece splits are out of its reach.
        ("a gi ##raf ##fe", [], ["giraffe"]),
        ("three don ##uts", [], ["donut"]),
        # WordNet knows "men" as a word of its own, but not "women".
        ("men and women", ["person"], ["person", "person"]),
        ("red wine glasses", ["wine glass"], ["wine glass"]),
    ],
)
def test_nouns_of_tasks_as_released_and_as_meant(nouns, text, release, fixed):
    assert tasks_in(text, nouns["release"]) == release
    assert tasks_in(text, nouns["fixed"]) == fixed


def test_the_release_reaches_58_categories_and_the_fixed_table_80(nouns):
    for objects, expected in (("release", 71), ("fixed", 80)):
        table = nouns[objects]
        assert len(table.tasks) == 80
        reached = {task for entries in table.by_last.values() for _, task in entries}
        # 9 of the 22 missing ones are missing in the table, 11 by WordPiece, 2 by order.
        assert len(reached) == expected


def test_position_of_a_noun_is_its_last_piece(nouns):
    pieces = "a gi ##raf ##fe and a hot dog".split()
    assert [position for position, _ in task_nouns(pieces, nouns["fixed"])] == [3, 7]


def test_every_noun_in_a_chunk_is_an_instance(nouns):
    pieces = "a dog bowl sits on tables".split()
    tags = tag_line("a/DT dog/NN bowl/NN sits/VBZ on/IN tables/NNS")
    table = nouns["release"]
    found = labelled_spans(pieces, tags, table, "release")
    assert [(start, stop, table.tasks[task]) for start, stop, task in found] == [
        (0, 3, "dog"),
        (0, 3, "bowl"),
        (5, 6, "dining table"),
    ]
    tags[5] = "VBZ"
    assert len(labelled_spans(pieces, tags, table, "release")) == 2


def test_a_noun_table_of_another_length_or_an_unknown_choice_is_refused(tmp_path, real_data):
    (tmp_path / "coco_nouns.txt").write_text("dog\ncat\n")
    with pytest.raises(UserError, match="has 2 lines, the released table has 80"):
        read_noun_table(tmp_path / "coco_nouns.txt", "release")
    with pytest.raises(UserError, match="choose release"):
        read_noun_table(real_data / "viscoll" / "coco_nouns.txt", "all")


def test_lemmas_of_pieces_that_are_no_words_stay():
    assert noun_lemma("##s") == "##s"
    assert noun_lemma("men", "release") == "men"
    assert noun_lemma("men") == "man"


def write_captions(path, *texts):
    rows = [{"id": 10 + i, "image_id": 1, "caption": text} for i, text in enumerate(texts)]
    path.write_text(json.dumps({"annotations": rows}))
    return path


def test_tags_are_written_once_and_read_back(tmp_path):
    pytest.importorskip("spacy")
    captions = write_captions(tmp_path / "captions.json", " A black dog is sleeping. ", "Two cats")
    out = tmp_path / "tags.jsonl.gz"
    main(["tag", "--captions", str(captions), "--out", str(out)])
    tagger, rows = iterate_tags(out)
    assert tagger.startswith("spacy 3.")
    tags = dict(rows)
    assert list(tags) == [10, 11]
    text = caption_text(" A black dog is sleeping. ")
    assert [(text[a:b], tag) for a, b, tag in tags[10]] == [
        ("a", "DT"),
        ("black", "JJ"),
        ("dog", "NN"),
        ("is", "VBZ"),
        ("sleeping", "VBG"),
        (".", "."),
    ]
    first = out.read_bytes()
    write_tags(read_captions(captions), out)
    assert out.read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["captions.json", "tags.jsonl.gz"]


def test_stanza_serves_the_same_way(monkeypatch):
    word = types.SimpleNamespace
    sentence = word(words=[word(start_char=0, end_char=1, xpos="DT")])

    def pipeline(language, **options):
        assert (language, options["tokenize_no_ssplit"]) == ("en", True)
        return lambda text: word(sentences=[sentence])

    stanza = types.SimpleNamespace(Pipeline=pipeline, __version__="1.9")
    monkeypatch.setitem(sys.modules, "stanza", stanza)
    name, tags = tag_texts(["a"], "stanza")
    assert name == "stanza 1.9 en"
    assert list(tags) == [[(0, 1, "DT")]]


@pytest.mark.parametrize("tagger", ["spacy", "stanza"])
def test_a_missing_tagger_says_how_to_install_it(monkeypatch, tagger):
    monkeypatch.setitem(sys.modules, tagger, None)
    with pytest.raises(UserError, match="pip install"):
        tag_texts(["a"], tagger)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "no tags file"),
        ('{"id": 1}\n', "no tags file"),
        ('{"tagger": "t"}\n{"id": 1}\n', r"tags\.jsonl:2 is no line of tags"),
        ('{"tagger": "t"}\n{"id": 1, "tags": [[0, 1]]}\n', r"tags\.jsonl:2 is no line"),
    ],
)
def test_a_damaged_tags_file_is_named(tmp_path, content, complaint):
    (tmp_path / "tags.jsonl").write_text(content)
    with pytest.raises(UserError, match=complaint):
        list(iterate_tags(tmp_path / "tags.jsonl")[1])


@pytest.mark.parametrize(
    ("value", "complaint"),
    [({}, "no COCO captions file"), ({"annotations": [{"id": 1}]}, "no COCO captions file")],
)
def test_a_foreign_captions_file_is_named(tmp_path, value, complaint):
    (tmp_path / "c.json").write_text(json.dumps(value))
    with pytest.raises(UserError, match=complaint):
        read_captions(tmp_path / "c.json")


def test_flickr_mark_up_gives_words_and_phrases(real_data):
    folder = real_data / "flickr30k_entities_sample" / "Sentences"
    sentences = read_sentences(folder / "1000092795.txt")
    assert len(sentences) == 5
    first = sentences[0]
    phrases = [" ".join(first.words[start:stop]) for start, stop in first.phrases]
    assert phrases == ["two young guys", "shaggy hair", "their hands", "the yard"]
    assert first.words[-1] == "."
    captions = read_sentence_folder(folder)
    assert captions[1] == (10000927951, 1000092795, " ".join(sentences[1].words))


def test_the_task_of_a_phrase_is_its_last_noun():
    marked = "[/EN#1/people The running dogs] see [/EN#2/other/scene red] [/EN#3/other it] ."
    sentence = parse_sentence(marked)
    assert sentence.phrases == ((0, 3), (4, 5), (5, 6))
    tags = tag_line("the/DT running/VBG dogs/NNS see/VBP red/JJ it/PRP")
    starts = (0, 4, 12, 17, 21, 25)
    placed = [(start, start + 2, tag) for start, tag in zip(starts, tags, strict=True)]
    assert list(phrase_tasks(sentence, placed, {"dog": 4})) == [(0, 3, 4)]
    assert list(phrase_tasks(sentence, placed, {"cat": 4})) == []


def test_open_mark_up_is_named_by_file_and_line(tmp_path):
    (tmp_path / "12.txt").write_text("A dog .\n[/EN#1/people A man runs .\n")
    with pytest.raises(UserError, match=r"12\.txt:2: a phrase's mark-up does not close"):
        read_sentences(tmp_path / "12.txt")
    with pytest.raises(UserError, match="has no IMAGE"):
        read_sentence_folder(tmp_path / "nowhere")
