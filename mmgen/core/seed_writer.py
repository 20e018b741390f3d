"""Numbers of several seeds that train side by side, each to its own files."""

from collections.abc import Mapping, Sequence

from mmgen.core.seeds import seed_mark
from mmgen.core.writers import EXEMPT, Writer


class SeedWriter:
    """Hands each seed what is its own: `train/seed1/loss` is the second writer's `train/loss`."""

    def __init__(self, writers: Sequence[Writer]):
        self._writers = writers

    def resume(self, step: int | None) -> None:
        """See `Writer.resume`."""
        for writer in self._writers:
            writer.resume(step)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """See `Writer.scalars`; what belongs to no seed is left out, but for the clocks."""
        clocks = {key: value for key, value in values.items() if key.startswith(EXEMPT)}
        for index, writer in enumerate(self._writers):
            mark = seed_mark(index)
            mine = {key.replace(mark, ""): value for key, value in values.items() if mark in key}
            writer.scalars(step, mine | clocks)

    def text(self, step: int, texts: Mapping[str, str]) -> None:
        """See `Writer.text`."""
        for writer in self._writers:
            writer.text(step, texts)

    def flush(self) -> None:
        """See `Writer.flush`."""
        for writer in self._writers:
            writer.flush()

    def close(self) -> None:
        """See `Writer.close`."""
        for writer in self._writers:
            writer.close()
