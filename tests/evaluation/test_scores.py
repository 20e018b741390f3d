"""From records to named metrics, with nothing but the workdir."""

import math

import numpy as np
import pytest
from hand_made import ID

from mmgen.errors import UserError
from mmgen.evaluation.context import exposure_of, make_context, read_context, write_context
from mmgen.evaluation.predictions import RecordWriter, as_table, make_records, record_path
from mmgen.evaluation.scores import SUBSET, score_forgetting, score_run, score_split

STREAM = np.array([0, 1, 2, 3, -1, -1])


@pytest.fixture
def context(dataset):
    return make_context(
        dataset,
        STREAM,
        batch_size=2,
        steps=(1, 2, 3),
        schedule="even",
        min_task_items=1,
        splits=("test", "novel"),
    )


def records(dataset, split, loss, rows=None):
    """Of `rows` of a split; `loss` is one number, or that of each task."""
    data = dataset.split(split)
    rows = np.arange(len(data)) if rows is None else np.array(rows)
    target = np.full((len(rows), 3), ID["dog"])
    loss = np.broadcast_to(loss, 2)[data.columns["task"][rows]]
    return make_records(data, rows, np.repeat(loss[:, None], 3, axis=1), target)


def test_context_says_what_the_stream_showed(context):
    assert context["pairs_in_stream"] == [1, 0, 0, 1]
    assert context["exposure"]["size"] == [2, 2]
    assert context["exposure"]["end_example"] == [1, 3]
    assert exposure_of(context, [1, 3]).seen.tolist() == [[1, 1], [0, 1]]
    assert np.sum(context["density"]["tasks"]) == 4
    assert context["determiners"] == [ID["a"], ID["the"]]


def test_context_survives_the_workdir(context, tmp_path):
    write_context(tmp_path, context)
    assert read_context(tmp_path) == context


def test_forgetting_is_measured_against_another_stream_if_asked(dataset):
    context = make_context(
        dataset,
        STREAM,
        batch_size=2,
        steps=(1, 2),
        schedule="even",
        min_task_items=1,
        splits=("test",),
        reference_rows=np.array([2, 3, 0, 1]),
    )
    assert context["exposure"]["end_example"] == [3, 1]
    assert context["pairs_in_stream"] == [1, 0, 0, 1]


def test_split_scores(dataset, context):
    scores = score_split(as_table(records(dataset, "test", 2.0)), "test", context)
    assert scores["test/n"] == 6
    assert scores["test/log_ppl"] == scores["test/log_ppl_token"] == pytest.approx(2.0)
    assert scores["test/optimum"] == pytest.approx(0.25)
    assert scores["test/gap"] == pytest.approx(1.75)
    # 13 masked tokens: four determiners, three of the right answers are "dog".
    assert scores["test/determiner_share"] == pytest.approx(4 / 13)
    assert scores["test/accuracy_token"] == pytest.approx(3 / 13)
    assert scores["test/bleu2_ceiling"] == pytest.approx((5 + 0.001) / 6)
    assert {"test/unigram/log_ppl", "test/span_unigram/bleu1", "test/sacrebleu2"} <= set(scores)
    assert all(math.isfinite(value) for value in scores.values())


def test_an_intermediate_evaluation_leaves_out_what_is_slow(dataset, context):
    scores = score_split(
        as_table(records(dataset, "test", 2.0)), "test_subset", context, final=False
    )
    assert "test_subset/log_ppl" in scores
    assert not any("sacrebleu" in key or "pairs" in key or "unigram" in key for key in scores)


def test_compositions_that_the_stream_never_showed_are_not_seen(dataset, context):
    scores = score_split(as_table(records(dataset, "test", 2.0)), "test", context)
    # red_cat is not held out, but the stream has no red cat; red_dog and small_cat remain.
    assert scores["seen/adjective/pairs"] == 2
    assert scores["seen/adjective/items"] == 2
    assert scores["seen/adjective/pairs_few"] == 2
    assert scores["seen/adjective/log_ppl_pair"] == pytest.approx(2.0)
    assert not any(key.startswith(("seen/verb", "novel/")) for key in scores)


def test_a_held_out_pair_that_the_stream_showed_is_not_novel(dataset, context):
    table = as_table(records(dataset, "novel", 3.0))
    assert score_split(table, "novel", context)["novel/adjective/pairs"] == 1
    context["pairs_in_stream"][2] = 5
    assert "novel/adjective/pairs" not in score_split(table, "novel", context)


def test_forgetting_needs_two_evaluations(dataset, context):
    assert score_forgetting({1: as_table(records(dataset, "test", 1.0))}, context) == {}


def test_run_is_scored_from_files_alone(dataset, context, tmp_path):
    write_context(tmp_path, context)
    for split, source, step, loss, rows in (
        ("test" + SUBSET, "test", 1, 1.0, [0, 2, 3, 5]),
        ("test" + SUBSET, "test", 2, 1.5, [0, 2, 3, 5]),
        ("test", "test", 3, 4.0, None),
        ("novel", "novel", 3, 5.0, None),
    ):
        with RecordWriter(record_path(tmp_path, split, step)) as writer:
            writer.add(records(dataset, source, loss, rows))
    scores = score_run(tmp_path, read_context(tmp_path))
    assert scores["test/n"] == 6
    assert scores["forgetting/best"] == pytest.approx(3.0)
    # Task 0 ends at step 1 (4 - 1), task 1 at step 2 (4 - 1.5).
    assert scores["forgetting/seen98"] == pytest.approx((3 + 2.5) / 2)
    assert scores["forgetting/tasks"] == 2
    assert scores["continual/bwt"] == pytest.approx(-(3 + 2.5) / 2)
    assert scores["continual/fwt"] == pytest.approx(math.log(20) - 1)
    assert scores["continual/fwt_tasks"] == 1
    assert scores["composition_gap/adjective/log_ppl_pair"] == pytest.approx(1.0)


def test_a_checkpoint_between_two_evaluations_is_no_part_of_the_matrix(dataset, context, tmp_path):
    write_context(tmp_path, context)
    for name, step, loss in (("test" + SUBSET, 1, 1.0), ("test" + SUBSET, 3, 2.0), ("test", 77, 9)):
        with RecordWriter(record_path(tmp_path, name, step)) as writer:
            writer.add(records(dataset, "test", float(loss)))
    # As `mmgen.evaluate --from-checkpoint` leaves it: scored, and no hindrance to the run's end.
    scores = score_run(tmp_path, read_context(tmp_path))
    assert scores["test/log_ppl"] == pytest.approx(9.0)
    assert scores["forgetting/best"] == pytest.approx(1.0)


def test_as_released_is_undefined_for_flickr(dataset, context):
    tables = {step: as_table(records(dataset, "test", float(step))) for step in (1, 2)}
    assert "forgetting/as_released" in score_forgetting(tables, context)
    context["dataset"]["paper_size"] = 456_299
    assert "forgetting/as_released" not in score_forgetting(tables, context)


def by_task(dataset, *losses):
    """Evaluations of steps 1, 2, ... with those losses of each task."""
    return {
        step: as_table(records(dataset, "test", np.array(loss, float)))
        for step, loss in enumerate(losses, 1)
    }


def test_frequencies_are_of_the_whole_split(dataset, context):
    tables = by_task(dataset, (1, 1), (2, 3), (4, 4))
    assert context["task_items"] == [3, 3]
    assert score_forgetting(tables, context)["forgetting/seen98_frequency"] == pytest.approx(2.0)
    context["task_items"] = [30, 10]
    scores = score_forgetting(tables, context)
    # Task 0 ends at step 1 and grows by 3 from there, task 1 at step 2 and grows by 1.
    assert scores["forgetting/seen98"] == pytest.approx(2.0)
    assert scores["forgetting/seen98_frequency"] == pytest.approx((30 * 3 + 10 * 1) / 40)
    # The ends are examples 1 and 3, held against iterations 1, 2 and -1.
    assert scores["forgetting/as_released"] == pytest.approx((30 * 3 + 10 * 1) / 40)


def test_as_released_leaves_out_the_first_checkpoint_of_the_published_schedule(dataset, context):
    context["task_items"], context["schedule"] = [30, 10], "paper"
    scores = score_forgetting(by_task(dataset, (1, 1), (2, 3), (4, 4)), context)
    assert scores["forgetting/as_released"] == pytest.approx((30 * 2 + 10 * 1) / 40)


def test_a_subset_stands_for_the_whole_split(dataset, context):
    table = as_table(records(dataset, "test", np.array([1.0, 4.0]), rows=[0, 1, 5, 2]))
    scores = score_split(table, "test" + SUBSET, context, final=False)
    # Three items of task 0, and one of task 1's three.
    assert scores["test_subset/log_ppl"] == pytest.approx((3 * 1 + 3 * 4) / 6)
    assert scores["test_subset/optimum"] == pytest.approx((0 + 0.1 + 0.5 + 3 * 0.2) / 6)
    # Determiners: one of 3 + 1 + 2 tokens of task 0's items, one of the 2 of task 1's, thrice.
    assert scores["test_subset/determiner_share"] == pytest.approx((1 + 0 + 1 + 3) / (6 + 3 * 2))
    assert score_split(table, "test", context, final=False)["test/log_ppl"] == pytest.approx(1.75)


def test_a_context_of_before_counts_the_items_of_the_last_evaluation(dataset, context, tmp_path):
    del context["task_items"]
    context["dataset"]["splits"]["test"] = {"examples": 6}
    write_context(tmp_path, context)
    with RecordWriter(record_path(tmp_path, "test" + SUBSET, 1)) as writer:
        writer.add(records(dataset, "test", 1.0, [0, 1, 5, 2]))
    with pytest.raises(UserError, match="no evaluation of the whole test split"):
        score_run(tmp_path, read_context(tmp_path))
    with RecordWriter(record_path(tmp_path, "test", 3)) as writer:
        writer.add(records(dataset, "test", np.array([3.0, 2.0])))
    scores = score_run(tmp_path, read_context(tmp_path))
    # Task 0 grows from step 1 on; task 1 ends as near to step 3, the final model, as to step 1.
    assert scores["forgetting/seen98_frequency"] == pytest.approx((3 * 2 + 3 * 0) / 6)


def test_small_tasks_are_excluded_and_counted(dataset, context):
    context["min_task_items"] = 4
    tables = {step: as_table(records(dataset, "test", float(step))) for step in (1, 2)}
    scores = score_forgetting(tables, context)
    assert scores["forgetting/tasks_excluded"] == 2
    assert "forgetting/best" not in scores


def test_an_evaluation_of_an_unplanned_step_is_named(dataset, context):
    tables = {step: as_table(records(dataset, "test", 1.0)) for step in (1, 77)}
    with pytest.raises(UserError, match="step 77"):
        score_forgetting(tables, context)


def test_nothing_evaluated_is_one_sentence(context, tmp_path):
    with pytest.raises(UserError, match="holds no evaluation"):
        score_run(tmp_path, context)
