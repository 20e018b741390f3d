"""CLU writers of ours: metrics.jsonl and the console."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from mmgen.core.announce import say
from mmgen.core.clu_shim import metric_writers
from mmgen.core.growing import GrowingFile
from mmgen.core.workdir import Workdir

Array = Any
MetricWriter: Any = metric_writers().MetricWriter

CONSOLE_LIMIT = 8
"""Metrics that one console line shows; all of them are in metrics.jsonl."""


class ScalarsOnly(MetricWriter):
    """A writer that leaves everything but scalars and texts to others."""

    def write_summaries(self, step: int, values: Mapping[str, Array], metadata: Any = None):
        """Left out."""

    def write_images(self, step: int, images: Mapping[str, Array]):
        """Left out."""

    def write_videos(self, step: int, videos: Mapping[str, Array]):
        """Left out."""

    def write_audios(self, step: int, audios: Mapping[str, Array], *, sample_rate: int):
        """Left out."""

    def write_texts(self, step: int, texts: Mapping[str, str]):
        """Left out."""

    def write_histograms(
        self, step: int, arrays: Mapping[str, Array], num_buckets: Mapping[str, int] | None = None
    ):
        """Left out."""

    def write_hparams(self, hparams: Mapping[str, Any]):
        """Left out: config.json has them."""

    def flush(self):
        """Nothing is held back."""

    def close(self):
        """Nothing to let go of."""


class JsonLinesWriter(ScalarsOnly):
    """One JSON object per call, appended to a file."""

    def __init__(self, workdir: Workdir, name: str):
        self._file = GrowingFile(workdir, name)

    def write_scalars(self, step: int, scalars: Mapping[str, Any]):
        """A line: step first, keys in their order."""
        self._file.append(json_line(step, scalars).encode() + b"\n")

    def flush(self):
        """Everything written so far is in the file."""
        self._file.flush()

    def close(self):
        """Flush and close the file."""
        self._file.close()


class ConsoleWriter(ScalarsOnly):
    """A line for each evaluation; the training loss is the progress bar's to show."""

    def __init__(self, stream: IO[str]):
        self._stream = stream

    def write_scalars(self, step: int, scalars: Mapping[str, Any]):
        """A line of the first few metrics that are not of training."""
        shown = {k: v for k, v in scalars.items() if not k.startswith(("train/", "time/"))}
        if not shown:
            return
        parts = [f"{key} {float(value):.4g}" for key, value in list(shown.items())[:CONSOLE_LIMIT]]
        if len(shown) > CONSOLE_LIMIT:
            parts.append(f"and {len(shown) - CONSOLE_LIMIT} more in metrics.jsonl")
        self._print(f"step {step}: {', '.join(parts)}")

    def write_texts(self, step: int, texts: Mapping[str, str]):
        """Each text under its name."""
        for name, text in texts.items():
            self._print(f"step {step}: {name}: {text}")

    def _print(self, line: str) -> None:
        say(self._stream, f"{line}\n", clear=True)


def json_line(step: int, values: Mapping[str, Any]) -> str:
    """A line of metrics.jsonl; null for what is not finite, which JSON does not know."""
    plain = {key: float(value) for key, value in values.items()}
    finite = {key: value if math.isfinite(value) else None for key, value in plain.items()}
    return json.dumps({"step": int(step), **finite})
