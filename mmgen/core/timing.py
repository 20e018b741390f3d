"""Where the wall time of a run goes."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator


class Stopwatch:
    """Adds up seconds by name; the total runs from the moment it is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = defaultdict(float)
        self._running: dict[str, float] = {}

    @contextlib.contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the time that the context takes to `name`."""
        self._running[name] = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - self._running.pop(name)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self._seconds[name] += seconds

    def seconds(self, name: str) -> float:
        """What `name` has so far, counting a context that is still open."""
        since = self._running.get(name)
        return self._seconds[name] + (time.perf_counter() - since if since is not None else 0.0)

    def total(self) -> float:
        """Seconds since this was made."""
        return time.perf_counter() - self._began

    def report(self) -> dict[str, float]:
        """All of it: `<name>_seconds`, and `total_seconds`."""
        found = {f"{name}_seconds": value for name, value in sorted(self._seconds.items())}
        return {**found, "total_seconds": self.total()}
