"""Orders of the training stream: task after task with blurred borders, or shuffled.

`shift_stream` is the released VisCOLL stream builder (viscoll.md section 2; INK-USC/VisCOLL
data/coco.py:387-426): every task is a normal bump over time, the stream is filled bin by bin.
"""

import math
import random

import numpy as np
from jaxtyping import Int

from mmgen.core.rng import numpy_generator
from mmgen.errors import UserError

ORDERS = ("random", "ascending", "descending")

FLICKR_SIZE = 456_299
"""Published training stream of Flickr-shift, by which its runs are known."""

TIME_BINS = 50
"""Time bins of `task_time_information`.

With 50, the COCO-shift dev split has .70-.71 under scaled constants and .28 under a floor of 3,000;
its proportions at the published size have .71 (.74 with 100 bins).
"""


def shift_stream(
    task: Int[np.ndarray, " n"],
    *,
    seed: int,
    bin_width: int,
    spread_floor: float,
    order: str = "random",
) -> Int[np.ndarray, " n"]:
    """Row numbers in the order of a non-stationary stream: a permutation, int64.

    Task k with n_k of the N instances, in the order of the tasks, is centred at the middle of its
    block and has spread max(spread_floor, n_k / 2). Bin b takes the instances whose cumulative
    normal mass lies left of bin_width * b, so bin 0 holds all mass left of zero. Each bin is
    shuffled by a fresh Random(seed). There are 2 * ceil(N / bin_width) bins; what none of them
    took follows as one more bin, so that no instance is lost (the release would drop it; on its
    own data nothing is left).

    Args:
      task: task of every row, in source order; any integers.
      seed: of the order of the tasks and of the shuffle within bins.
      bin_width: instances; 1,000 in the release.
      spread_floor: instances; 3,000 in the release, 0 (none) in the paper.
      order: of the task centres: "random" shuffles the tasks, starting from their first
        appearance; "ascending" and "descending" sort them by size, ties by first appearance
        (paper, Appendix C).

    Raises:
      UserError: an unknown order, an empty stream, a width below 1 or a negative floor.
    """
    task = np.asarray(task)
    _check_settings(len(task), bin_width, spread_floor, order)
    blocks = _task_blocks(task, order, seed)
    edges = bin_width * np.arange(2 * math.ceil(len(task) / bin_width), dtype=np.float64)
    rows, bins, before = [], [], 0
    for block in blocks:
        rows.append(block)
        bins.append(_bin_of_instances(len(block), before, spread_floor, edges))
        before += len(block)
    return _shuffle_bins(np.concatenate(rows), np.concatenate(bins), len(edges) + 1, seed)


def _check_settings(count: int, bin_width: int, spread_floor: float, order: str) -> None:
    if count == 0:
        raise UserError("The stream has no instances; check the train split.")
    if bin_width < 1:
        raise UserError(f"config.stream.bin_width is {bin_width}; give at least 1 instance.")
    if spread_floor < 0:
        raise UserError(f"config.stream.spread_floor is {spread_floor}; give 0 for none.")
    if order not in ORDERS:
        raise UserError(f"config.stream.order is {order!r}; choose one of {', '.join(ORDERS)}.")


def _task_blocks(task: np.ndarray, order: str, seed: int) -> list[np.ndarray]:
    """Rows of each task in source order, tasks in the order of their centres."""
    _, first, index, sizes = np.unique(
        task, return_index=True, return_inverse=True, return_counts=True
    )
    grouped = np.split(np.argsort(index, kind="stable"), np.cumsum(sizes)[:-1])
    keys = np.argsort(first, kind="stable").tolist()
    if order == "random":
        random.Random(seed).shuffle(keys)
    else:
        sign = 1 if order == "ascending" else -1
        keys.sort(key=lambda key: sign * sizes[key])
    return [grouped[key] for key in keys]


def _bin_of_instances(size: int, before: int, spread_floor: float, edges: np.ndarray) -> np.ndarray:
    """Bin of a task's 1st, 2nd, ... instance; len(edges) for those that no bin took."""
    # A dependency of JAX, and the same function as scipy.stats.norm.cdf, which the release calls.
    from scipy.special import ndtr

    centre = before + size * 0.5
    spread = max(spread_floor, size * 0.5)
    # int(mass - taken) with an integer `taken` is floor(mass) - taken, exactly: no loop is needed.
    # Rounding could make the mass dip by an ulp, where int() takes nothing; so does the maximum.
    taken = np.maximum.accumulate(np.floor(ndtr((edges - centre) / spread) * size))
    return np.searchsorted(taken, np.arange(size), side="right")


def _shuffle_bins(rows: np.ndarray, bins: np.ndarray, num_bins: int, seed: int) -> np.ndarray:
    # Stable: within a bin, instances keep the order of the tasks and of their source.
    stream = rows[np.argsort(bins, kind="stable")].tolist()
    ends = np.cumsum(np.bincount(bins, minlength=num_bins)).tolist()
    shuffled: list[int] = []
    for start, end in zip([0, *ends], ends, strict=False):
        part = stream[start:end]
        random.Random(seed).shuffle(part)
        shuffled.extend(part)
    return np.array(shuffled, np.int64)


def iid_stream(n: int, seed: int, epoch: int = 0) -> Int[np.ndarray, " n"]:
    """A shuffle of `n` rows, another one for each epoch, int64.

    The released code reads the same order in every epoch (data/coco.py:180): keep `epoch` at 0.
    """
    return numpy_generator(seed, "stream/iid", epoch).permutation(n)


def task_time_information(task_in_stream_order: Int[np.ndarray, " n"], bins: int) -> float:
    """I(task; time) / H(task): 0 for a stationary stream, near 1 for task strictly after task.

    Time is cut into `bins` bins of equal counts (to within one instance); plain counts, no bias
    correction. 0 where there is one task.
    """
    task = np.asarray(task_in_stream_order)
    count = len(task)
    _, index = np.unique(task, return_inverse=True)
    time = np.arange(count) * bins // count
    joint = np.bincount(index * bins + time, minlength=(index.max() + 1) * bins) / count
    joint = joint.reshape(-1, bins)
    entropy = _entropy(joint.sum(1))
    if entropy == 0.0:
        return 0.0
    return (entropy + _entropy(joint.sum(0)) - _entropy(joint.ravel())) / entropy


def _entropy(share: np.ndarray) -> float:
    share = share[share > 0]
    return float(-np.sum(share * np.log(share)))
