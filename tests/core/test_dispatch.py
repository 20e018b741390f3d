"""Iterations whose batches come from the host: what counts as waiting for data."""

import time

import jax
import pytest

from mmgen.core import dispatch
from mmgen.core.dispatch import HostDispatcher, LiveDispatcher
from mmgen.core.mesh import make_mesh, param_shardings
from mmgen.core.workdir import Workdir
from mmgen.memory.live import Drawn
from tests.core import toy

DELAY = 0.1
"""Seconds, far more than everything else in here takes."""


class Copying:
    """Stands for an array whose copy to the device goes on after `put_feed` has returned."""

    waited = False

    def block_until_ready(self) -> None:
        self.waited = True
        time.sleep(DELAY)


def slow_call(*_):
    time.sleep(DELAY)
    return ()


def slow_copy(*_):
    return (Copying(),)


def made(kind, workdir, **changes):
    spec = toy.toy_spec(workdir, **changes)
    mesh = make_mesh()
    shardings = param_shardings(jax.eval_shape(toy.init, jax.random.key(0)), mesh)
    return kind(spec, shardings, mesh, *([0] if kind is HostDispatcher else []))


@pytest.mark.parametrize("put_feed", [slow_call, slow_copy])
def test_a_slow_copy_to_an_idle_device_is_waited_for(tmp_path, monkeypatch, put_feed):
    monkeypatch.setattr(dispatch, "put_feed", put_feed)
    dispatcher = made(HostDispatcher, Workdir(tmp_path))
    dispatcher.prepare(0, lambda: True)
    assert dispatcher.wait_seconds >= DELAY
    dispatcher.close()


def test_copies_behind_running_steps_are_not_waited_for(tmp_path, monkeypatch):
    copy = Copying()
    dispatcher = made(HostDispatcher, Workdir(tmp_path))
    for put_feed in (slow_call, lambda *_: (copy,)):
        monkeypatch.setattr(dispatch, "put_feed", put_feed)
        dispatcher.prepare(0, lambda: False)
    assert dispatcher.wait_seconds == 0 and not copy.waited
    dispatcher.close()


def test_a_copy_of_rows_drawn_live_is_waited_for(tmp_path, monkeypatch):
    class Feeds:
        def with_replay(self, step: int, drawn: Drawn):
            return ()

    monkeypatch.setattr(dispatch, "put_feed", slow_copy)
    draw = lambda memory, seed, step: Drawn((), ())  # noqa: E731
    dispatcher = made(LiveDispatcher, Workdir(tmp_path), feeds=Feeds(), draw=draw)
    dispatcher._call = lambda state, feed, seed: (state, None)
    dispatcher.dispatch(toy.init(jax.random.key(0)), 0, 3)
    assert dispatcher.wait_seconds >= DELAY
