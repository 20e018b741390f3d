"""Being told to stop: the current step is finished and saved, then the process ends in peace."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import jax
from jax.experimental import multihost_utils


class Interrupted(BaseException):
    """Raised by the signal inside `StopSignal.breakable`; not an Exception, so nobody eats it."""


class StopSignal:
    """Listens for SIGTERM (and a first Ctrl-C) while the context lasts.

    With several processes JAX itself listens, on all of them, and picks a step that every process
    reaches; replacing its handler would leave the others training.
    """

    def __init__(self) -> None:
        self._requested = False
        self._breakable = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopSignal":
        if jax.process_count() == 1 and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()

    def requested_at(self, step: int) -> bool:
        """Should the run stop at `step`? Every process must ask at every step, and once."""
        if jax.process_count() > 1:
            return multihost_utils.reached_preemption_sync_point(step)
        return self._requested

    @contextlib.contextmanager
    def breakable(self) -> Iterator[None]:
        """A long piece of work that changes no state: the signal breaks it with `Interrupted`."""
        self._breakable = True
        try:
            if self._requested:
                raise Interrupted
            yield
        finally:
            self._breakable = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._requested = True
        if self._breakable:
            self._breakable = False
            raise Interrupted
