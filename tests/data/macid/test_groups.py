"""The csv reader takes what is published, and nothing whose intruder could be read in two ways."""

import pathlib

import pytest

from mmgen.data.builders.macid import build_macid, build_push_world
from mmgen.data.builders.request import BuildRequest
from mmgen.data.macid.dataset import open_macid, verify_macid
from mmgen.data.macid.groups import (
    Group,
    csv_text,
    groups_csv,
    read_groups,
    write_groups,
)
from mmgen.data.macid.patterns import (
    concept_oracle,
    expected_accuracy,
    most_common_verb,
    odd_verb,
    pairs_of,
    pattern_of,
    shares_verb,
    verbs_of,
)
from mmgen.data.macid.verbs import lemma
from mmgen.data.worlds.push_world import PushWorldSettings
from mmgen.data.worlds.push_world import build_push_world as build_world
from mmgen.errors import UserError

HEAD = "id,s1,v1,s2,v2,s3,v3,s4,v4,intruder"


def group(number: int, intruder: int) -> Group:
    texts = tuple(f"La donna spinge la cosa {number}{place}" for place in "abcd")
    return Group(str(number), {"it": texts}, ("", "", "", ""), intruder)


def written(path: pathlib.Path, intruders, base=1) -> pathlib.Path:
    groups = [group(number, place) for number, place in enumerate(intruders)]
    write_groups(path, groups, index_base=base)
    return path


def test_both_index_bases_give_the_same_groups_when_they_are_declared(tmp_path):
    places = [1, 2, 3, 4, 2]
    one = read_groups(written(tmp_path / "one.csv", places))
    zero = read_groups(written(tmp_path / "zero.csv", places, base=0), index_base=0)
    assert one == zero
    assert [g.intruder for g in one] == places


def test_an_index_base_that_does_not_fit_is_refused_by_line(tmp_path):
    zero = written(tmp_path / "zero.csv", [2, 1, 4], base=0)
    with pytest.raises(UserError, match=r"zero\.csv:3: intruder is '0'.*give index_base=0"):
        read_groups(zero)
    one = written(tmp_path / "one.csv", [2, 1, 4])
    with pytest.raises(UserError, match=r"one\.csv:4: intruder is '4'.*give index_base=1"):
        read_groups(one, index_base=0)


@pytest.mark.parametrize("base", [0, 1])
def test_what_leaves_the_index_base_open_is_refused(tmp_path, base):
    mixed = tmp_path / "mixed.csv"
    mixed.write_text(groups_csv([group(1, 4), group(2, 1)], [4, 0]))
    with pytest.raises(UserError, match="some intruders are 0 and some are 4"):
        read_groups(mixed, index_base=base)
    many = written(tmp_path / "many.csv", [1, 2, 3] * 7)
    with pytest.raises(UserError, match="cannot be told"):
        read_groups(many, index_base=base)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id,s1,v1\n", r":1: there is no column 's2'"),
        (f"{HEAD}\n1,a,,b,,c,,d,,x\n", r":2: intruder is 'x'"),
        (f"{HEAD}\n1,a,,b,,c,,d,,\n", r":2: intruder is ''"),
        (f"{HEAD}\n1,a,,b,,c,,,,1\n", r":2: a sentence of language 'it' is missing"),
        (f"{HEAD}\n1,a,,b,,c,,a,,1\n", r":2: two sentences of language 'it' are the same"),
        (f"{HEAD}\n1,a,,b,,c,,d,,1\n1,a,,b,,c,,d,,2\n", r":3: group '1' stands in line 2"),
        (f"{HEAD}\n1,a,,b,,c,,d\n", r":2: not as many fields"),
        (HEAD, "has no row"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, text, sentence):
    path = tmp_path / "macid.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_groups(path)


def test_the_printed_example_has_no_key_and_is_refused(real_data):
    with pytest.raises(UserError, match=r"macid_paper_example\.csv:2: intruder is ''"):
        read_groups(real_data / "macid" / "macid_paper_example.csv")


def test_further_columns_and_annotations(tmp_path):
    columns = [*HEAD.split(","), *(f"s{i}_en" for i in range(1, 5)), "distance"]
    row = ["7", "a", "v1", "b", "", "c", "", "d", "v4", "3", "w", "x", "y", "z", "low"]
    (tmp_path / "macid.csv").write_text(csv_text(columns, [row]))
    notes = ["id", *(f"verb{i}" for i in range(1, 5)), *(f"concept{i}" for i in range(1, 5))]
    (tmp_path / "more.csv").write_text(csv_text(notes, [["7", *"ppqp", *"1121"]]))
    (one,) = read_groups(tmp_path / "macid.csv", annotations=tmp_path / "more.csv")
    assert one.sentences == {"it": ("a", "b", "c", "d"), "en": ("w", "x", "y", "z")}
    assert one.videos == ("v1", "", "", "v4")
    assert (one.verbs, one.concepts, one.distance) == (tuple("ppqp"), tuple("1121"), "low")


def test_lemmas_of_the_printed_example():
    sentences = (
        "I due ragazzi spingono il carrello verso la colonna",
        "La donna spinge la signora anziana sulla sedia a rotelle",
        "L'uomo spinge a terra l'aggressore",
        "L'infermiere spinge la barella",
    )
    verbs = verbs_of(Group("x", {"it": sentences}, ("",) * 4, 3), "it")
    assert verbs == ("spingere",) * 4
    assert pattern_of(verbs) == "4"
    assert lemma("Schiacciano il bottone da lontano", "it") == "schiacciare"
    assert lemma("The man is pushing a cart", "en") == "push"
    assert lemma("Il gatto dorme", "it") is None


@pytest.mark.parametrize(
    ("verbs", "pattern", "odd", "common"),
    [
        ("aaaa", "4", [1, 2, 3, 4], [1, 2, 3, 4]),
        ("aaba", "3_1", [3], [1, 2, 4]),
        ("abba", "2_2", [1, 2, 3, 4], [1, 2, 3, 4]),
        ("abca", "2_1_1", [2, 3], [1, 4]),
        ("abcd", "1_1_1_1", [1, 2, 3, 4], [1, 2, 3, 4]),
    ],
)
def test_patterns_and_what_the_verbs_alone_would_choose(verbs, pattern, odd, common):
    verbs = tuple(verbs)
    assert pattern_of(verbs) == pattern
    assert odd_verb(verbs) == odd
    assert most_common_verb(verbs) == common
    assert shares_verb(verbs, 1) == (pattern not in ("1_1_1_1",))


def test_six_pairs_three_of_them_with_the_intruder():
    pairs = pairs_of(group(1, 2))
    assert [pair.same for pair in pairs].count(True) == 3
    assert all((2 in pair.places) != pair.same for pair in pairs)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("world") / "push"
    build_world(root, PushWorldSettings())
    return open_macid(root)


def test_push_world_meets_the_published_counts_exactly(world):
    facts = world.info["facts"]["it"]
    assert (facts["groups"], facts["captions"], facts["max_uses"]) == (100, 307, 3)
    assert facts["uses"] == {"1": 230, "2": 61, "3": 16}
    assert (facts["concepts"], len(facts["verbs"])) == (18, 8)
    assert facts["patterns"] == {"1_1_1_1": 12, "2_1_1": 32, "2_2": 16, "3_1": 28, "4": 12}
    assert facts["shared_by_pattern"] == {"1_1_1_1": 0, "2_1_1": 10, "2_2": 16, "3_1": 24, "4": 12}
    assert facts["shared_verb"] == 62
    assert set(facts["positions"].values()) == {25}
    assert facts["distances"] == {"high": 33, "medium": 33, "low": 34}


def test_exact_scores_of_rules_and_oracle(world):
    groups = world.groups
    assert concept_oracle(groups) == 1.0
    assert expected_accuracy(groups, "it", lambda _: (2,)) == 0.25
    assert expected_accuracy(groups, "it", odd_verb) == pytest.approx(0.25)
    assert expected_accuracy(groups, "it", most_common_verb) == pytest.approx(0.23)
    by_pattern = world.info["facts"]["it"]["rules"]["odd_verb_by_pattern"]
    assert {k: round(v, 2) for k, v in by_pattern.items()} == {
        "1_1_1_1": 0.25,
        "2_1_1": 0.34,
        "2_2": 0.25,
        "3_1": 0.14,
        "4": 0.25,
    }
    rules = world.info["facts"]["it"]["rules"]
    assert rules["pairs"] == 600
    assert rules["same_verb_balanced_accuracy"] == pytest.approx(0.5, abs=0.05)


def test_the_lexicon_reads_the_verbs_that_the_world_wrote(world):
    for one in world.groups:
        unmarked = one._replace(verbs=None)
        assert verbs_of(unmarked, "it") == one.verbs
        english = verbs_of(unmarked, "en")
        assert english is not None
        assert pattern_of(english) == pattern_of(one.verbs)


def test_a_concept_follows_from_verb_and_object_never_from_the_verb(world):
    by_verb: dict[str, set] = {}
    by_both: dict[tuple, set] = {}
    for one in world.groups:
        for text, verb, concept in zip(one.sentences["it"], one.verbs, one.concepts, strict=True):
            what = text.split(" ", 2)[-1].split(" ", 1)[-1] if "due" in text else text
            by_verb.setdefault(verb, set()).add(concept)
            by_both.setdefault((verb, what), set()).add(concept)
    assert min(map(len, by_verb.values())) >= 2
    assert set(map(len, by_both.values())) == {1}


def test_variants_are_read_only_as_what_they_are(world):
    folder = world.root / "variants"
    places = [g.intruder for g in world.groups]
    assert [g.intruder for g in read_groups(folder / "one.csv")] == places
    assert [g.intruder for g in read_groups(folder / "zero.csv", index_base=0)] == places
    for name, base in (("zero", 1), ("one", 0), ("mixed", 0), ("mixed", 1)):
        with pytest.raises(UserError):
            read_groups(folder / f"{name}.csv", index_base=base)


def test_the_world_is_the_same_for_the_same_seed_and_scales(tmp_path, world):
    build_world(tmp_path / "again", PushWorldSettings())
    assert open_macid(tmp_path / "again").info["fingerprint"] == world.info["fingerprint"]
    build_world(tmp_path / "other", PushWorldSettings(groups=20, data_seed=1))
    facts = open_macid(tmp_path / "other").info["facts"]["it"]
    assert (facts["groups"], facts["positions"]) == (20, dict.fromkeys("1234", 5))
    with pytest.raises(UserError, match="10 to 1,000 groups"):
        build_world(tmp_path / "none", PushWorldSettings(groups=5))


def test_groups_of_ones_own_captions(tmp_path, world):
    request = BuildRequest(name="push_world", out=tmp_path, raw=world.root)
    root = build_push_world(request._replace(settings={"groups": 60}))
    dataset = open_macid(root)
    verify_macid(dataset)
    facts = dataset.info["facts"]["it"]
    assert facts["max_uses"] <= 3
    assert facts["rules"]["concept_oracle"] == 1.0
    assert sum(facts["distances"].values()) == 60
    assert set(facts["languages"]) == {"it", "en"}
    with pytest.raises(UserError, match="too few or too alike"):
        build_push_world(request._replace(settings={"groups": 900, "name": "many"}))


def test_the_macid_builder_reads_the_declared_base(tmp_path, world):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "macid.csv").write_text((world.root / "variants" / "zero.csv").read_text())
    request = BuildRequest(name="macid", out=tmp_path, raw=raw)
    with pytest.raises(UserError, match="index_base=0"):
        build_macid(request)
    dataset = open_macid(build_macid(request._replace(settings={"index_base": 0})))
    assert [g.sentences for g in dataset.groups] == [g.sentences for g in world.groups]
    assert dataset.info["facts"]["it"]["shared_verb"] == 62
