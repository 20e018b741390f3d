"""Which iterations are evaluated, and on which items."""

import numpy as np
from jaxtyping import Int

from mmgen.core.rng import numpy_generator
from mmgen.errors import UserError

PAPER_STEPS = {639_592: 19_966, 456_299: 14_260}
"""Iterations of one published pass by size of the training stream (COCO-shift, Flickr-shift)."""

_FIRST = 1000
_EVERY = 2000


def evaluation_steps(
    num_steps: int, schedule: str = "even", count: int = 5, paper_size: int = 639_592
) -> tuple[int, ...]:
    """Iterations after which the model is evaluated, ascending; the last is always `num_steps`.

    Args:
      schedule: "even", `count` evaluations at equal distances before the final one; or "paper",
        iterations 1000, 2000, 4000, 6000, ... of the published pass, scaled to this run
        (`INK-USC/VisCOLL trainer_captioning.py:80`).
      paper_size: examples of the published stream that "paper" scales from, a key of PAPER_STEPS.

    Raises:
      UserError: unknown schedule or published size.
    """
    if schedule == "even":
        steps = [round(num_steps * i / (count + 1)) for i in range(1, count + 1)]
    elif schedule == "paper":
        if paper_size not in PAPER_STEPS:
            raise UserError(
                f"no published pass over {paper_size} examples is known: "
                f"paper_size must be one of {sorted(PAPER_STEPS)}"
            )
        total = PAPER_STEPS[paper_size]
        published = [_FIRST, *range(_EVERY, total, _EVERY)]
        steps = [round(num_steps * s / total) for s in published]
    else:
        raise UserError(
            f"evaluation.schedule = {schedule!r} is unknown: it must be 'even' or 'paper'"
        )
    return (*sorted({s for s in steps if 0 < s < num_steps}), num_steps)


def stratified_subset(
    task: Int[np.ndarray, " n"], size: int, seed: int, least: int = 0
) -> Int[np.ndarray, " s"]:
    """Rows of a fixed subset in which every task has its share, ascending.

    Shares are rounded by largest remainder; a task with any item keeps at least one as long as
    `size` allows. All rows if `size` is 0 or not below their number.

    Args:
      least: a task of at least so many items has at least so many in the subset, which then may
        have more than `size`: those are the tasks whose forgetting is measured.
    """
    if size <= 0 or size >= len(task):
        return np.arange(len(task))
    labels, index, count = np.unique(task, return_inverse=True, return_counts=True)
    quota = np.maximum(_quotas(count, size), np.where(count >= least, least, 0))
    generator = numpy_generator(seed, "evaluation/subset")
    order = generator.permutation(len(task))
    chosen = [order[index[order] == label][: quota[label]] for label in range(len(labels))]
    return np.sort(np.concatenate(chosen))


def _quotas(count: np.ndarray, size: int) -> np.ndarray:
    """Items per task, summing to `size`, none above the task's own number."""
    exact = count * (size / count.sum())
    quota = np.floor(exact).astype(np.int64)
    if len(count) <= size:
        quota = np.maximum(quota, 1)
    while quota.sum() > size:
        # The minimum of one has overshot: the largest tasks feel its return least.
        quota[np.argmax(quota)] -= 1
    short = size - int(quota.sum())
    by_remainder = np.argsort(-(exact - quota), kind="stable")
    room = by_remainder[quota[by_remainder] < count[by_remainder]]
    quota[room[:short]] += 1
    return quota
