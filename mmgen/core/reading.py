"""Reading the scalars of a step without waiting for it."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

LATE = 4
"""Dispatches in flight before the oldest is waited for; the others keep the device busy."""


class NotFinite(Exception):
    """The loss of an iteration is not finite; `step` counts that iteration as finished."""

    def __init__(self, step: int, loss: float):
        super().__init__(f"loss {loss} at step {step}")
        self.step = step
        self.loss = loss


class Window(NamedTuple):
    """Sums of the scalars since the last log line, as JSON values: a checkpoint holds them."""

    sums: dict[str, float]
    steps: int

    def add(self, values: dict[str, float]) -> "Window":
        """With one more step."""
        sums = {name: self.sums.get(name, 0.0) + value for name, value in values.items()}
        return Window(sums, self.steps + 1)

    def means(self) -> dict[str, float]:
        """The mean of each scalar over the steps of the window."""
        return {name: total / self.steps for name, total in self.sums.items()}


class LateReader:
    """Takes the scalars of each step as it is dispatched; hands them on once they are computed."""

    def __init__(self, consume: Callable[[int, dict[str, float]], None]):
        """`consume(step, values)` is called in order of steps, each once."""
        self._consume = consume
        self._pending: deque[tuple[int, tuple[str, ...], Any]] = deque()

    def push(self, step: int, names: tuple[str, ...], values: jax.Array) -> None:
        """Scalars of the last step dispatched, after which `step` are finished, or of several.

        Args:
          names: of the scalars.
          values: float32[n], or float32[count, n] of the `count` steps up to that one.
        """
        # Meant, but not what a transfer guard calls explicit; on a CPU there is nothing to copy.
        with jax.transfer_guard_device_to_host("allow"):
            values.copy_to_host_async()
        self._pending.append((step, names, values))

    def poll(self) -> None:
        """Hand on what is computed, and wait only if more than LATE steps are in flight.

        With several processes always LATE steps late, so that all of them find a loss that is not
        finite at the same step, and none goes on alone into a sum over all.

        Raises:
          NotFinite: by its step, the first loss that is not finite.
        """
        alone = jax.process_count() == 1
        while len(self._pending) > LATE or (
            alone and self._pending and self._pending[0][2].is_ready()
        ):
            self._read()

    def drain(self) -> None:
        """Wait for every step dispatched so far, and hand on its scalars. Raises like `poll`."""
        while self._pending:
            self._read()

    def _is_ready(self) -> bool:
        return self._pending[0][2].is_ready()

    def _read(self) -> None:
        step, names, array = self._pending.popleft()
        steps: Any = np.atleast_2d(jax.device_get(array))
        for number, host in enumerate(steps, step - len(steps) + 1):
            values = {name: float(value) for name, value in zip(names, host, strict=True)}
            if not math.isfinite(values["loss"]):
                raise NotFinite(number, values["loss"])
            self._consume(number, values)
