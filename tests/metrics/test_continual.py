"""Forgetting and transfer on matrices made by hand; every definition on its own."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.metrics import continual

# Two tasks of ten examples each, one after the other; two examples a step, so ten steps.
STREAM = np.array([0] * 10 + [1] * 10)
STEPS = np.array([2, 4, 6, 8, 10])
LOSS = np.array([[3.0, 2.0, 1.0, 2.5, 4.0], [5.0, 5.0, 4.5, 3.0, 2.0]])
MATRIX = continual.TaskMatrix(STEPS, LOSS, np.array([30, 10]))
EXPOSED = continual.exposure(STREAM, 2, STEPS, examples_per_step=2)
ALL = np.array([True, True])
WEIGHTS = np.array([90.0, 10.0])


def test_exposure_counts_what_each_checkpoint_has_seen():
    assert EXPOSED.seen.tolist() == [[0.4, 0.8, 1, 1, 1], [0, 0, 0.2, 0.6, 1]]
    assert EXPOSED.end_example.tolist() == [9, 19]
    assert EXPOSED.size.tolist() == [10, 10]


def test_end_is_the_example_that_reaches_98_percent():
    stream = np.concatenate([np.zeros(99, int), np.ones(50, int), np.zeros(1, int)])
    exposed = continual.exposure(stream, 3, np.array([1]), 1)
    # 98 of 100 suffice for task 0; 49 of 50 for task 1; task 2 never comes.
    assert exposed.end_example.tolist() == [97, 99 + 48, -1]
    assert np.isnan(exposed.seen[2]).all()


def test_best_subtracts_the_best_checkpoint():
    value, tasks = continual.forgetting_best(MATRIX, ALL)
    assert (value, tasks) == (pytest.approx(((4 - 1) + (2 - 2)) / 2), 2)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(0, 20), min_size=4, max_size=4), min_size=1, max_size=5))
def test_best_is_never_negative(loss):
    matrix = continual.TaskMatrix(np.arange(4), np.array(loss), np.ones(len(loss), int))
    assert continual.forgetting_best(matrix, np.ones(len(loss), bool)).value >= 0


def test_seen98_subtracts_the_checkpoint_nearest_to_the_tasks_end():
    # Task 0 ends after example 10 = step 5: steps 4 and 6 are equally near, the later one counts.
    value, _ = continual.forgetting_seen98(MATRIX, EXPOSED, ALL)
    assert value == pytest.approx(((4 - 1) + 0) / 2)


def test_seen98_is_negative_where_a_task_goes_on_improving():
    falling = MATRIX._replace(loss=np.array([[5.0, 4, 3, 2, 1], [5.0, 4, 3, 2, 1]]))
    assert continual.forgetting_seen98(falling, EXPOSED, ALL).value == pytest.approx((1 - 3) / 2)


def test_frequency_weighting_is_by_the_weights_given():
    value = continual.forgetting_seen98(MATRIX, EXPOSED, ALL, WEIGHTS).value
    assert value == pytest.approx((90 * 3 + 10 * 0) / 100)


def test_as_released_holds_examples_against_iterations():
    # Ends are examples 9 and 19; candidates are iterations 4, 6, 8 and -1 for the final model
    # (the first checkpoint is not in the released list): both tasks are compared with iteration 8.
    value = continual.forgetting_as_released(MATRIX, EXPOSED, ALL, WEIGHTS, skip_first=True).value
    assert value == pytest.approx((90 * (4 - 2.5) + 10 * (2 - 3)) / 100)


def test_as_released_compares_a_task_that_ends_at_once_with_the_final_model():
    exposed = EXPOSED._replace(end_example=np.array([0, 0]))
    at_once = continual.forgetting_as_released(MATRIX, exposed, ALL, WEIGHTS, skip_first=False)
    assert at_once.value == 0


def test_backward_transfer_is_positive_when_later_training_helps():
    # Task 0 is finished at step 6 (loss 1, final 4); task 1 only at the end: left out.
    assert continual.backward_transfer(MATRIX, EXPOSED, ALL) == (pytest.approx(1 - 4), 1)


def test_forward_transfer_takes_the_last_checkpoint_before_the_task():
    # Task 0 is half seen at the first checkpoint: left out. Task 1 is unseen up to step 4.
    reference = np.array([6.0, 6.0])
    value, tasks = continual.forward_transfer(MATRIX, EXPOSED, ALL, reference)
    assert (value, tasks) == (pytest.approx(6 - 5), 1)


def test_average_is_over_tasks_not_items():
    assert continual.average_loss(MATRIX, ALL).value == pytest.approx(3.0)


def test_small_tasks_are_left_out():
    tasks = continual.eligible_tasks(MATRIX, 20)
    assert tasks.tolist() == [True, False]
    assert continual.average_loss(MATRIX, tasks) == (4.0, 1)


def test_a_task_without_items_counts_nowhere():
    matrix = MATRIX._replace(loss=np.vstack([LOSS[:1], np.full((1, 5), np.nan)]))
    assert continual.forgetting_best(matrix, ALL).tasks == 1
    assert not continual.eligible_tasks(MATRIX._replace(items=np.array([3, 0])), 0)[1]


def test_no_task_at_all_is_undefined():
    value, tasks = continual.average_loss(MATRIX, np.array([False, False]))
    assert math.isnan(value)
    assert tasks == 0


def test_matrix_uses_only_items_that_every_checkpoint_has():
    subset = (np.array([1, 3]), np.array([0, 1]), np.array([2.0, 4.0]))
    whole = (np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1]), np.array([9.0, 1.0, 9.0, 3.0]))
    matrix = continual.task_matrix({5: subset, 10: whole}, num_tasks=3)
    np.testing.assert_array_equal(matrix.loss, [[2, 1], [4, 3], [np.nan, np.nan]])
    assert matrix.items.tolist() == [1, 1, 0]
    assert matrix.steps.tolist() == [5, 10]


def test_matrix_of_disjoint_items_is_refused():
    one = (np.array([1]), np.array([0]), np.array([2.0]))
    other = (np.array([2]), np.array([0]), np.array([2.0]))
    with pytest.raises(ValueError, match="share no item"):
        continual.task_matrix({5: one, 10: other}, num_tasks=1)
