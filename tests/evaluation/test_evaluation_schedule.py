"""Which iterations are evaluated, and which items."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.errors import UserError
from mmgen.evaluation.schedule import evaluation_steps, stratified_subset


def test_paper_schedule_is_the_published_one():
    coco = (1000, *range(2000, 18001, 2000), 19_966)
    assert evaluation_steps(19_966, "paper") == coco
    flickr = (1000, *range(2000, 14001, 2000), 14_260)
    assert evaluation_steps(14_260, "paper", paper_size=456_299) == flickr


def test_paper_schedule_is_scaled_to_a_shorter_run():
    steps = evaluation_steps(625, "paper")
    assert steps[:3] == (31, 63, 125)
    assert len(steps) == 11


def test_even_schedule_ends_with_the_final_model():
    assert evaluation_steps(600, "even", count=5) == (100, 200, 300, 400, 500, 600)
    assert evaluation_steps(3, "even", count=5) == (1, 2, 3)
    assert evaluation_steps(10, "even", count=0) == (10,)


@pytest.mark.parametrize("settings", [{"schedule": "odd"}, {"schedule": "paper", "paper_size": 7}])
def test_unknown_settings_are_one_sentence(settings):
    with pytest.raises(UserError, match="must be"):
        evaluation_steps(10, **settings)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=300),
    st.integers(1, 320),
    st.integers(0, 3),
)
def test_subset_is_stratified_unique_and_of_the_size_asked_for(task, size, seed):
    task = np.array(task)
    rows = stratified_subset(task, size, seed)
    assert len(rows) == min(size, len(task))
    assert (np.diff(rows) > 0).all()
    assert (rows == stratified_subset(task, size, seed)).all()
    labels, count = np.unique(task, return_counts=True)
    if size >= len(labels):
        assert set(task[rows]) == set(labels)
    chosen = np.array([np.sum(task[rows] == label) for label in labels])
    # Nobody gets more than his share rounded up, but for the one item that everybody has.
    assert (chosen <= np.maximum(1, np.ceil(count * size / len(task)))).all()


def test_tasks_with_enough_items_have_enough_in_the_subset():
    task = np.repeat([0, 1, 2, 3], [900, 60, 25, 15])
    plain, rows = (stratified_subset(task, 100, 0, least) for least in (0, 20))
    assert np.bincount(task[plain]).tolist() == [90, 6, 3, 1]
    assert np.bincount(task[rows]).tolist() == [90, 20, 20, 1]
    assert set(plain) < set(rows)


def test_another_seed_chooses_other_items():
    task = np.repeat([0, 1], 500)
    assert (stratified_subset(task, 100, 0) != stratified_subset(task, 100, 1)).any()
    assert len(stratified_subset(task, 0, 0)) == 1000
