"""Feeds are read ahead in order; scalars are read late, in order, without waiting."""

import math
import multiprocessing
import threading
import time

import jax
import jax.numpy as jnp
import pytest

from mmgen.core.feeding import Feeder, read_ahead
from mmgen.core.reading import LATE, LateReader, NotFinite, Window

from . import children


def test_reads_a_little_ahead_and_in_order():
    made = []

    class Feeds:
        def __getitem__(self, step):
            made.append(step)
            return step

    iterator = read_ahead(Feeds(), 3, 20, depth=2)
    assert next(iterator) == 3
    time.sleep(0.2)
    assert made == [3, 4, 5, 6]
    assert list(iterator) == list(range(4, 20))


def test_closing_ends_the_thread():
    before = threading.active_count()
    iterator = read_ahead([0] * 10, 0, 10, depth=1)
    next(iterator)
    iterator.close()
    for _ in range(100):
        if threading.active_count() == before:
            return
        time.sleep(0.02)
    raise AssertionError("the thread is still there")


def test_feeds_may_bring_their_own_reader():
    class Own:
        def read_ahead(self, start):
            return iter(range(start, 9))

    assert Feeder(Own(), 7, 9).next() == 7


class Slow:
    """Stands for an array that is not computed yet."""

    def __init__(self):
        self.asked = False

    def is_ready(self):
        return False

    def copy_to_host_async(self):
        pass

    def __array__(self, *args, **kwargs):
        raise AssertionError("waited for a step that is not late")


def test_a_step_in_flight_is_not_waited_for():
    seen = []
    reader = LateReader(lambda step, values: seen.append(step))
    reader.push(1, ("loss",), jnp.ones(1).block_until_ready())
    for step in range(2, 2 + LATE):
        reader.push(step, ("loss",), Slow())
        reader.poll()
    assert seen == [1]


def test_the_first_loss_that_is_not_finite_is_found_and_later_ones_never_seen():
    seen = []
    reader = LateReader(lambda step, values: seen.append((step, values)))
    for step, loss in enumerate([1.0, math.nan, 2.0], 1):
        reader.push(step, ("a", "loss"), jnp.array([0.5, loss]))
    with pytest.raises(NotFinite) as caught:
        reader.drain()
    assert caught.value.step == 2
    assert seen == [(1, {"a": 0.5, "loss": 1.0})]


def test_scalars_leave_an_accelerator_under_the_loops_transfer_guard():
    seen = []
    reader = LateReader(lambda step, values: seen.append((step, values)))
    # A CPU shares its arrays with the host; but not those of four bits, which it copies, guarded.
    loss = jnp.array([1], jnp.int4)
    refused = pytest.raises(RuntimeError, match="Disallowed device-to-host")
    with refused, jax.transfer_guard("disallow"):
        loss.copy_to_host_async()
    with jax.transfer_guard("disallow"):
        reader.push(1, ("loss",), loss)
        reader.drain()
    assert seen == [(1, {"loss": 1.0})]


def test_a_window_is_the_mean_since_the_last_line():
    window = Window({}, 0).add({"loss": 1.0}).add({"loss": 2.0})
    assert window.means() == {"loss": 1.5}


def only_what_it_needs(path):
    """Train without a writer; fails if anything optional was imported."""
    import sys

    children.use_cpu(1)
    from mmgen.core.loop import train
    from mmgen.core.mesh import make_mesh

    workdir = children.Workdir(path)
    train(children.toy.toy_spec(workdir), workdir, make_mesh())
    optional = ("grain", "tensorflow_datasets", "array_record", "clu", "tensorboard")
    loaded = [name for name in (*optional, "ml_collections", "tensorflow") if name in sys.modules]
    assert not loaded, loaded


def test_training_without_a_writer_imports_nothing_optional(tmp_path):
    # Not from the fork server, which other tests have made import all of mmgen.
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=only_what_it_needs, args=(str(tmp_path),), daemon=True)
    process.start()
    assert children.status(process) == 0
