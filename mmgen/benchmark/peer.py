"""Our iterations against those of a plain PyTorch implementation, taking turns on one machine.

Every batch has one example that fills our padded shape, so that a sequence as long as its longest
row, which is how the release packs VLBERT's, is as long as that row can make it. What each side's
sequences come to stands beside its time; ours, packed, are as long on average as a run has room.
"""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from mmgen.algorithms.base import Feed
from mmgen.benchmark.programs import compile_ahead
from mmgen.benchmark.record import table
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.subjects import Subject
from mmgen.benchmark.suite import Case
from mmgen.benchmark.workload import COCO_MAX_SPAN, host_store
from mmgen.core.cpu import usable_cores
from mmgen.core.mesh import make_mesh, put_feed, put_replicated
from mmgen.core.rng import numpy_generator
from mmgen.data.assemble import assemble
from mmgen.data.buckets import Bucket, Room
from mmgen.data.schema import Batch
from mmgen.errors import UserError

PEER = pathlib.Path(__file__).parents[2] / "tests" / "peers" / "timed_peer.py"
RELEASED = Bucket(text=64, objects=99)
"""The released layout: 64 text positions and 100 slots, the first of them the whole image."""
LEAST_ROUNDS = 3


class Layout(NamedTuple):
    """How the peer's batches lie.

    Attributes:
      bucket: their padded shape.
      released: the whole image is one object more, and LXMERT attends empty slots.
      packed: VLBERT's text, objects and end follow one another without gaps, row by row, and its
        encoder runs at the length of the longest row; else at all slots, the empty ones masked.
    """

    bucket: Bucket
    released: bool
    packed: bool

    @property
    def slots(self) -> tuple[int, int]:
        """Text positions and object slots, the whole image included."""
        return self.bucket.text, self.bucket.objects + self.released


def layouts(model: str, bucket: Bucket) -> dict[str, Layout]:
    """By name: as released, the released slots all computed (VLBERT alone packs), and as ours."""
    found = {"released": Layout(RELEASED, True, True)}
    if model == "vlbert":
        found["unpacked"] = Layout(RELEASED, True, False)
    return {**found, "bucketed": Layout(bucket, False, False)}


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
        self.lengths: list[list[int]] = []
        """Positions of each pass so far: of one sequence, or of text and of objects."""

    def seconds(self) -> float:
        """Makes one iteration; what it took."""
        assert self._process.stdin is not None
        self._process.stdin.write("1\n")
        self._process.stdin.flush()
        answer = self._answer()
        self.lengths = answer["lengths"]
        return answer["seconds"]

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
    """The peer's time over ours, for each of its `layouts`.

    Both read the same examples, ours always in our own shape. Turns alternate, so that whatever
    else the machine does hits both.

    Args:
      scale: of which `clock_seconds` is the time for each layout, `LEAST_ROUNDS` rounds at least.
      python: interpreter that has torch.
      variant: "eager" or "compile".

    Returns:
      `case`, `variant`, `dtype`; `ours_lengths`, positions of our sequences; and by layout, under
      `layouts`: `slots` (text, objects), `peer_lengths`, medians `ours_ms` and `peer_ms`, quartiles
      `ratio` (.25, .5, .75) of the peer's seconds over ours in a turn, and all `turns` in seconds.

    Raises:
      UserError: the peer cannot run.
    """
    workload = scale.clocked().with_full_row(scale.bucket)
    subject = scale.subject(
        workload,
        model=case.model,
        algorithm=case.algorithm,
        buckets=(scale.bucket,),
        **dict(case.settings),
    )
    store = host_store(workload)
    rows = [
        _typical_rows(len(workload.split), size)
        for size in (scale.batch_size, *subject.algorithm.draws)
    ]

    def batches(bucket: Bucket) -> list[Batch]:
        """The stream batch and the replay batch, with features."""
        return [
            assemble(
                workload.split,
                store,
                workload.vocabulary,
                chosen,
                bucket,
                max_span=COCO_MAX_SPAN,
                feature_dim=workload.feature_dim,
            )
            for chosen in rows
        ]

    bucket = _with_room_for(subject, rows)
    ours = _our_iteration(subject, bucket, batches(bucket))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, layout in layouts(case.model, scale.bucket).items():
            file = pathlib.Path(folder) / f"{name}.npz"
            _write_examples(file, batches(layout.bucket))
            peer = Peer(python, _peer_arguments(scale, case, variant, file, layout))
            try:
                turns = _take_turns(ours, peer.seconds, scale.clock_seconds)
            finally:
                peer.close()
            found[name] = {
                "slots": layout.slots,
                "peer_lengths": peer.lengths,
                "ours_ms": 1e3 * statistics.median(own for own, _ in turns),
                "peer_ms": 1e3 * statistics.median(theirs for _, theirs in turns),
                "ratio": np.quantile([b / a for a, b in turns], [0.25, 0.5, 0.75]).tolist(),
                "turns": turns,
            }
    return {
        "case": case.name,
        "variant": variant,
        "dtype": scale.dtype,
        "ours_lengths": [_our_lengths(case.model, bucket)],
        "layouts": found,
        **peer.facts,
    }


def _typical_rows(instances: int, size: int) -> Int[np.ndarray, " size"]:
    """The full row, and others at random, so that lengths are those of the workload."""
    others = numpy_generator(0, "benchmark/peer").permutation(np.arange(1, instances))
    return np.concatenate([[0], np.resize(others, size - 1)])


def _with_room_for(subject: Subject, rows: Sequence[Int[np.ndarray, " r"]]) -> Bucket:
    """The subject's first bucket, its room raised to what these batches need, if it packs."""
    bucket = subject.buckets[0]
    if bucket.room is None:
        return bucket
    needed = subject.feeds.room_needed(rows)
    return bucket._replace(room=Room(*np.maximum(bucket.room, needed).tolist()))


def _our_lengths(model: str, bucket: Bucket) -> list[int]:
    """Positions of a sequence, or of text and of objects: on average over the batch if packed."""
    text, objects = (bucket.room or bucket)[:2]
    return [text + objects + 1] if model == "vlbert" else [text, objects]


def _take_turns(
    ours: Callable[[], float], theirs: Callable[[], float], seconds: float
) -> list[tuple[float, float]]:
    """Seconds of an iteration of each, round by round, after one of each that does not count."""
    ours(), theirs()
    began = time.perf_counter()
    turns: list[tuple[float, float]] = []
    while len(turns) < LEAST_ROUNDS or time.perf_counter() - began < seconds:
        turns.append((ours(), theirs()))
    return turns


def _our_iteration(
    subject: Subject, bucket: Bucket, batches: Sequence[Batch]
) -> Callable[[], float]:
    """A function that makes one of our iterations and gives its seconds."""
    mesh = make_mesh()
    seed = put_replicated(np.uint32(0), mesh)
    shaped = subject.feed_at(bucket._replace(room=None))
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


def _peer_arguments(
    scale: Scale, case: Case, variant: str, file: pathlib.Path, layout: Layout
) -> list[str]:
    flags = {"--released": layout.released, "--packed": layout.packed}
    return [
        f"--examples={file}",
        f"--model={case.model}",
        f"--algorithm={case.algorithm}",
        f"--size={scale.size}",
        f"--rows={scale.word_rows}",
        f"--dtype={scale.dtype}",
        f"--variant={variant}",
        f"--threads={usable_cores()}",
        *(flag for flag, given in flags.items() if given),
    ]


def peer_table(results: Sequence[dict[str, Any]]) -> str:
    """A line per comparison and layout."""
    rows = [
        [
            result["case"],
            result["variant"],
            name,
            _span([found["slots"]]),
            _span(result["ours_lengths"]),
            _span(found["peer_lengths"]),
            found["ours_ms"],
            found["peer_ms"],
            found["ratio"][1],
            f"{found['ratio'][0]:.2f} to {found['ratio'][2]:.2f}",
            len(found["turns"]),
        ]
        for result in results
        for name, found in result["layouts"].items()
    ]
    header = "case,peer,layout,slots,ours positions,peer positions,ours ms,peer ms,peer / ours"
    return table([*header.split(","), "quartiles", "rounds"], rows)


def _span(lengths: Sequence[Sequence[int]]) -> str:
    """Shortest to longest, each the positions of one sequence, or of text and of objects."""
    ordered = sorted(tuple(length) for length in lengths)
    ends = [" + ".join(map(str, length)) for length in (ordered[0], ordered[-1])]
    return " to ".join(dict.fromkeys(ends))
