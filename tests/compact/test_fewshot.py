"""Few-shot prompts are the printed ones, examples the nearest, and fakes score what they must."""

import numpy as np
import pytest
from small_compact import TEST, TRAIN, make_dataset, windows

from mmgen.errors import UserError
from mmgen.prompting.backends import open_backend
from mmgen.prompting.benchmark import Traits
from mmgen.prompting.benchmarks.compact import make
from mmgen.prompting.fewshot.selection import choose_examples, leak_rates, overlaps
from mmgen.prompting.fewshot.templates import Shown, few_shot_turns, read_narration
from mmgen.prompting.requests import Picture, Text
from mmgen.prompting.run import run
from mmgen.report.aggregate import group_runs, load
from mmgen.report.kinds import reporter_of
from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments
from mmgen.settings.resolve_prompting import resolve

FIGURE_6 = (
    ("put-down bowl", "move pan:frying", "pick-up spatula", "put-down spatula"),
    ("put-down bowl", "move jar", "pick-up egg", "crack egg"),
    ("move yoghurt", "put-down bowl", "pick-up yogurt", "put yoghurt"),
    ("put-down bowl", "grab wok", "move tap", "lather wok"),
    ("put-down bowl", "pick-up spatula", "stir meat:pieces", "put-down spatula"),
)
QUERY_6 = ("pick-up tin", "put-down tin", "move bowl", "put-down bowl")
PRINTED_6 = """\
Predict the next narration given 3 sequential previous narrations from a cooking video
put down bowl . move frying pan . pick up spatula => put down spatula
put down bowl . move jar . pick up egg => crack egg
move yoghurt . put down bowl . pick up yogurt => put yoghurt
put down bowl . grab wok . move tap => lather wok
put down bowl . pick up spatula . stir pieces meat => put down spatula
pick up tin . put down tin . move bowl =>"""


def annotated(number, *texts):
    """An instance with what prompts need of it, from "VERB NOUN" each."""
    pairs = [text.split() for text in texts]
    spoken = [" ".join([*v.split("-"), *reversed(n.split(":"))]) for v, n in pairs]
    return {
        "key": str(number),
        "video_id": f"V{number}",
        "narration_ids": [f"V{number}_{clip}" for clip in range(4)],
        "narrations": spoken,
        "verbs": [verb for verb, _ in pairs],
        "nouns": [noun for _, noun in pairs],
    }


def shown(instance, target=True):
    texts = instance["narrations"]
    return Shown(tuple(texts[:3]), (), texts[3] if target else None)


def test_figure_6_comes_out_word_for_word_in_its_order():
    others = [annotated(n, "wash cup", "wash cup", "wash cup", "wash cup") for n in (90, 91)]
    examples = [annotated(n, *texts) for n, texts in enumerate(FIGURE_6)]
    query = annotated(50, *QUERY_6)
    train = [others[0], *examples, others[1]]
    assert overlaps(train, [query])[0].tolist() == [0, 4, 4, 4, 3, 3, 0]
    (chosen,) = choose_examples(train, [query], 5, selection="overlap", exclude="none", seed=0)
    assert chosen == [1, 2, 3, 4, 5]
    (turn,) = few_shot_turns(
        "llama2", [shown(train[row]) for row in chosen], shown(query, False), chat=False
    )
    assert turn.parts == (Text(PRINTED_6),)


def test_templates_with_pictures():
    pictures = tuple(Picture(f"{n}.jpg") for n in "abc")
    one = Shown(("put down bowl", "move pan", "pick up spatula"), pictures, None)
    (turn,) = few_shot_turns("idefics", [one._replace(target="rest")], one, chat=False)
    texts = [part.text if isinstance(part, Text) else "<>" for part in turn.parts]
    half = "put down bowl <> . move pan <> . pick up spatula <> =>"
    assert "".join(texts).split("\n")[1:] == [f"{half} rest", half]
    (turn,) = few_shot_turns("idefics_unused", [], one, chat=False)
    texts = [part.text if isinstance(part, Text) else "<>" for part in turn.parts]
    assert "".join(texts).split("\n")[1:] == [
        *("Narration 1: put down bowl", "Image 1: <>", "Narration 2: move pan", "Image 2: <>"),
        *("Narration 3: pick up spatula", "Image 3: <>", "Narration 4:"),
    ]


def test_examples_of_a_chat_are_turns():
    one = Shown(("a", "b", "c"), (), None)
    turns = few_shot_turns("llama2", [one._replace(target="d")], one, chat=True)
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    assert turns[1].parts == (Text("d"),)
    assert turns[2].parts == (Text("a . b . c =>"),)


@pytest.mark.parametrize(
    ("answer", "narration"),
    [
        (" put down spatula", "put down spatula"),
        ("Put down spatula.\nopen door", "put down spatula"),
        ('\n => "wash cup" => dry cup', "wash cup"),
        ("wash cup . dry cup", "wash cup"),
        ("wash  cup\nImage 1:", "wash cup"),
        ("   \n ", ""),
    ],
)
def test_the_narration_an_answer_begins_with(answer, narration):
    assert read_narration(answer) == narration


def test_exclusion_and_random_selection():
    train, queries = windows(TRAIN), windows(TRAIN[:2])

    def chosen(**changes):
        choice = {"selection": "overlap", "exclude": "none", "seed": 0} | changes
        return choose_examples(train, queries, 3, **choice)

    # The queries are windows of train themselves.
    assert chosen()[0][0] == 0
    assert all(0 not in rows for rows in chosen(exclude="overlap")[:1])
    assert chosen(exclude="video") == [[2, 3], [2, 3]]
    drawn = chosen(selection="random")
    assert drawn == chosen(selection="random") != chosen(selection="random", seed=1)
    both = choose_examples(train, queries[::-1], 3, selection="random", exclude="none", seed=0)
    assert both == drawn[::-1]
    rates = leak_rates(train, queries, [[0], [2]])
    assert rates["clip_shared"].tolist() == [True, False]
    assert rates["answer_is_target"].tolist() == [True, False]
    np.testing.assert_array_equal(rates["answer_shown"], [True, False])


def scores(tmp_path, argument, spec):
    config = prompting_config()
    config.benchmark = "compact"
    config.data_dir = str(tmp_path)
    if not (tmp_path / "compact_mcd").exists():
        make_dataset(tmp_path)
    benchmark = make(resolve(apply_arguments(config, f"dataset=compact_mcd,{argument}")))
    backend = open_backend(spec)
    (stage,) = benchmark.stages
    requests = stage.requests(Traits.of(backend), {})
    answers = dict(backend.answer(requests))
    replies = {stage.name: {r.item: answers[n] for n, r in enumerate(requests)}}
    return requests, benchmark.score(replies, Traits.of(backend))


def test_fakes_score_what_they_must_in_records_that_compact_reads(tmp_path):
    requests, perfect = scores(tmp_path, "shots=2", "fake:perfect")
    assert [turn.role for turn in requests[0].turns] == ["user"]
    assert requests[0].raw
    metrics = perfect.metrics
    assert metrics["test/em"] == metrics["test/ca"] == metrics["test/bleu1_plain"] == 1.0
    assert metrics["test/em/se"] == 0.0
    assert [record["prediction"] for record in perfect.records] == [
        "slice knife",
        "put down cup",
        "wash onion",
    ]
    copied = scores(tmp_path, "shots=2", "fake:text_only")[1].metrics
    assert copied["test/em"] == copied["test/baseline/copy_last/em"] == 0.0
    assert copied["test/bleu1_plain"] == copied["test/baseline/copy_last/bleu1_plain"]
    noise = scores(tmp_path, "shots=0", "fake:noise")[1].metrics
    assert (noise["test/em"], noise["leak/answer_shown"]) == (0.0, 0.0)


def test_the_table_has_published_rows_of_the_same_number_of_examples(tmp_path):
    table = scores(tmp_path, "shots=5", "fake:perfect")[1].tables[0]
    published = [row for row in table.rows if "published" in row[0]]
    assert [row[0].split(",")[0] for row in published] == ["IDEFICS", "LLaMA2", "Otter"]
    assert published[1][1:6:2] == [27.5, 5.36, 7.41]
    assert table.rows[0][1] == 100.0


def test_refusals(tmp_path):
    with pytest.raises(UserError, match="give 0 to 8"):
        scores(tmp_path, "shots=9", "fake:perfect")
    with pytest.raises(UserError, match=r"there is no key frame of clip V1_0"):
        scores(tmp_path, f"images=keyframes,frames={tmp_path}", "fake:perfect")
    assert len(TEST) == len(scores(tmp_path, "limit=99", "fake:perfect")[0])


def test_runs_stand_in_a_report_beside_tables_9_to_14(tmp_path):
    make_dataset(tmp_path)
    for shots, selection in ((1, "overlap"), (1, "random")):
        config = prompting_config()
        config.benchmark = "compact"
        config.data_dir = str(tmp_path)
        config.logging.progress = False
        argument = f"dataset=compact_mcd,model=fake:perfect,shots={shots},selection={selection}"
        run(apply_arguments(config, argument), str(tmp_path / "runs" / selection))
    reporter = reporter_of("prompting")
    finished = load([tmp_path / "runs"])[0]
    assert all("sacrebleu" in one.summary["versions"] for one in finished)
    groups = group_runs(finished, reporter.cell_of)
    found = {table.title: table for table in reporter.tables(groups)}
    assert list(found) == ["CompAct, few-shot", "CompAct, choice of examples"]
    rows = found["CompAct, few-shot"].rows
    assert [(row[0], row[4], row[5], row[6]) for row in rows[:2]] == [
        ("fake-perfect", 1, "overlap", 100.0),
        ("fake-perfect", 1, "random", 100.0),
    ]
    published = {(row[0], row[4]): row[6] for row in rows[2:]}
    assert published["LLaMA2, published", 5] == 27.5
    assert published["OpenFlamingo-9B, published", 5] == 11.15
    by_choice = found["CompAct, choice of examples"].rows
    assert by_choice[-1][4:7] == [5, "overlap", 23.5]
