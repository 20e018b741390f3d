"""The clock of waiting for data, kept beside the loop, which never stops for it."""

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

PyTree = Any


class WaitClock:
    """Adds up the time in which no step was running because its batch was not there.

    Be it that the batch was not read yet or not copied to the device. When a step ends and when a
    copy arrives is noted by a thread of the clock's own.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._ended = 0.0
        self._seconds = 0.0
        # A daemon: a step that never ends, because another process has, must not hold the exit.
        threading.Thread(target=self._work, name="wait_clock", daemon=True).start()

    @property
    def seconds(self) -> float:
        """Of the batches that have arrived so far."""
        return self._seconds

    def dispatched(self, values: jax.Array) -> None:
        """A step was dispatched whose scalars are `values`."""
        self._jobs.put(functools.partial(self._note_end, values))

    def placed(self, feed: PyTree, began: float) -> None:
        """The copy of the next step's batch is under way, or done.

        Args:
          began: `time.perf_counter()` when the loop asked for the batch; before, it had other
            things to do.
        """
        arrived = time.perf_counter() if _is_ready(feed) else None
        self._jobs.put(functools.partial(self._note_arrival, feed, began, arrived))

    def reset(self) -> None:
        """Forget what was waited for until now; every step dispatched has ended."""
        self.settle()
        self._seconds = 0.0

    def settle(self) -> None:
        """Until everything under way is noted."""
        noted = threading.Event()
        self._jobs.put(noted.set)
        noted.wait()

    def close(self) -> None:
        """End the thread, as soon as what is under way has ended."""
        self._jobs.put(None)

    def _work(self) -> None:
        for job in iter(self._jobs.get, None):
            # A step that failed fails where the loop reads it, too.
            with contextlib.suppress(Exception):
                job()

    def _note_end(self, values: jax.Array) -> None:
        jax.block_until_ready(values)
        self._ended = time.perf_counter()

    def _note_arrival(self, feed: PyTree, began: float, arrived: float | None) -> None:
        # Jobs are done in order, so that the step before the one that reads `feed` has ended.
        if arrived is None:
            jax.block_until_ready(feed)
            arrived = time.perf_counter()
        self._seconds += max(0.0, arrived - max(self._ended, began))


def _is_ready(feed: PyTree) -> bool:
    return all(leaf.is_ready() for leaf in jax.tree.leaves(feed))
