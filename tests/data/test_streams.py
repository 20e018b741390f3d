"""The stream builder against a literal reading of the released algorithm."""

import gzip
import json
import math
import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from mmgen.data.streams import (
    ORDERS,
    TIME_BINS,
    iid_stream,
    shift_stream,
    task_time_information,
)
from mmgen.errors import UserError


def literal_stream(task, seed, bin_width, floor, order):
    """viscoll.md section 2, step by step, slow and obvious."""
    groups = {}
    for row, key in enumerate(task):
        groups.setdefault(key, []).append(row)
    keys = list(groups)
    if order == "random":
        random.Random(seed).shuffle(keys)
    elif order == "ascending":
        keys = sorted(keys, key=lambda k: len(groups[k]))
    else:
        keys = sorted(keys, key=lambda k: -len(groups[k]))
    num_bins = 2 * math.ceil(len(task) / bin_width)
    bins = [[] for _ in range(num_bins)]
    left, before = [], 0
    for key in keys:
        size = len(groups[key])
        centre, spread = before + size / 2, max(floor, size / 2)
        before += size
        taken = 0
        for b in range(num_bins):
            take = int(norm.cdf((bin_width * b - centre) / spread) * size - taken)
            bins[b] += groups[key][taken : taken + take]
            taken += take
        left += groups[key][taken:]
    stream = []
    for part in [*bins, left]:
        random.Random(seed).shuffle(part)
        stream += part
    return stream


def zipf_tasks(count, tasks, seed=0):
    weights = 1 / np.arange(1, tasks + 1)
    return np.random.default_rng(seed).choice(tasks, count, p=weights / weights.sum())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("bin_width", "floor"), [(31, 94), (31, 0), (1000, 3000), (7, 0.5), (1, 20)]
)
def test_equals_a_literal_reading_of_the_release(order, bin_width, floor):
    task = zipf_tasks(120, 12)
    for seed in (0, 3):
        stream = shift_stream(task, seed=seed, bin_width=bin_width, spread_floor=floor, order=order)
        literal = literal_stream(task.tolist(), seed, bin_width, floor, order)
        np.testing.assert_array_equal(stream, literal)


@settings(deadline=None, max_examples=150)
@given(
    task=st.lists(st.integers(-3, 12), min_size=1, max_size=120),
    seed=st.integers(0, 5),
    bin_width=st.integers(1, 300),
    floor=st.sampled_from([0, 1, 10, 5000]),
    order=st.sampled_from(ORDERS),
)
def test_no_instance_is_ever_lost(task, seed, bin_width, floor, order):
    task = np.array(task)
    stream = shift_stream(task, seed=seed, bin_width=bin_width, spread_floor=floor, order=order)
    assert stream.dtype == np.int64
    np.testing.assert_array_equal(np.sort(stream), np.arange(len(task)))
    np.testing.assert_array_equal(
        stream, literal_stream(task.tolist(), seed, bin_width, floor, order)
    )


def test_orders_sort_the_task_centres_by_size():
    task = np.repeat([0, 1, 2, 3], [40, 10, 40, 90])
    first_seen = {}
    for order in ("ascending", "descending"):
        stream = shift_stream(task, seed=0, bin_width=5, spread_floor=0, order=order)
        middle = [np.median(np.flatnonzero(task[stream] == label)) for label in range(4)]
        first_seen[order] = np.argsort(middle).tolist()
    # Equal sizes keep the order of first appearance.
    assert first_seen == {"ascending": [1, 0, 2, 3], "descending": [3, 0, 2, 1]}


def test_seed_decides_the_stream_and_nothing_else_does():
    task = zipf_tasks(500, 8)
    kwargs = {"bin_width": 20, "spread_floor": 10}
    again = [shift_stream(task, seed=1, **kwargs) for _ in range(2)]
    np.testing.assert_array_equal(*again)
    assert not np.array_equal(again[0], shift_stream(task, seed=2, **kwargs))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"order": "sorted"}, "config.stream.order"),
        ({"bin_width": 0}, "config.stream.bin_width"),
        ({"spread_floor": -1}, "config.stream.spread_floor"),
        ({"task": np.zeros(0, int)}, "no instances"),
    ],
)
def test_bad_settings_are_refused(change, words):
    good = {"task": np.arange(4), "seed": 0, "bin_width": 2, "spread_floor": 0, "order": "random"}
    kwargs = good | change
    with pytest.raises(UserError, match=words):
        shift_stream(kwargs.pop("task"), **kwargs)


def test_the_published_size_takes_seconds():
    task = zipf_tasks(640_000, 1000)
    started = time.process_time()
    stream = shift_stream(task, seed=0, bin_width=1000, spread_floor=3000)
    assert time.process_time() - started < 15
    assert np.array_equal(np.sort(stream), np.arange(len(task)))


def test_iid_streams_are_permutations_and_differ_by_epoch():
    streams = [iid_stream(50, 0, epoch) for epoch in (0, 0, 1)]
    np.testing.assert_array_equal(streams[0], streams[1])
    assert not np.array_equal(streams[0], streams[2])
    for stream in streams:
        np.testing.assert_array_equal(np.sort(stream), np.arange(50))


def test_information_is_one_for_separate_tasks_and_zero_for_a_shuffle():
    separate = np.repeat([3, 1, 2, 7, 9], 100)
    assert task_time_information(separate, bins=5) == pytest.approx(1.0)
    alternating = np.tile([0, 1], 100)
    assert task_time_information(alternating, bins=10) == pytest.approx(0.0, abs=1e-12)
    assert task_time_information(np.zeros(9, int), bins=3) == 0.0


def dev_tasks(real_data):
    with gzip.open(real_data / "viscoll" / "coco_dev.jsonl.gz", "rt") as file:
        names = [json.loads(line)["task"] for line in file]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names])


def test_information_of_the_real_dev_stream(real_data):
    task = dev_tasks(real_data)
    scale = len(task) / 639_592

    def information(bin_width, floor):
        stream = shift_stream(task, seed=0, bin_width=bin_width, spread_floor=floor)
        return task_time_information(task[stream], TIME_BINS)

    scaled = information(round(1000 * scale), round(3000 * scale))
    # With the release's constants a stream this short hardly shifts.
    nearly_stationary = information(round(1000 * scale), 3000)
    assert 0.69 < scaled < 0.72
    assert 0.26 < nearly_stationary < 0.30


def test_facts_of_the_published_size(real_data):
    task = np.resize(dev_tasks(real_data), 639_592)
    stream = shift_stream(task, seed=0, bin_width=1000, spread_floor=3000)
    sizes = np.bincount(task)
    assert (len(sizes), np.sum(sizes < 6000)) == (58, 26)
    assert task_time_information(task[stream], bins=100) == pytest.approx(0.74, abs=0.01)
