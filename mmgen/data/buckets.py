"""Padded shapes of batches: at most three, chosen once from the length tables.

The bucket of an iteration is a function of its *global* batch, stream and replay rows together, so
that every process and every part of a feed has the same shape.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from mmgen.errors import UserError

MAX_BUCKETS = 3
"""Each bucket is a compiled program."""

CANDIDATES = 24
"""Values of each axis that are considered, quantiles of the batch maximum."""

MIN_SAVING = 0.02
"""Share of the padded positions that one more compiled program must save."""


class Room(NamedTuple):
    """What of a batch there is room for, per example on average; see `mmgen.data.room`.

    Attributes:
      text: text positions.
      objects: objects.
      targets: masked positions.
    """

    text: int
    objects: int
    targets: int


class Bucket(NamedTuple):
    """The padded shape of a batch.

    Attributes:
      text: text positions, special tokens included.
      objects: object slots.
      room: for what exists, where that is packed.
    """

    text: int
    objects: int
    room: Room | None = None

    @property
    def positions(self) -> int:
        """Positions of one example's sequence: text, objects and the end token."""
        return self.text + self.objects + 1


def choose_buckets(
    lengths: Int[np.ndarray, " n"],
    counts: Int[np.ndarray, " n"],
    max_buckets: int = MAX_BUCKETS,
    *,
    batch: int = 64,
) -> tuple[Bucket, ...]:
    """The buckets with the fewest expected padded positions, from smallest to largest.

    Exact for batches of `batch` examples drawn at random, over a grid of `CANDIDATES` quantiles of
    each axis. Every bucket fits into the next one, the last holds every example. Fewer buckets
    than allowed are returned where one more would save less than `MIN_SAVING`.

    Args:
      lengths: text positions of every example, special tokens included.
      counts: objects of every example.
      max_buckets: 1 to 3.
      batch: examples that share a bucket: the global batch with its replay rows.

    Raises:
      UserError: no example, or a number of buckets that is not 1 to 3.
    """
    if not 1 <= max_buckets <= MAX_BUCKETS:
        raise UserError(f"config.buckets.max is {max_buckets}; give 1 to {MAX_BUCKETS}.")
    if len(lengths) == 0:
        raise UserError("Buckets need at least one example; check the train split.")
    # A batch has at least one object slot, empty or not.
    counts = np.maximum(counts, 1)
    text, objects, fits = _grid(np.asarray(lengths), counts, batch)
    positions = np.array([Bucket(t, o).positions for t, o in zip(text, objects, strict=True)])
    last = len(text) - 1
    chosen, cost = [last], float(positions[last])
    for number in range(1, max_buckets):
        smaller, new_cost = _best_smaller(text, objects, fits, positions, number)
        if new_cost > cost * (1 - MIN_SAVING):
            break
        chosen, cost = [*smaller, last], new_cost
    return tuple(Bucket(int(text[i]), int(objects[i])) for i in chosen)


def _grid(
    lengths: np.ndarray, counts: np.ndarray, batch: int
) -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, " g"]]:
    """Candidate (text, objects) pairs and the probability that a random batch fits each."""
    texts = _batch_maximum_quantiles(lengths, batch)
    objects = _batch_maximum_quantiles(counts, batch)
    histogram = np.zeros((len(texts), len(objects)))
    np.add.at(histogram, (np.searchsorted(texts, lengths), np.searchsorted(objects, counts)), 1)
    share = histogram.cumsum(0).cumsum(1) / len(lengths)
    pairs = np.stack(np.meshgrid(texts, objects, indexing="ij"), -1).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], share.ravel() ** batch


def _batch_maximum_quantiles(values: np.ndarray, batch: int) -> np.ndarray:
    """Distinct quantiles of the largest of `batch` random values; the last is the largest."""
    # P(maximum <= v) = F(v)^batch, so quantile q of the maximum is quantile q^(1/batch) of v.
    levels = np.linspace(0, 1, CANDIDATES + 1)[1:] ** (1 / batch)
    return np.unique(np.quantile(values, levels, method="inverted_cdf"))


def _best_smaller(
    text: np.ndarray, objects: np.ndarray, fits: np.ndarray, positions: np.ndarray, number: int
) -> tuple[list[int], float]:
    """The best one or two buckets below the largest, and the expected positions of an example."""
    last = len(text) - 1
    # What a bucket saves against falling through to the largest one.
    alone = fits * (positions - positions[last])
    if number == 1:
        best = int(np.argmin(alone))
        return [best], float(positions[last] + alone[best])
    nested = (text[:, None] <= text) & (objects[:, None] <= objects)
    # Entry [i, j]: bucket i inside bucket j; what fits i is spared the rest of j.
    both = alone + fits[:, None] * (positions[:, None] - positions)
    both = np.where(nested, both, 0.0)
    first, second = np.unravel_index(int(np.argmin(both)), both.shape)
    return [int(first), int(second)], float(positions[last] + both[first, second])


def bucket_of(
    lengths: Int[np.ndarray, " b"], counts: Int[np.ndarray, " b"], buckets: Sequence[Bucket]
) -> Bucket:
    """The smallest bucket that holds every row of a global batch.

    Args:
      lengths: text positions of its rows, stream and replay; padded rows left out.
      counts: objects of its rows.
      buckets: from smallest to largest; the last holds every example.

    Raises:
      ValueError: a row is larger than the largest bucket.
    """
    longest = np.max(lengths, initial=0)
    most = np.max(counts, initial=0)
    return buckets[int(bucket_index(longest, most, buckets))]


def bucket_index(
    longest: Int[np.ndarray, " s"],
    most: Int[np.ndarray, " s"],
    buckets: Sequence[tuple[int, ...] | Bucket],
) -> Int[np.ndarray, " s"]:
    """Index of the smallest bucket that holds each batch, from the batches' largest rows.

    A bucket is any tuple that begins with a pair of sizes.

    Raises:
      ValueError: a batch fits into no bucket.
    """
    table = np.asarray([bucket[:2] for bucket in buckets])
    holds = (np.asarray(longest)[..., None] <= table[:, 0]) & (
        np.asarray(most)[..., None] <= table[:, 1]
    )
    if not holds.any(-1).all():
        raise ValueError("a batch is larger than the largest bucket")
    return np.argmax(holds, axis=-1)
