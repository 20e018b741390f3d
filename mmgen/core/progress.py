"""One line that says how far a run is: a bar on a terminal, a line now and then elsewhere."""

import math
import sys
import time
from typing import IO

from mmgen.core.announce import say

BAR_SECONDS = 0.2
LINE_SECONDS = 5.0
BAR_WIDTH = 20


class Progress:
    """Shows step, examples/s, loss, memory fill, share of time waiting for data, time left.

    It is given host numbers and never touches a device. A reader who is gone ends no run.
    """

    def __init__(
        self,
        total: int,
        examples_per_step: int = 0,
        capacity: int | None = None,
        enabled: bool = True,
        stream: IO[str] | None = None,
    ):
        """Of a run of `total` steps.

        Args:
          examples_per_step: for the rate; 0 shows steps/s.
          capacity: slots of the memory, to show its fill as a number; None shows a share.
        """
        self._total = total
        self._examples = examples_per_step
        self._stream = stream or sys.stderr
        self._capacity = capacity
        self._enabled = enabled
        self._is_bar = enabled and self._stream.isatty()
        self._start = self._shown = (time.monotonic(), 0)
        self._rate = math.nan
        self._line = ""

    def start(self, step: int) -> None:
        """Begin to count time at `step`: after compiling, or after restoring."""
        self._start = self._shown = (time.monotonic(), step)

    def update(
        self,
        step: int,
        loss: float | None = None,
        memory_fill: float | None = None,
        wait_share: float | None = None,
    ) -> None:
        """`step` iterations are finished; shown only if the last time was long enough ago.

        Args:
          memory_fill, wait_share: in [0, 1].
        """
        if not self._enabled:
            return
        now = time.monotonic()
        since, before = self._shown
        if now - since < (BAR_SECONDS if self._is_bar else LINE_SECONDS) and step < self._total:
            return
        if step > before and now > since:
            rate = (step - before) / (now - since)
            # The last second or so counts most, without jumping about.
            self._rate = rate if math.isnan(self._rate) else 0.7 * self._rate + 0.3 * rate
        self._shown = (now, step)
        self._show(self._format(now, step, loss, memory_fill, wait_share))

    def close(self) -> None:
        """Leave the last state of the bar on the screen and go to the next line."""
        if self._is_bar and self._line:
            say(self._stream, "\n")
        self._line = ""

    def _format(self, now, step, loss, memory_fill, wait_share) -> str:
        parts = [f"step {step}/{self._total}"]
        if self._is_bar:
            full = BAR_WIDTH * step // max(self._total, 1)
            parts.insert(0, f"[{'#' * full}{'.' * (BAR_WIDTH - full)}]")
        if not math.isnan(self._rate):
            unit = "examples/s" if self._examples else "steps/s"
            parts.append(f"{self._rate * (self._examples or 1):.4g} {unit}")
        if loss is not None:
            parts.append(f"loss {loss:.4g}")
        if memory_fill is not None:
            filled = f"{memory_fill:.0%}"
            if self._capacity:
                filled = f"{round(memory_fill * self._capacity)}/{self._capacity}"
            parts.append(f"memory {filled}")
        if wait_share is not None:
            parts.append(f"data wait {wait_share:.1%}")
        began, first = self._start
        if step > first:
            # From all steps so far, evaluations included, since more of those are to come.
            left = (self._total - step) * (now - began) / (step - first)
            parts.append(f"left {_clock(left)}")
        return "  ".join(parts)

    def _show(self, line: str) -> None:
        self._line = line
        say(self._stream, line if self._is_bar else f"{line}\n", clear=self._is_bar)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
