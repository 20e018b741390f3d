"""Where numbers go while a run goes on: metrics.jsonl, TensorBoard and the console, through CLU.

    {"step": 125, "train/loss": 3.2, "time/examples_per_second": 410.0}

One line per call, at the number of finished iterations. When a run is resumed, everything beyond
the restored step is cut away, so that a broken run leaves the same lines as an unbroken one; keys
under `time/` are exempt from that.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import jax

from mmgen.core.workdir import Workdir

METRICS = "metrics.jsonl"
TENSORBOARD = "tb"
EXEMPT = "time/"
"""Prefix of the keys that may differ between a broken and an unbroken run."""


class Writer(Protocol):
    """What the loop needs of a writer."""

    def resume(self, step: int | None) -> None:
        """Drop what was written beyond `step`; None means that the run starts anew."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write host numbers; one line of metrics.jsonl."""

    def text(self, step: int, texts: Mapping[str, str]) -> None:
        """Write named texts."""

    def flush(self) -> None:
        """Wait until all of it is in the files."""

    def close(self) -> None:
        """Flush and let go of files and threads."""


class NullWriter:
    """Writes nothing: for all processes but the first, and for benchmarks."""

    def resume(self, step: int | None) -> None:
        """Nothing to drop."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Nothing."""

    def text(self, step: int, texts: Mapping[str, str]) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def make_writer(workdir: Workdir, resume_step: int | None = None, console: bool = True) -> Writer:
    """The writer of a run; on all processes but the first one that writes nothing.

    Args:
      resume_step: cut what is there back to this step at once. `train` cuts in any case, to the
        step that it really restores, so most callers leave it out.
    """
    if jax.process_index() != 0:
        return NullWriter()
    writer = RunWriter(workdir, console)
    if resume_step is not None:
        writer.resume(resume_step)
    return writer


class RunWriter:
    """CLU's MultiWriter over the three places; opens them on the first use.

    Not its AsyncMultiWriter: appending a line takes a tenth of a millisecond, and an error shows
    where it happens instead of at some later call.
    """

    def __init__(self, workdir: Workdir, console: bool = True):
        self._workdir = workdir
        self._console = console
        self._clu: Any = None
        self._there: set[tuple[int, frozenset[str]]] = set()

    def resume(self, step: int | None) -> None:
        """See `Writer.resume`. Raises UserError if the disk is full."""
        self.close()
        _cut_metrics(self._workdir, step)
        from mmgen.core.event_files import cut_event_files

        cut_event_files(self._workdir, TENSORBOARD, step)
        # The evaluation at the restored step may have to be made again, though its line is there.
        lines = [line for line in read_metrics(self._workdir) if line["step"] == step]
        self._there = {(line["step"], frozenset(line)) for line in lines}

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """See `Writer.scalars`. Raises UserError if the disk is full."""
        if (step, frozenset({"step", *values})) not in self._there:
            self._open().write_scalars(step, dict(values))

    def text(self, step: int, texts: Mapping[str, str]) -> None:
        """See `Writer.text`. Raises UserError if the disk is full."""
        self._open().write_texts(step, dict(texts))

    def flush(self) -> None:
        """See `Writer.flush`. Raises UserError if the disk is full."""
        if self._clu is not None:
            self._clu.flush()

    def close(self) -> None:
        """See `Writer.close`. Raises UserError if the disk is full."""
        if self._clu is not None:
            clu, self._clu = self._clu, None
            clu.close()

    def _open(self) -> Any:
        if self._clu is None:
            from mmgen.core.clu_shim import metric_writers
            from mmgen.core.clu_writers import ConsoleWriter, JsonLinesWriter
            from mmgen.core.event_files import TensorBoardWriter

            writers = [
                JsonLinesWriter(self._workdir, METRICS),
                TensorBoardWriter(self._workdir, TENSORBOARD),
                *([ConsoleWriter(sys.stderr)] if self._console else []),
            ]
            self._clu = metric_writers().MultiWriter(writers)
        return self._clu


def read_metrics(workdir: Workdir) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, [] if there are none; a last line cut short is left out."""
    path = workdir.file(METRICS)
    if not path.exists():
        return []
    lines = []
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError):
            lines.append(json.loads(line))
    return lines


def _cut_metrics(workdir: Workdir, step: int | None) -> None:
    path = workdir.file(METRICS)
    if not path.exists():
        return
    if step is None:
        path.unlink()
        return
    kept = [json.dumps(line) for line in read_metrics(workdir) if line["step"] <= step]
    workdir.write_lines(METRICS, kept)
