"""Scores of a few windows by hand, from records alone."""

import json
import math
from functools import partial

import numpy as np
import pytest
from small_compact import TEST, TRAIN, clip, make_dataset, windows

from mmgen.compact import judging, scores
from mmgen.compact.baselines import baselines, nearest_rows
from mmgen.compact.context import make_context, read_compact_context
from mmgen.compact.records import CURVE, FIELDS, make_records
from mmgen.compact.scores import score_records, score_run
from mmgen.data.compact.heuristics import recent
from mmgen.data.compact.samples import make_instance
from mmgen.data.compact.windows import ClipTable
from mmgen.errors import Diverged, UserError
from mmgen.evaluation.context import write_context
from mmgen.evaluation.predictions import record_path, write_records
from mmgen.metrics.bertscore import BertScore

# Targets: slice knife, put_down cup (a compound of train), wash onion.
ANSWERS = ["cut knife", "put_down cup", "wash cup"]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals of a hundred draws are as good for three items."""
    for name in ("bootstrap_sums", "cluster_bootstrap"):
        monkeypatch.setattr(scores, name, partial(getattr(scores, name), draws=100))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def context(dataset):
    """As it is read from its file."""
    return json.loads(json.dumps(make_context(dataset, task="utterance", splits=["test"])))


def records_of(dataset, answers, task="utterance", **given):
    instances = dataset.split("test")
    rows = np.arange(len(instances))
    return make_records(instances, dataset.unseen("test"), task, rows, answers, **given)


def scored(dataset, context, answers, **given):
    scores = score_records(records_of(dataset, answers, **given), context, "test")
    return {key.removeprefix("test/"): value for key, value in scores.items()}


def test_only_a_baseline_that_copies_is_not_held_to_labels_of_train(tmp_path):
    """Another string of the target's class is right for it; the others answer with labels."""
    train = (("V1", "take knife", "wash cup", "put-down cup", "cut onion"),)
    dataset = make_dataset(tmp_path, {"train": windows(train), "test": windows(TEST, start=1000)})
    context = make_context(dataset, task="verb", splits=["test"])
    records = records_of(dataset, ["cut", "put_down", "wash"], task="verb")
    assert "slice" not in context["labels"]
    assert judging.Judge(context)(records).ca.tolist() == [False, True, True]
    texts = ["cut", "put_down", "rinse"]
    context["baselines"]["test"] = dict.fromkeys(
        ("recent", "most_frequent", "bigram", "nearest"), texts
    )
    found = score_records(records, context, "test")
    assert found["test/baseline/recent/ca"] == 1
    for name in ("most_frequent", "bigram", "nearest"):
        assert found[f"test/baseline/{name}/ca"] == pytest.approx(1 / 3)


def test_a_record_has_its_fields(dataset):
    nll = np.array([0.5, 1.25, 3.0])
    first, second, _ = records_of(dataset, ANSWERS, nll=nll, tokens=np.array([3, 3, 3]))
    assert tuple(first) == FIELDS
    assert first | {"inputs": None} == {
        "id": 0,
        "video": "V3",
        "clip": "V3_1003",
        "inputs": None,
        "target": "slice knife",
        "prediction": "cut knife",
        "nll": 0.5,
        "tokens": 3,
        "verb": "slice",
        "noun": "knife",
        "verb_class": 3,
        "noun_class": 0,
        "unseen": True,
    }
    assert first["inputs"] == ["take knife", "wash onion", "pick_up spring_onion"]
    assert second["unseen"] is False


def test_utterances_by_hand(dataset, context):
    scores = scored(dataset, context, ANSWERS)
    assert (scores["n"], scores["videos"]) == (3, 2)
    # "cut" is of the class of "slice".
    assert scores["em"] == pytest.approx(1 / 3)
    assert scores["ca"] == pytest.approx(2 / 3)
    assert (scores["verb_ca"], scores["noun_ca"]) == (1, pytest.approx(2 / 3))
    # Joined: 1 + 2 + 1 of 2 + 2 + 2. Plain: 1 + 3 + 1 of 2 + 3 + 2.
    assert scores["bleu1_joined"] == pytest.approx(4 / 6)
    assert scores["bleu1_plain"] == pytest.approx(5 / 7)
    assert scores["sacrebleu1_plain"] == pytest.approx(5 / 7)
    assert scores["unparsable"] == 0
    assert scores["gold_ca"] == 1
    assert (scores["seen/n"], scores["seen/em"]) == (1, 1)
    assert (scores["unseen/n"], scores["unseen/em"], scores["unseen/ca"]) == (2, 0, 0.5)
    for metric in ("em", "ca", "bleu1_joined", "unseen/em"):
        assert scores[f"{metric}_low"] <= scores[metric] <= scores[f"{metric}_high"]
    assert "nll" not in scores


def test_the_form_of_the_predictions_decides_nothing_but_what_is_joined(dataset, context):
    joined = scored(dataset, context, ANSWERS)
    answers = ["cut knife", "put down cup", "wash cup"]
    plain = scored(dataset, context | {"form": "plain"}, answers)
    assert plain.pop("gold_bleu1_joined") == 1
    assert joined == plain
    # A model that writes the joined form has put the parts of "put_down" apart: two wrong tokens.
    assert scored(dataset, context, answers)["bleu1_joined"] < joined["bleu1_joined"]


def test_targets_that_hold_the_parts_of_a_joined_word_are_right_as_they_are(dataset, context):
    context["phrases"] = ["put_down", "slice_knife"]
    records = records_of(dataset, ["slice knife"] * 3)
    for record in records:
        record["target"] = "slice knife"
    for form, joined in (("joined", 1.0), ("plain", 0.0)):
        scores = score_records(records, context | {"form": form}, "test")
        assert scores["test/bleu1_joined"] == joined
        assert scores["test/bleu1_plain"] == 1
    # What that costs plain answers stands beside them.
    assert scores["test/gold_bleu1_joined"] == 0


def test_what_cannot_be_parsed_is_wrong_and_counted(dataset, context):
    scores = scored(dataset, context, ["", "put_down", "onion"])
    assert scores["unparsable"] == 1
    assert scores["ca"] == 0


def test_losses_are_means_per_item_and_per_token(dataset, context):
    nll, tokens = np.array([1.0, 2.0, 6.0]), np.array([2, 2, 5])
    scores = scored(dataset, context, ANSWERS, nll=nll, tokens=tokens)
    assert (scores["nll"], scores["nll_token"]) == (3, 1)
    with pytest.raises(Diverged, match=r"rows \[1\]"):
        records_of(dataset, ANSWERS, nll=np.array([1, np.inf, 1]))


def test_what_a_world_knows_is_averaged(dataset, context):
    known = {"optimum": np.array([1.0, 2.0, math.nan])}
    assert scored(dataset, context, ANSWERS, extra=known)["optimum"] == 1.5


def test_right_verb_with_wrong_noun(dataset, context):
    # "put_down knife" is a target of train, "wash cup" of neither.
    scores = scored(dataset, context, ["slice knife", "put_down knife", "wash cup"])
    assert (scores["failure/items"], scores["failure/share"]) == (2, pytest.approx(2 / 3))
    assert (scores["failure/train_ratio"], scores["failure/split_ratio"]) == (0.5, 0)
    assert scores["failure/train_of_all"] == pytest.approx(1 / 3)
    assert scored(dataset, context, ["slice onion"] * 3)["failure/split_ratio"] == 0
    assert "failure/train_ratio" not in scored(dataset, context, ANSWERS[:1] * 3)


@pytest.mark.parametrize(
    ("task", "answers", "em", "ca"),
    [
        # Train has put_down and cut: neither slice nor wash is had by a label of its class.
        ("verb", ["cut", "pick_up", "rinse"], 0, 0),
        ("verb", ["cut", "put", "rinse"], 0, 1 / 3),
        # Baselines that copy may say what is no label.
        ("verb", ["slice", "put_down", "cut"], 2 / 3, 2 / 3),
        ("noun", ["knife", "cup", "onion"], 1, 1),
    ],
)
def test_atoms_are_judged_by_their_own_class(dataset, task, answers, em, ca):
    context = json.loads(json.dumps(make_context(dataset, task=task, splits=["test"])))
    records = records_of(dataset, answers, task)
    assert records[0]["target"] == {"verb": "slice", "noun": "knife"}[task]
    scores = score_records(records, context, "test")
    assert (scores["test/em"], scores["test/ca"]) == (em, pytest.approx(ca))
    # Train has the verbs put_down and cut, and no wash; all nouns but lid.
    assert scores["test/unseen_label"] == pytest.approx({"verb": 2 / 3, "noun": 0}[task])
    assert scores["test/gold_ca"] == 1
    assert "test/bleu1_joined" not in scores


def test_during_training_only_what_is_cheap(dataset, context):
    scores = score_records(records_of(dataset, ANSWERS), context, "validation", final=False)
    assert {"validation/bleu1_joined", "validation/em", "validation/ca"} <= scores.keys()
    assert not any("_low" in key or "baseline" in key or "seen/" in key for key in scores)


def test_trivial_predictions():
    train, test = windows(TRAIN), windows(TEST, start=1000)
    found = baselines(train, test, "utterance")
    assert found == {
        # Train: put_down cup twice.
        "most_frequent": ["put_down cup"] * 3,
        "recent": ["pick_up spring_onion", "pick_up cup", "take_off lid"],
        "copy_last": ["pick_up spring_onion", "pick_up cup", "take_off lid"],
        "put_down": ["put_down spring_onion", "put_down cup", "put_down lid"],
        # After pick_up train puts down; it never takes off.
        "bigram": ["put_down spring_onion", "put_down cup", "put_down lid"],
        # The second and third window are equally near to the second item.
        "nearest": ["put_down cup", "cut onion", "put_down cup"],
    }
    assert baselines(train, test, "noun")["recent"] == ["spring_onion", "cup", "lid"]
    assert baselines(train, test, "verb")["bigram"] == ["put_down"] * 3
    assert nearest_rows(train, train).tolist() == [0, 1, 2, 3]


def test_baselines_are_scored_beside_the_run(dataset, context):
    scores = scored(dataset, context, ANSWERS)
    assert scores["baseline/put_down/em"] == pytest.approx(1 / 3)
    assert scores["baseline/copy_last/em"] == 0
    assert scores["baseline/recent/noun_ca"] == pytest.approx(1 / 3)
    # On the items that were asked, as prompting asks some.
    some = score_records(records_of(dataset, ANSWERS)[1:2], context, "test")
    assert (some["test/baseline/put_down/n"], some["test/baseline/put_down/em"]) == (1, 1)


def test_baselines_are_scored_from_their_texts(dataset, context, monkeypatch):
    """So they have what the run has: joined texts beside plain answers, BERTScore too."""

    def scorer(facts):
        return lambda ours, true: BertScore(*[np.array(ours) == np.array(true)] * 3)

    monkeypatch.setattr(scores, "open_scorer", scorer)
    texts = {"recent": ["slice knife", "put_down cup", "wash onion"], "put_down": [""] * 3}
    changed = context | {
        "form": "plain",
        "bertscore": {"name": "bertscore_x"},
        "baselines": {"test": texts},
    }
    found = scored(dataset, changed, ANSWERS)
    assert found["baseline/recent/em"] == found["baseline/recent/bleu1_joined"] == 1
    assert (found["baseline/recent/bertscore_x"], found["bertscore_x"]) == (1, pytest.approx(1 / 3))
    assert found["baseline/put_down/bertscore_x"] == 0
    # What a workdir of before the texts were kept has.
    old = scored(dataset, context | {"baselines": {"test": {"recent": {"em": 0.25}}}}, ANSWERS)
    assert old["baseline/recent/em"] == 0.25


def test_a_run_is_scored_from_its_last_records(dataset, context, tmp_path):
    with pytest.raises(UserError, match="no evaluation"):
        score_run(tmp_path, context)
    for split, step, answers in (
        ("test", 10, [""] * 3),
        ("test", 20, ANSWERS),
        ("test" + CURVE, 30, [""] * 3),
    ):
        write_records(record_path(tmp_path, split, step), records_of(dataset, answers))
    assert score_run(tmp_path, context) == score_records(
        records_of(dataset, ANSWERS), context, "test"
    )


def test_all_splits_of_a_run_have_one_judge(dataset, context, tmp_path, monkeypatch):
    for split in ("validation", "test"):
        write_records(record_path(tmp_path, split, 1), records_of(dataset, ANSWERS))
    made = []
    monkeypatch.setattr(
        scores, "Judge", lambda given: made.append(judging.Judge(given)) or made[-1]
    )
    score_run(tmp_path, context)
    assert len(made) == 1


def test_records_of_a_part_of_a_split_are_no_evaluation(dataset, context, tmp_path):
    path = record_path(tmp_path, "test", 1)
    complete = records_of(dataset, ANSWERS)
    for records in ([], complete[:2], [complete[0], *complete[:2]], [*complete, complete[0]]):
        write_records(path, records)
        with pytest.raises(UserError, match=rf"{path} has {len(records)} records, not one of each"):
            score_run(tmp_path, context)
    write_records(record_path(tmp_path, "own", 1), complete)
    with pytest.raises(UserError, match="evals/own belongs to no split"):
        score_run(tmp_path, context)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"video": None}, "'video' is None, not a text"),
        ({"prediction": ["cut"]}, r"'prediction' is \['cut'\], not a text"),
        ({"inputs": ["take knife"]}, "'inputs' is .*, not 3 texts"),
        ({"id": "1"}, "'id' is '1', not a whole number"),
        ({"verb_class": True}, "'verb_class' is True, not a whole number"),
        ({"nll": "low"}, "'nll' is 'low', not a number or null"),
        ({"nll": math.nan}, "'nll' is nan, not a number or null"),
        ({"unseen": 1}, "'unseen' is 1, not true or false"),
        ({"optimum": "high"}, "'optimum' is 'high', not a number or null"),
    ],
    ids=str,
)
def test_a_mistyped_record_is_named_by_its_line(dataset, context, tmp_path, changes, complaint):
    path = record_path(tmp_path, "test", 1)
    records = records_of(dataset, ANSWERS)
    write_records(path, records)
    lines = path.read_text().splitlines()
    lines[1] = json.dumps(records[1] | changes)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=rf"{path}:2 is no record of CompAct: {complaint}"):
        score_run(tmp_path, context)


@pytest.mark.parametrize("field", FIELDS)
def test_a_record_lacks_no_field(dataset, context, tmp_path, field):
    path = record_path(tmp_path, "test", 1)
    records = records_of(dataset, ANSWERS)
    write_records(path, records)
    lines = path.read_text().splitlines()
    lines[1] = json.dumps({key: value for key, value in records[1].items() if key != field})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=rf"{path}:2 is no.* record.*'{field}'"):
        score_run(tmp_path, context)


def test_a_context_that_is_none_is_one_sentence(context, tmp_path):
    write_context(tmp_path, context)
    assert read_compact_context(tmp_path) == context
    others = {key: value for key, value in context.items() if key != "labels"}
    for damaged, lacking in (({}, "kind"), ([], "kind"), (others, "labels")):
        write_context(tmp_path, damaged)
        with pytest.raises(UserError, match=rf"context\.json is no context .* lacks '{lacking}'"):
            read_compact_context(tmp_path)


def test_unknown_choices_are_one_sentence(dataset):
    with pytest.raises(UserError, match="utterance"):
        make_context(dataset, task="utterances", splits=["test"])
    with pytest.raises(UserError, match="no split 'novel'"):
        make_context(dataset, task="verb", splits=["novel"])


def test_the_most_recent_heuristic_is_that_of_the_build_report():
    """Two programs, one definition: on numbers while a data set is built, on texts afterwards."""
    rows = [*TRAIN, *TEST]
    clips = [
        clip(video, 10 * n + k, *text.split())
        for n, (video, *texts) in enumerate(rows)
        for k, text in enumerate(texts)
    ]
    table, places = ClipTable(clips), np.arange(len(clips)).reshape(-1, 4)
    expected = recent(table, places)
    instances = [make_instance(clips[4 * n : 4 * n + 4]) for n in range(len(rows))]
    for atom in ("verb", "noun"):
        predicted = baselines(instances, instances, atom)["recent"]
        right = [ours == one[f"trg{atom}"] for ours, one in zip(predicted, instances, strict=True)]
        assert 100 * np.mean(right) == pytest.approx(expected[f"mrh_{atom}_em"], abs=0.01)
