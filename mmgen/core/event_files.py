"""TensorBoard event files without TensorFlow, and cutting them back to an earlier step."""

import io
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from etils import epath
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.histogram import summary_v2 as histogram
from tensorboard.plugins.hparams import summary_v2 as hparams_plugin
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar import summary_v2 as scalar
from tensorboard.plugins.text import summary_v2 as text
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

from mmgen.core.clu_shim import metric_writers
from mmgen.core.growing import GrowingFile
from mmgen.core.workdir import Workdir

Array = Any
MetricWriter: Any = metric_writers().MetricWriter
EVENT_FILES = "events.out.tfevents.*"


class TensorBoardWriter(MetricWriter):
    """CLU's writer interface over event files.

    Writes records itself: TensorBoard's `EventFileWriter` does it in a thread, where a full disk
    prints a traceback and is noticed late.
    """

    def __init__(self, workdir: Workdir, folder: str):
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.0"
        self._file = GrowingFile(workdir, f"{folder}/{name}")
        self._write(event_pb2.Event(wall_time=now, file_version="brain.Event:2"))

    def _add(self, step: int, summary: summary_pb2.Summary) -> None:
        self._write(event_pb2.Event(step=step, wall_time=time.time(), summary=summary))

    def _write(self, event: event_pb2.Event) -> None:
        self._file.append(_framed([event.SerializeToString()]))

    def write_summaries(self, step: int, values: Mapping[str, Array], metadata: Any = None):
        """Arrays as they are, with the metadata of some plugin."""
        for tag, value in values.items():
            self._add_tensor(step, tag, np.asarray(value), metadata)

    def write_scalars(self, step: int, scalars: Mapping[str, Any]):
        """One curve per key."""
        for tag, value in scalars.items():
            self._add(step, scalar.scalar_pb(tag, float(value)))

    def write_texts(self, step: int, texts: Mapping[str, str]):
        """Markdown texts."""
        for tag, value in texts.items():
            self._add(step, text.text_pb(tag, value))

    def write_histograms(
        self, step: int, arrays: Mapping[str, Array], num_buckets: Mapping[str, int] | None = None
    ):
        """Histograms of flattened arrays."""
        for tag, array in arrays.items():
            buckets = (num_buckets or {}).get(tag)
            self._add(step, histogram.histogram_pb(tag, np.ravel(array), buckets=buckets))

    def write_images(self, step: int, images: Mapping[str, Array]):
        """Images [h, w, c] or [n, h, w, c]: uint8, or floats in [0, 1]."""
        for tag, value in images.items():
            batch = np.asarray(value)[None] if np.ndim(value) == 3 else np.asarray(value)
            size = [str(batch.shape[2]).encode(), str(batch.shape[1]).encode()]
            encoded = np.array([*size, *(_png(image) for image in batch)], dtype=np.object_)
            metadata = image_metadata.create_summary_metadata(
                display_name=None, description=None, converted_to_tensor=None
            )
            self._add_tensor(step, tag, encoded, metadata)

    def write_hparams(self, hparams: Mapping[str, Any]):
        """Settings of the run, at step 0."""
        plain = {
            key: value if isinstance(value, bool | int | float | str) else repr(value)
            for key, value in hparams.items()
        }
        self._add(0, hparams_plugin.hparams_pb(plain))

    def write_videos(self, step: int, videos: Mapping[str, Array]):
        """Not supported."""
        raise NotImplementedError("videos cannot be written to TensorBoard without TensorFlow")

    def write_audios(self, step: int, audios: Mapping[str, Array], *, sample_rate: int):
        """Not supported."""
        raise NotImplementedError("audio cannot be written to TensorBoard without TensorFlow")

    def flush(self):
        """Everything added so far is in the file."""
        self._file.flush()

    def close(self):
        """Flush and close the file."""
        self._file.close()

    def _add_tensor(self, step: int, tag: str, value: np.ndarray, metadata: Any) -> None:
        summary = summary_pb2.Summary()
        summary.value.add(tag=tag, metadata=metadata, tensor=tensor_util.make_tensor_proto(value))
        self._add(step, summary)


def cut_event_files(workdir: Workdir, folder: str, step: int | None) -> None:
    """Drop every event beyond `step` (all, if None) from the event files of `folder`.

    What stays goes into one file that takes the name of the oldest one and is written whole, before
    the others go. A kill in between leaves events twice; the next cut drops the second copies.
    """
    paths = sorted(workdir.file(folder).glob(EVENT_FILES))
    if not paths:
        return
    if step is not None:
        workdir.write_bytes(f"{folder}/{paths[0].name}", _framed(_kept(paths, step)))
        paths = paths[1:]
    for path in paths:
        path.unlink()


def _framed(records: Iterable[bytes]) -> bytes:
    """Serialised events as the bytes of an event file: length, checksums, data."""
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    for record in records:
        writer.write(record)
    return buffer.getvalue()


def _kept(paths: list[epath.Path], step: int) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for path in paths:
        # The loader stops quietly at a record that a kill has cut short.
        for record in RawEventFileLoader(str(path)).Load():
            event = event_pb2.Event.FromString(record)
            is_header = event.HasField("file_version")
            if record in seen or event.step > step or (is_header and seen):
                continue
            seen.add(record)
            yield record


def _png(image: np.ndarray) -> bytes:
    from PIL import Image

    if image.dtype != np.uint8:
        image = np.clip(np.asarray(image, np.float32) * 255 + 0.5, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, "PNG")
    return buffer.getvalue()
