"""How large everything in the accelerator check is: on the accelerator, and to try it on a CPU."""

import dataclasses
from typing import Any

from mmgen.benchmark.subjects import Subject, make_subject
from mmgen.benchmark.workload import (
    COCO_IMAGES,
    COCO_INSTANCES,
    COCO_PIECES,
    FEATURE_DIM,
    LONGEST_CAPTION,
    MOST_OBJECTS,
    WORD_ROWS,
    Workload,
    make_workload,
)
from mmgen.data.buckets import Bucket

TYPICAL = Bucket(text=27, objects=40)
"""About the most frequent padded shape of 64 random examples; see `data.buckets`."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """Sizes and limits of the check.

    Attributes:
      images, instances, feature_dim, pieces, word_rows: of the stream of the full pass.
      clock_instances: of the streams on which single iterations are timed.
      size, dtype, dropout: of the models.
      batch_size, capacity: of the stream batch and of the memory.
      large_batch: of the batch that is to fill the device.
      bucket: padded shape of the iterations that are timed alone.
      packing: as `config.packing`.
      chunk: iterations per dispatch at most.
      matmul_size: of the products that give the peak.
      pass_seconds: a full pass that would take longer is broken off and extrapolated.
      compile_seconds, threads: for the programs of a stage, which are compiled side by side.
      patience: factor on the time that a stage may take.
      clock_seconds, group: for each measurement; dispatches between two readings of the clock.
    """

    images: int = COCO_IMAGES
    instances: int = COCO_INSTANCES
    clock_instances: int = 64_000
    feature_dim: int = FEATURE_DIM
    pieces: int = COCO_PIECES
    word_rows: int = WORD_ROWS
    size: str = "paper"
    dtype: str = "bfloat16"
    dropout: float = 0.1
    batch_size: int = 32
    large_batch: int = 1024
    capacity: int = 10_000
    bucket: Bucket = TYPICAL
    packing: str = "auto"
    chunk: int = 150
    matmul_size: int = 8192
    pass_seconds: float = 130.0
    compile_seconds: float = 130.0
    threads: int = 8
    patience: float = 1.0
    clock_seconds: float = 2.0
    group: int = 25

    def stream(self) -> Workload:
        """The data of the full pass."""
        return self._workload(self.images, self.instances, LONGEST_CAPTION, MOST_OBJECTS)

    def clocked(self) -> Workload:
        """Data whose every batch fits `bucket`, the images in proportion to the instances."""
        images = max(1, self.images * self.clock_instances // self.instances)
        longest, most_objects = self.bucket.text - 3, self.bucket.objects
        return self._workload(images, self.clock_instances, longest, most_objects)

    def _workload(self, images: int, instances: int, longest: int, most_objects: int) -> Workload:
        return make_workload(
            images,
            instances,
            feature_dim=self.feature_dim,
            pieces=self.pieces,
            word_rows=self.word_rows,
            longest=longest,
            most_objects=most_objects,
        )

    def subject(self, workload: Workload, **settings: Any) -> Subject:
        """A run on such data, `settings` as of `make_subject`."""
        common = {
            "size": self.size,
            "dtype": self.dtype,
            "dropout": self.dropout,
            "batch_size": self.batch_size,
            "capacity": self.capacity,
            "packing": self.packing,
        }
        return make_subject(workload, **{**common, **settings})


TINY = Scale(
    images=60,
    instances=400,
    clock_instances=120,
    feature_dim=16,
    pieces=40,
    word_rows=60,
    size="smoke",
    dtype="float32",
    dropout=0.0,
    batch_size=4,
    large_batch=16,
    capacity=32,
    bucket=Bucket(text=20, objects=8),
    chunk=10,
    matmul_size=128,
    pass_seconds=60.0,
    compile_seconds=900.0,
    threads=2,
    patience=20.0,
    clock_seconds=0.2,
    group=1,
)

SCALES = {"full": Scale(), "tiny": TINY}
