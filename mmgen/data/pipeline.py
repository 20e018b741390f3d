"""`feeds[step]`: what an iteration reads, a pure function of the step, and reading ahead of it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Int

from mmgen.algorithms.base import Feed
from mmgen.data.assemble import assemble, check_inputs, object_counts, text_lengths
from mmgen.data.buckets import Bucket, bucket_index
from mmgen.data.columns import Split
from mmgen.data.features import FeatureStore
from mmgen.data.room import room_needed, with_room
from mmgen.data.schema import IGNORE_ID, Batch
from mmgen.data.tokenizer import Vocabulary
from mmgen.memory.live import Drawn
from mmgen.memory.plan import Plan

__all__ = ["FeedSource", "StepSource", "assemble", "read_ahead"]

NO_SLOT = np.iinfo(np.int32).max
"""Beyond the capacity of any memory."""


class StepSource(Protocol):
    """Feeds by number of the iteration."""

    def __len__(self) -> int:
        """Number of iterations."""

    def __getitem__(self, step: int) -> Feed:
        """What iteration `step` reads; numpy arrays, the same at every call."""


class FeedSource:
    """The feeds of a run, truly random access: no iterator, no state but the tables made here.

    Stream rows and replay rows of an iteration share one bucket, chosen from the *global* batch:
    the smallest that holds them all, which is the largest of the rows' own, as buckets are nested.
    With several processes each assembles those rows of the stream batch and of every replay batch
    that its devices hold. Slots are not split; every process applies all of them.

    Attributes:
      stream_rows: int32[steps, b], global.
      buckets: shapes of batches: those given or, packed, what `room.with_room` makes of them.
      row_bucket: int8[n], the smallest of the buckets given that holds each row of the split.
      bucket_index: int8[steps], which of `buckets` each iteration has; without a plan that of its
        stream rows, which the rows drawn may change.
    """

    def __init__(
        self,
        *,
        split: Split,
        store: FeatureStore | None,
        vocabulary: Vocabulary,
        stream_rows: Int[np.ndarray, " n"],
        batch_size: int,
        buckets: Sequence[Bucket],
        max_span: int,
        feature_dim: int,
        text_only: str = "",
        plan: Plan | None = None,
        draws: tuple[int, ...] = (),
        picks: tuple[int, ...] = (),
        least_saved: float | None = None,
        side_of_rows: Any = (),
        local_rows: Callable[[int], Int[np.ndarray, " rows"]] = np.arange,
    ):
        """Check the inputs and make the tables.

        Args:
          split, store, vocabulary, max_span, feature_dim, text_only: see `assemble.assemble`.
          stream_rows: rows in the order of reading, one after another; several epochs are a longer
            stream. `IGNORE_ID` pads, and is added to fill the last batch.
          batch_size: of the global stream batch.
          buckets: padded shapes, from smallest to largest; the text of the largest is the window
            that captions are cut to.
          plan: the replay plan; without one, rows to replay come by `with_replay`.
          draws: `Algorithm.draws`, sizes of the global replay batches.
          picks: `Algorithm.picks`.
          least_saved: pack batches if that saves such a share of their positions, see
            `room.with_room`; for models that can, and one process. None never does.
          side_of_rows: what the memory policy must know of each row, as in `make_plan`.
          local_rows: size of a global batch -> which of its rows are assembled here, ascending, as
            `mmgen.core.mesh.local_rows`; all of them by default.

        Raises:
          UserError: what `assemble.check_inputs` finds.
          ValueError: stream and plan do not fit together, or the buckets are not nested.
        """
        self._split, self._store, self._vocabulary = split, store, vocabulary
        self._settings: dict[str, Any] = {
            "max_span": max_span,
            "feature_dim": feature_dim,
            "text_only": text_only,
        }
        check_inputs(split, store, window=buckets[-1].text, **self._settings)
        self._padded = self.buckets = tuple(buckets)
        self.stream_rows = _in_batches(stream_rows, batch_size, len(split))
        self._plan, self._draws, self._side = plan, draws, side_of_rows
        if plan is not None:
            _check_plan(plan, self.stream_rows.shape, sum(draws))
        self._columns, self._parts = _local_columns((batch_size, *draws), local_rows)
        self._picks = (batch_size, *(picks or draws))
        self._sizes = self._row_sizes()
        lengths, counts, _ = self._sizes.T
        self.row_bucket = bucket_index(lengths, counts, self.buckets).astype(np.int8)
        batches = [self.stream_rows]
        if plan is not None and draws:
            batches += np.split(plan.replay_ids, np.cumsum(draws)[:-1], axis=-1)
        if least_saved is not None:
            self.buckets = with_room(
                self._padded,
                self._padded_index(batches),
                self.room_needed(batches),
                max_span,
                least_saved=least_saved,
                complete=plan is not None or not draws,
            )
        self.bucket_index = self._index(batches)

    def _row_sizes(self) -> Int[np.ndarray, "n 3"]:
        """Text positions, objects and targets of every row."""
        if (np.diff([bucket[:2] for bucket in self._padded], axis=0) < 0).any():
            raise ValueError(f"every bucket must fit into the next one, unlike {self._padded}")
        largest = self._padded[-1]
        # What is beyond the largest bucket is cut, see `assemble`.
        lengths = np.minimum(text_lengths(self._split), largest.text)
        counts = object_counts(self._split, self._store, self._settings["text_only"])
        targets = np.diff(self._split.columns["span"], axis=1)[:, 0]
        return np.stack([lengths, np.minimum(counts, largest.objects), targets], axis=1)

    def room_needed(self, batches: Sequence[Int[np.ndarray, "*n b"]]) -> Int[np.ndarray, "*n 3"]:
        """What each iteration needs that reads `batches`, its stream rows and its replay rows."""
        return room_needed(self._sizes, batches, self._picks[: len(batches)])

    def _padded_index(self, batches: Sequence[Int[np.ndarray, "*n b"]]) -> Int[np.ndarray, "*n"]:
        """The smallest of the buckets given that holds the batches of each iteration."""
        rows = np.concatenate(batches, axis=-1)
        return np.where(rows == IGNORE_ID, 0, self.row_bucket[rows]).max(axis=-1, initial=0)

    def _index(self, batches: Sequence[Int[np.ndarray, "*n b"]]) -> Int[np.ndarray, "*n"]:
        """Which of `buckets` the batches of each iteration have."""
        padded = self._padded_index(batches)
        if not self.packs:
            return padded
        needed = self.room_needed(batches)
        packed = sum(bucket.room is not None for bucket in self.buckets)
        index = np.maximum(padded + packed - len(self._padded), 0)
        fits = (needed <= self.buckets[0].room).all(axis=-1)
        return np.where(fits, index, len(self.buckets) - 1)

    @property
    def packs(self) -> bool:
        """Have some batches room to be packed?"""
        return self.buckets[0].room is not None

    def __len__(self) -> int:
        """Number of iterations."""
        return len(self.stream_rows)

    def __getitem__(self, step: int) -> Feed:
        """What iteration `step` reads on this process, as numpy arrays.

        Draws that no plan tells are left out: their rows are padding.

        Raises:
          IndexError: `step` is not in [0, len(self)).
        """
        if not 0 <= step < len(self):
            raise IndexError(f"there is no iteration {step}, only {len(self)}")
        return self._feed(step, self._planned(step), int(self.bucket_index[step]))

    def with_replay(self, step: int, drawn: Drawn) -> Feed:
        """The same with the global rows `drawn` to replay, numpy arrays, instead of the plan's."""
        index = int(self._index([self.stream_rows[step], *drawn.ids]))
        return self._feed(step, drawn, index)

    def _feed(self, step: int, drawn: Drawn, index: int) -> Feed:
        """Iteration `step` in the bucket of that index."""
        rows = np.concatenate([self.stream_rows[step], *drawn.ids])
        batch = assemble(
            self._split,
            self._store,
            self._vocabulary,
            rows[self._columns],
            self.buckets[index],
            **self._settings,
        )
        stream, *replay = (_part(batch, part) for part in self._parts)
        insert_slot = () if self._plan is None else self._plan.insert_slot[step]
        known = np.maximum(self.stream_rows[step], 0)
        side = jax.tree.map(lambda column: column[known], self._side)
        return Feed(stream, tuple(replay), insert_slot, drawn.slots, side)

    def _planned(self, step: int) -> Drawn:
        if self._plan is None:
            return Drawn(
                tuple(np.full(k, IGNORE_ID, np.int32) for k in self._draws),
                tuple(np.full(k, NO_SLOT, np.int32) for k in self._draws),
            )
        ids, slots = (
            np.split(rows[step], np.cumsum(self._draws[:-1])) if self._draws else ()
            for rows in (self._plan.replay_ids, self._plan.replay_slot)
        )
        return Drawn(tuple(ids), tuple(slots))

    def read_ahead(self, start: int = 0) -> Iterator[Feed]:
        """Feeds from `start` to the last, see the function of this name."""
        return read_ahead(self, start)


def _in_batches(rows: np.ndarray, batch_size: int, count: int) -> Int[np.ndarray, "steps b"]:
    rows = np.asarray(rows)
    if rows.ndim != 1 or len(rows) == 0:
        raise ValueError(f"stream_rows must be a non-empty vector, not of shape {rows.shape}")
    if rows.min() < IGNORE_ID or rows.max() >= count:
        raise ValueError(f"stream_rows must be rows of the split, which has {count}")
    steps = -(-len(rows) // batch_size)
    padded = np.full(steps * batch_size, IGNORE_ID, np.int32)
    padded[: len(rows)] = rows
    return padded.reshape(steps, batch_size)


def _check_plan(plan: Plan, stream_shape: tuple[int, ...], drawn: int) -> None:
    steps, batch_size = stream_shape
    for name, array, (first, last) in (
        # Of several seeds, see `core.seeds`, it has their axis in the middle.
        ("insert_slot", plan.insert_slot, (steps, batch_size)),
        ("replay_ids", plan.replay_ids, (steps, drawn)),
        ("replay_slot", plan.replay_slot, (steps, drawn)),
    ):
        if (len(array), array.shape[-1]) != (first, last):
            raise ValueError(f"the plan's {name} has shape {array.shape}, expected {(first, last)}")


def _local_columns(
    sizes: tuple[int, ...], local_rows: Callable[[int], np.ndarray]
) -> tuple[Int[np.ndarray, " local"], list[slice]]:
    """Columns of the global row table that this process reads, and each batch's part of them."""
    columns, parts, begin, filled = [], [], 0, 0
    for size in sizes:
        rows = local_rows(size)
        columns.append(begin + rows)
        parts.append(slice(filled, filled + len(rows)))
        begin, filled = begin + size, filled + len(rows)
    return np.concatenate(columns), parts


def _part(batch: Batch, rows: slice) -> Batch:
    return {name: values[rows] for name, values in batch.items()}


def read_ahead(source: StepSource, start: int = 0) -> Iterator[Feed]:
    """Feeds from `start` to the last, assembled by one thread up to two ahead.

    Grain's `mp_prefetch` workers are slower for features in memory, and its default would hold 500
    batches. There is no iterator state: to resume, start at another step.
    """
    import grain

    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    steps = grain.MapDataset.range(start, len(source))
    iterator = iter(steps.map(source.__getitem__).to_iter_dataset(options))
    try:
        yield from iterator
    finally:
        iterator.close()
