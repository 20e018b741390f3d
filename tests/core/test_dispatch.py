"""Iterations whose batches come from the host: what counts as waiting for data."""

import time

import jax
import pytest

from mmgen.core import dispatch
from mmgen.core.dispatch import HostDispatcher, LiveDispatcher
from mmgen.core.mesh import make_mesh, param_shardings
from mmgen.core.waiting import WaitClock
from mmgen.core.workdir import Workdir
from mmgen.memory.live import Drawn
from tests.core import toy

DELAY = 0.8
"""Seconds, far more than everything else in here takes."""


class Later:
    """Stands for an array that is ready at a time by `time.perf_counter`."""

    def __init__(self, ready: float):
        self.ready = ready

    def is_ready(self) -> bool:
        return time.perf_counter() >= self.ready

    def block_until_ready(self) -> None:
        time.sleep(max(0.0, self.ready - time.perf_counter()))


class Device:
    """Stands for a device that copies one batch after the other, and so computes its steps.

    Args:
      copy, step: seconds of a copy and of a step.
    """

    def __init__(self, copy: float, step: float):
        self._seconds = copy, step
        self._copied = self._computed = time.perf_counter()

    def put_feed(self, *_):
        self._copied = max(self._copied, time.perf_counter()) + self._seconds[0]
        return (Later(self._copied),)

    def call(self, state, feed, seed):
        self._computed = max(self._computed, feed[0].ready) + self._seconds[1]
        return state, Later(self._computed)


def made(kind, workdir, **changes):
    spec = toy.toy_spec(workdir, **changes)
    mesh = make_mesh()
    shardings = param_shardings(jax.eval_shape(toy.init, jax.random.key(0)), mesh)
    return kind(spec, shardings, mesh, *([0] if kind is HostDispatcher else []))


@pytest.mark.parametrize(
    ("copy", "step", "expected"),
    [(1.0, 0.0, 2.0), (1.0, 0.4, 1.6), (0.2, 1.0, 0.2)],
    ids=["no step to hide behind", "a shorter step", "a longer step"],
)
def test_what_copies_take_longer_than_steps_counts(tmp_path, monkeypatch, copy, step, expected):
    """Over two iterations, in units of DELAY; the first copy has nothing to hide behind."""
    device = Device(copy * DELAY, step * DELAY)
    monkeypatch.setattr(dispatch, "put_feed", device.put_feed)
    dispatcher = made(HostDispatcher, Workdir(tmp_path))
    dispatcher._call = device.call
    began = time.perf_counter()
    for number in range(2):
        dispatcher.dispatch((), dispatcher.prepare(number), 3)
    assert time.perf_counter() - began < 0.15 * DELAY  # the loop itself has waited for nothing
    dispatcher.clock.settle()
    dispatcher.close()
    assert dispatcher.clock.seconds == pytest.approx(expected * DELAY, abs=0.15 * DELAY)


def test_a_batch_that_is_not_read_yet_counts(tmp_path):
    class Slow(toy.ToyFeeds):
        def __getitem__(self, step):
            time.sleep(DELAY)
            return super().__getitem__(step)

    dispatcher = made(HostDispatcher, Workdir(tmp_path), feeds=Slow())
    dispatcher.prepare(0)
    dispatcher.clock.settle()
    dispatcher.close()
    assert DELAY / 2 <= dispatcher.clock.seconds < 2 * DELAY


def test_the_clock_forgets_and_outlives_a_step_that_failed():
    class Failed(Later):
        def block_until_ready(self):
            raise RuntimeError

    clock = WaitClock()
    now = time.perf_counter()
    clock.placed((Later(now + DELAY / 2),), now)
    clock.reset()
    assert clock.seconds == 0
    clock.dispatched(Failed(0.0))
    now = time.perf_counter()
    clock.placed((Later(now + DELAY / 2),), now)
    clock.settle()
    assert clock.seconds > 0.4 * DELAY
    clock.close()


def test_a_copy_of_rows_drawn_live_is_waited_for(tmp_path, monkeypatch):
    class Feeds:
        def with_replay(self, step: int, drawn: Drawn):
            return ()

    device = Device(DELAY, 0.0)
    monkeypatch.setattr(dispatch, "put_feed", device.put_feed)
    draw = lambda memory, seed, step: Drawn((), ())  # noqa: E731
    dispatcher = made(LiveDispatcher, Workdir(tmp_path), feeds=Feeds(), draw=draw)
    dispatcher._call = device.call
    dispatcher.dispatch(toy.init(jax.random.key(0)), 0, 3)
    dispatcher.clock.settle()
    assert dispatcher.clock.seconds == pytest.approx(DELAY, rel=0.2)
