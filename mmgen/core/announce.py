"""Sentences for the person at the terminal."""

import contextlib
import errno
import os
import sys
from typing import IO

import jax


def announce(sentence: str) -> None:
    """Print one sentence to stderr, once per run: only its first process speaks."""
    if jax.process_index() == 0:
        say(sys.stderr, f"mmgen: {sentence}\n", clear=True)


def say(stream: IO[str], text: str, clear: bool = False) -> None:
    """Write and flush text that a run can do without: a reader who is gone ends nothing.

    Args:
      clear: on a terminal, take away what is left of a progress bar on this line.
    """
    try:
        stream.write(f"\r\x1b[K{text}" if clear and stream.isatty() else text)
        stream.flush()
    except OSError as error:
        if error.errno in (None, errno.EPIPE, errno.EIO):
            _silence(stream)


def _silence(stream: IO[str]) -> None:
    """Let `stream` lead nowhere: Python flushes what it still holds at exit, and would fail."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
