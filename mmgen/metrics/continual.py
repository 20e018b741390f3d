"""The task x checkpoint matrix and what is derived from it: forgetting, transfer, average.

All values are losses (mean item log-perplexity in nats), so *positive forgetting is bad* and
*positive transfer is good*; every formula states its sign. "Forgetting" means different things in
different code bases, so each definition has its own name:

  best         L[k, final] - min over checkpoints of L[k, c], the final one among them: never
               negative (VisCOLL section 6, formula of f_avg); unweighted mean over tasks.
  seen98       L[k, final] - L[k, c] with c the checkpoint nearest to the moment at which 98 % of
               the task's stream examples had been seen, both in iterations; may be negative.
  as_released  what `INK-USC/VisCOLL metrics/forgetting.py:29-76` computes: the same, but with that
               moment counted in *examples* and held against *iteration numbers*, mean weighted by
               test frequency. Kept only to be set beside the published column.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

SEEN_SHARE = 0.98
"""Share of a task's stream examples after which the task counts as finished."""

BEFORE_SHARE = 0.02
"""A checkpoint lies before a task while less than this share of its examples was seen."""


class TaskMatrix(NamedTuple):
    """Mean loss of every task at every checkpoint, over one fixed set of items.

    Attributes:
      steps: iteration number of each checkpoint, ascending; the last one is the final model.
      loss: mean item log-perplexity, NaN for a task without items.
      items: number of items of each task behind every entry of its row.
    """

    steps: Int[np.ndarray, " c"]
    loss: Float[np.ndarray, "k c"]
    items: Int[np.ndarray, " k"]


class Exposure(NamedTuple):
    """What of each task the stream had shown by when.

    Attributes:
      size: the task's examples in the stream.
      end_example: index (from 0) of the example with which 98 % of the task was seen, -1 for a task
        that the stream never shows.
      seen: share of the task's examples seen by each checkpoint, NaN for such a task.
      examples_per_step: stream examples of one iteration.
    """

    size: Int[np.ndarray, " k"]
    end_example: Int[np.ndarray, " k"]
    seen: Float[np.ndarray, "k c"]
    examples_per_step: int


class TaskMean(NamedTuple):
    """A mean over tasks and how many tasks are behind it.

    Attributes:
      value: NaN if no task qualified.
      tasks: number of tasks averaged.
    """

    value: float
    tasks: int


def task_matrix(
    evaluations: Mapping[
        int,
        tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]],
    ],
    num_tasks: int,
) -> TaskMatrix:
    """The matrix over the items that *every* checkpoint evaluated.

    Args:
      evaluations: checkpoint step -> (item ids, their tasks, their log-perplexities).

    Raises:
      ValueError: two checkpoints have no item in common.
    """
    steps = sorted(evaluations)
    common = evaluations[steps[0]][0]
    for step in steps[1:]:
        common = np.intersect1d(common, evaluations[step][0])
    if not len(common):
        raise ValueError(f"the evaluations at steps {steps} share no item")
    loss = np.full((num_tasks, len(steps)), np.nan)
    items = np.zeros(num_tasks, dtype=np.int64)
    for column, step in enumerate(steps):
        ids, task, item_loss = evaluations[step]
        keep = np.isin(ids, common)
        items = np.bincount(task[keep], minlength=num_tasks)
        total = np.bincount(task[keep], weights=item_loss[keep], minlength=num_tasks)
        np.divide(total, items, out=loss[:, column], where=items > 0)
    return TaskMatrix(np.asarray(steps, dtype=np.int64), loss, items)


def exposure(
    task_in_stream_order: Int[np.ndarray, " n"],
    num_tasks: int,
    steps: Int[np.ndarray, " c"],
    examples_per_step: int,
) -> Exposure:
    """When the stream shows each task; a checkpoint of step s has seen s * examples_per_step."""
    size = np.bincount(task_in_stream_order, minlength=num_tasks)
    seen = np.full((num_tasks, len(steps)), np.nan)
    for column, step in enumerate(steps):
        so_far = task_in_stream_order[: int(step) * examples_per_step]
        count = np.bincount(so_far, minlength=num_tasks)
        np.divide(count, size, out=seen[:, column], where=size > 0)
    end = np.full(num_tasks, -1, dtype=np.int64)
    by_task = np.argsort(task_in_stream_order, kind="stable")
    first = np.cumsum(size) - size
    # The example with which the count first reaches 98 %, 1-based rank ceil(.98 n).
    rank = np.ceil(SEEN_SHARE * size - 1e-9).astype(np.int64)
    present = size > 0
    end[present] = by_task[(first + rank - 1)[present]]
    return Exposure(size, end, seen, examples_per_step)


def eligible_tasks(matrix: TaskMatrix, min_items: int) -> Bool[np.ndarray, " k"]:
    """Tasks with at least `min_items` evaluated items; the means of the others are mostly noise."""
    return matrix.items >= max(1, min_items)


def average_loss(matrix: TaskMatrix, tasks: Bool[np.ndarray, " k"]) -> TaskMean:
    """Unweighted mean over `tasks` of the final loss; lower is better."""
    return _mean(matrix.loss[:, -1], tasks)


def forgetting_best(matrix: TaskMatrix, tasks: Bool[np.ndarray, " k"]) -> TaskMean:
    """The paper's formula: final loss minus the best checkpoint's, >= 0; lower is better."""
    return _mean(matrix.loss[:, -1] - np.min(matrix.loss, axis=1), tasks)


def forgetting_seen98(
    matrix: TaskMatrix,
    exposed: Exposure,
    tasks: Bool[np.ndarray, " k"],
    weights: Float[np.ndarray, " k"] | None = None,
) -> TaskMean:
    """Final loss minus the loss at the checkpoint nearest to the task's end; lower is better.

    Negative where the task went on improving after its end. A task that ends nearest to the final
    checkpoint contributes 0. Tasks that the stream never shows are left out.

    Args:
      weights: weight of each task, e.g. its items in the whole test split, of which the matrix may
        hold another share of each task; None for the unweighted mean.
    """
    end_step = (exposed.end_example + 1) / exposed.examples_per_step
    column = _nearest(matrix.steps.astype(np.float64), end_step)
    increase = matrix.loss[:, -1] - matrix.loss[np.arange(len(column)), column]
    return _mean(increase, tasks & (exposed.size > 0), weights)


def forgetting_as_released(
    matrix: TaskMatrix,
    exposed: Exposure,
    tasks: Bool[np.ndarray, " k"],
    weights: Float[np.ndarray, " k"],
    skip_first: bool,
) -> TaskMean:
    """The released code's value, mixed units included; weighted by test frequency.

    The task's end is an index in examples, the candidates are iteration numbers, and the final
    model stands in the list as -1.

    Args:
      weights: items of each task in the whole test split.
      skip_first: leave the first checkpoint out, as the code does with iteration 1000 of its list.
    """
    first = 1 if skip_first and len(matrix.steps) > 1 else 0
    labels = np.append(matrix.steps[first:-1], -1).astype(np.float64)
    column = first + _nearest(labels, exposed.end_example.astype(np.float64))
    increase = matrix.loss[:, -1] - matrix.loss[np.arange(len(column)), column]
    return _mean(increase, tasks & (exposed.size > 0), weights)


def backward_transfer(
    matrix: TaskMatrix, exposed: Exposure, tasks: Bool[np.ndarray, " k"]
) -> TaskMean:
    """L[k, after] - L[k, final]: what later training did to finished tasks; positive is good.

    "After" is the first checkpoint with at least 98 % of the task seen. Tasks that only the final
    checkpoint has finished leave nothing to transfer and are left out.
    """
    finished = exposed.seen >= SEEN_SHARE
    after = np.argmax(finished, axis=1)
    valid = np.any(finished, axis=1) & (after < len(matrix.steps) - 1)
    gain = matrix.loss[np.arange(len(after)), after] - matrix.loss[:, -1]
    return _mean(gain, tasks & valid)


def forward_transfer(
    matrix: TaskMatrix,
    exposed: Exposure,
    tasks: Bool[np.ndarray, " k"],
    reference: Float[np.ndarray, " k"],
) -> TaskMean:
    """reference[k] - L[k, before]: what other tasks taught about an unseen one; positive is good.

    "Before" is the last checkpoint with less than 2 % of the task seen. Tasks without such a
    checkpoint are left out.

    Args:
      reference: loss of a model that knows nothing of the task.
    """
    unseen = exposed.seen < BEFORE_SHARE
    before = len(matrix.steps) - 1 - np.argmax(unseen[:, ::-1], axis=1)
    gain = reference - matrix.loss[np.arange(len(before)), before]
    return _mean(gain, tasks & np.any(unseen, axis=1))


def _nearest(labels: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Index of the label nearest to each moment; of two equally near ones the later."""
    distance = np.abs(moments[:, None] - labels[None, :])
    return len(labels) - 1 - np.argmin(distance[:, ::-1], axis=1)


def _mean(values: np.ndarray, tasks: np.ndarray, weights: np.ndarray | None = None) -> TaskMean:
    chosen = tasks & np.isfinite(values)
    if not chosen.any():
        return TaskMean(float("nan"), 0)
    weight = np.ones(len(values)) if weights is None else weights
    value = float(np.average(values[chosen], weights=weight[chosen]))
    return TaskMean(value, int(chosen.sum()))
