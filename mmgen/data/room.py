"""Room for what exists of a batch, where the model packs it (`mmgen.models.packing`).

A batch's text, objects and targets are given room for so many per example, on average over the
batch. An iteration whose batches do not fit is padded instead: which it is depends on the rows it
reads and on nothing else.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from mmgen.data.buckets import MAX_BUCKETS, Bucket, Room
from mmgen.data.schema import IGNORE_ID

OVERFLOW_COST = 10
"""Padded iterations that take about as long as compiling their program."""


def room_needed(
    sizes: Int[np.ndarray, "n 3"],
    batches: Sequence[Int[np.ndarray, "*steps r"]],
    picks: Sequence[int],
) -> Int[np.ndarray, "*steps 3"]:
    """The least room that all batches of an iteration fit into, 1 at least, in the order of `Room`.

    Args:
      sizes: text positions, objects and targets of every row of a split.
      batches: rows of the split, `IGNORE_ID` as padding, of one iteration or of many.
      picks: of each batch the rows that a pass may read without the others; it is then the largest
        that must fit.
    """
    needed = [
        _needed_by(np.where(rows == IGNORE_ID, 0, column[rows]), pick)
        for column in sizes.T
        for rows, pick in zip(batches, picks, strict=True)
    ]
    by_batch = np.stack(needed, axis=-1)
    by_batch = by_batch.reshape(*by_batch.shape[:-1], sizes.shape[1], len(batches))
    return np.maximum(by_batch.max(axis=-1), 1)


def _needed_by(own: Int[np.ndarray, "*steps r"], pick: int) -> Int[np.ndarray, "*steps"]:
    if pick < own.shape[-1]:
        own = np.sort(own, axis=-1)[..., -pick:]
    return -(-own.sum(axis=-1) // pick)


def with_room(
    buckets: Sequence[Bucket],
    padded: Int[np.ndarray, " steps"],
    needed: Int[np.ndarray, "steps 3"],
    most_targets: int,
    *,
    least_saved: float = 0.0,
    complete: bool = True,
) -> tuple[Bucket, ...]:
    """The buckets with room to pack, and behind them the last one as it is for what does not fit.

    The same room in each, that which costs least over all iterations, a target counted like a
    position. The smallest of three buckets is left out, as padding costs little now. `buckets`
    themselves come back where packing would save nothing, or too little.

    Args:
      padded: index of the bucket that each iteration fits.
      needed: room of each iteration, see `room_needed`.
      most_targets: target positions of a padded example.
      least_saved: share of all positions that packing must save.
      complete: is that all they read? If not, anything may turn up that does not fit.
    """
    positions = np.array([bucket.positions for bucket in buckets]) + most_targets
    axes, index = zip(*(np.unique(column, return_inverse=True) for column in needed.T), strict=True)
    fitting = np.zeros([len(axis) for axis in axes])
    np.add.at(fitting, index, 1)
    for axis in range(fitting.ndim):
        fitting = fitting.cumsum(axis)
    others = len(needed) - fitting
    # The end token has its own position.
    own = 1 + np.add.outer(np.add.outer(axes[0], axes[1]), axes[2])
    cost = fitting * own + (others + OVERFLOW_COST * (others > 0)) * positions[-1]
    if cost.min() >= (1 - least_saved) * positions[padded].sum():
        return tuple(buckets)
    best = np.unravel_index(int(np.argmin(cost)), cost.shape)
    room = Room(*(int(axis[at]) for axis, at in zip(axes, best, strict=True)))
    packed = [bucket._replace(room=room) for bucket in buckets[-(MAX_BUCKETS - 1) :]]
    return tuple(packed) if complete and not others[best] else (*packed, buckets[-1])
