"""The progress line says what it should, now and then, and never touches a device."""

import io
import subprocess
import sys

import jax
import pytest

from mmgen.core import progress as progress_lib
from mmgen.core.announce import announce
from mmgen.core.clu_writers import ConsoleWriter
from mmgen.core.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(progress_lib.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def test_a_log_gets_a_line_every_five_seconds_and_the_last(clock):
    stream = io.StringIO()
    progress = Progress(100, examples_per_step=32, stream=stream)
    progress.start(0)
    for step in range(1, 101):
        clock[0] += 0.2
        progress.update(step, loss=3.25, memory_fill=0.5, wait_share=0.021)
    progress.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0] == (
        "step 25/100  160 examples/s  loss 3.25  memory 50%  data wait 2.1%  left 0:15"
    )
    assert lines[-1].startswith("step 100/100")


def test_a_terminal_gets_a_bar_on_one_line(clock):
    stream = Terminal()
    progress = Progress(10, capacity=400, stream=stream)
    progress.start(0)
    clock[0] += 1
    progress.update(5, memory_fill=0.78)
    progress.update(6)
    progress.close()
    assert stream.getvalue() == (
        "\r\x1b[K[##########..........]  step 5/10  5 steps/s  memory 312/400  left 0:01\n"
    )


def test_a_resumed_run_counts_from_where_it_began(clock):
    stream = io.StringIO()
    progress = Progress(1000, stream=stream)
    progress.start(900)
    clock[0] += 10
    progress.update(950)
    assert "5 steps/s" in stream.getvalue()
    assert "left 0:10" in stream.getvalue()


def test_switched_off_it_is_silent():
    stream = Terminal()
    progress = Progress(1, enabled=False, stream=stream)
    progress.update(1)
    progress.close()
    assert stream.getvalue() == ""


def test_it_needs_no_device(clock, monkeypatch):
    monkeypatch.setattr(jax, "device_get", None)
    progress = Progress(10, stream=io.StringIO())
    clock[0] += 10
    progress.update(1, 0.5, 0.5, 0.5)


class Closed(io.StringIO):
    """A stream whose reader is gone."""

    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_line_that_nobody_can_read_ends_no_run(clock, monkeypatch, is_terminal):
    stream = Closed(is_terminal)
    progress = Progress(10, stream=stream)
    clock[0] += 10
    progress.update(5)
    progress.close()
    monkeypatch.setattr(sys, "stderr", stream)
    announce("the link is gone")
    console = ConsoleWriter(stream)
    console.write_scalars(5, {"test/loss": 1.0})


WRITE_ON = """
import os, sys
from mmgen.core.announce import announce
from mmgen.core.progress import Progress
sys.stdin.read()  # until the other end of stderr is closed
progress = Progress(3)
for step in range(1, 4):
    progress.update(step)
progress.update(3)
announce("still here")
print("saved", flush=True)
"""


def test_a_process_whose_pipe_is_closed_ends_with_status_0():
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_ON],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child.stderr.close()
    child.stdin.close()
    assert child.stdout.read() == "saved\n"
    assert child.wait(timeout=60) == 0
