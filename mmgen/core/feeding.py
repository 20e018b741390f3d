"""Reading ahead: the feeds of the next steps."""

import queue
import threading
from collections.abc import Iterator
from typing import Any, Protocol

from mmgen.algorithms.base import Feed
from mmgen.memory.live import Drawn


class Feeds(Protocol):
    """The feed of every step, as a pure function of the step.

    It may also have `read_ahead(start) -> iterator of Feed`, with its own threads.
    """

    def __getitem__(self, step: int) -> Feed:
        """The feed that iteration `step` (from 0) reads, as numpy arrays."""


class LiveFeeds(Feeds, Protocol):
    """Feeds to which the rows to replay are added during training."""

    def with_replay(self, step: int, drawn: Drawn) -> Feed:
        """The feed of iteration `step` with these rows, global numpy arrays, to replay."""


def read_ahead(feeds: Feeds, start: int, stop: int, depth: int = 2) -> Iterator[Feed]:
    """`feeds[start], ..., feeds[stop - 1]`, made by one thread up to `depth` steps early.

    An error in making a feed is raised where that feed is asked for. Closing the iterator ends the
    thread.
    """
    ready: queue.Queue[tuple[Feed | None, BaseException | None]] = queue.Queue(maxsize=depth)
    closed = threading.Event()

    def offer(item: tuple[Feed | None, BaseException | None]) -> None:
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def produce() -> None:
        try:
            for step in range(start, stop):
                if closed.is_set():
                    return
                offer((feeds[step], None))
        except BaseException as error:
            offer((None, error))

    threading.Thread(target=produce, name="read_ahead", daemon=True).start()
    try:
        for _ in range(start, stop):
            feed, error = ready.get()
            if error is not None:
                raise error
            assert feed is not None
            yield feed
    finally:
        closed.set()


class Feeder:
    """The feeds from `start` on."""

    def __init__(self, feeds: Feeds, start: int, stop: int):
        own = getattr(feeds, "read_ahead", None)
        self._iterator: Any = own(start) if own else read_ahead(feeds, start, stop)

    def next(self) -> Feed:
        """The next feed, once it is there."""
        return next(self._iterator)

    def close(self) -> None:
        """End the threads behind it."""
        close = getattr(self._iterator, "close", None)
        if close:
            close()
