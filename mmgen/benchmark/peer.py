"""Our iterations against those of a plain PyTorch implementation, taking turns on one machine."""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mmgen.algorithms.base import Feed
from mmgen.benchmark.programs import compile_ahead
from mmgen.benchmark.record import table
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.subjects import Subject
from mmgen.benchmark.suite import Case
from mmgen.benchmark.workload import COCO_MAX_SPAN, host_store
from mmgen.core.cpu import usable_cores
from mmgen.core.mesh import make_mesh, put_feed, put_replicated
from mmgen.data.assemble import assemble
from mmgen.data.buckets import Bucket
from mmgen.data.schema import Batch
from mmgen.errors import UserError

PEER = pathlib.Path(__file__).parents[2] / "tests" / "peers" / "timed_peer.py"
RELEASED = Bucket(text=64, objects=99)
"""The released layout: 64 text positions and 100 slots, the first of them the whole image."""
ROUNDS = 7


def check_peer(python: str) -> None:
    """Raises UserError if the peer cannot run: to be asked before minutes are spent on measuring.

    Args:
      python: interpreter that has torch and numpy.
    """
    if not PEER.exists():
        raise UserError(f"--peer needs {PEER}, which only a checkout of mmgen has.")
    command = [python, "-c", "import numpy, torch"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"--peer_python={python} cannot be run: {error.strerror}.") from None
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or [f"status {tried.returncode}"])[-1]
        raise UserError(
            f"--peer_python={python} must name an interpreter with torch and numpy ({said}); "
            "pip install torch numpy."
        )


class Peer:
    """A PyTorch process that makes iterations when it is asked to."""

    def __init__(self, python: str, arguments: Sequence[str]):
        self._process = subprocess.Popen(
            [python, str(PEER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.facts = self._answer()

    def seconds(self) -> float:
        """Makes one iteration; what it took."""
        assert self._process.stdin is not None
        self._process.stdin.write("1\n")
        self._process.stdin.flush()
        return self._answer()["seconds"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UserError("the PyTorch peer has ended; its message stands above.")
        return json.loads(line)


def compare_with_peer(scale: Scale, case: Case, python: str, variant: str) -> dict[str, Any]:
    """The peer's time over ours, with its batches in the released layout and in our padded shape.

    Both read the same examples, ours always in our padded shape. Turns alternate, so that whatever
    else the machine does hits both.

    Args:
      python: interpreter that has torch.
      variant: "eager" or "compile".

    Returns:
      `case`, `variant`, `dtype`, and for each layout medians `ours_ms` and `peer_ms`, the median
      `ratio` of a turn, and all `turns` in seconds.

    Raises:
      UserError: the peer cannot run.
    """
    workload = scale.clocked()
    subject = scale.subject(
        workload, model=case.model, algorithm=case.algorithm, buckets=(scale.bucket,)
    )
    store = host_store(workload)

    def batches(bucket: Bucket) -> list[Batch]:
        """The stream batch and the replay batch, with features."""
        sizes = (scale.batch_size, *subject.algorithm.draws)
        return [
            assemble(
                workload.split,
                store,
                workload.vocabulary,
                np.arange(size) * 7,
                bucket,
                max_span=COCO_MAX_SPAN,
                feature_dim=workload.feature_dim,
            )
            for size in sizes
        ]

    ours = _our_iteration(subject, batches(scale.bucket))
    result: dict[str, Any] = {"case": case.name, "variant": variant, "dtype": scale.dtype}
    with tempfile.TemporaryDirectory() as folder:
        for layout, bucket in (("released", RELEASED), ("bucketed", scale.bucket)):
            file = pathlib.Path(folder) / f"{layout}.npz"
            _write_examples(file, batches(bucket))
            options = _peer_arguments(scale, case, variant, file)
            peer = Peer(python, [*options, *(["--released"] if bucket is RELEASED else [])])
            try:
                turns = [(ours(), peer.seconds()) for _ in range(ROUNDS + 1)][1:]
            finally:
                peer.close()
            result[layout] = {
                "ours_ms": 1e3 * statistics.median(own for own, _ in turns),
                "peer_ms": 1e3 * statistics.median(theirs for _, theirs in turns),
                "ratio": statistics.median(theirs / own for own, theirs in turns),
                "turns": turns,
            }
    return {**result, **peer.facts}


def _our_iteration(subject: Subject, batches: Sequence[Batch]) -> Callable[[], float]:
    """A function that makes one of our iterations and gives its seconds."""
    mesh = make_mesh()
    seed = put_replicated(np.uint32(0), mesh)
    shaped = subject.feed_at(subject.buckets[0])
    feed = put_feed(Feed(batches[0], tuple(batches[1:]), *shaped[2:]), mesh)
    program = compile_ahead(subject.step(mesh).call, subject.placed_shapes(mesh), feed, seed)
    state = subject.random_state(mesh)

    def iterate() -> float:
        nonlocal state
        began = time.perf_counter()
        state, values = program.call(state, feed, seed)
        values.block_until_ready()
        return time.perf_counter() - began

    return iterate


def _write_examples(file: pathlib.Path, batches: Sequence[Batch]) -> None:
    parts = zip(("stream", "replay"), batches, strict=False)
    np.savez(
        file,
        **{f"{part}/{name}": value for part, batch in parts for name, value in batch.items()},
    )


def _peer_arguments(scale: Scale, case: Case, variant: str, file: pathlib.Path) -> list[str]:
    return [
        f"--examples={file}",
        f"--model={case.model}",
        f"--algorithm={case.algorithm}",
        f"--size={scale.size}",
        f"--rows={scale.word_rows}",
        f"--dtype={scale.dtype}",
        f"--variant={variant}",
        f"--threads={usable_cores()}",
    ]


def peer_table(results: Sequence[dict[str, Any]]) -> str:
    """A line per comparison and layout."""
    rows = [
        [
            result["case"],
            result["variant"],
            layout,
            result[layout]["ours_ms"],
            result[layout]["peer_ms"],
            result[layout]["ratio"],
        ]
        for result in results
        for layout in ("released", "bucketed")
    ]
    return table(["case", "peer", "layout", "ours ms", "peer ms", "peer / ours"], rows)
