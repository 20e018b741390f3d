"""Feedback from evaluation to training: lower the learning rate on a plateau, stop early.

A small pure state, made of numbers and strings only, so that a checkpoint holds it as JSON.
"""

import math
from typing import Any, NamedTuple

from mmgen.errors import UserError


class Control(NamedTuple):
    """What evaluation has said so far, and how to react to it.

    Settings (part of the run's identity):
      metric: name of the metric of `evaluate` that is followed.
      mode: "min" or "max", which is better.
      factor: the learning rate is multiplied by this on a plateau; 1 is never.
      patience: evaluations without improvement that are borne before that.
      threshold: relative change that counts as an improvement.
      min_scale: the learning rate never falls below this share of what it was configured as.
      stop_patience: evaluations without improvement that are borne before stopping; -1 is never.

    State:
      best: best value so far, None before the first.
      bad: evaluations since the last improvement or reduction.
      stale: evaluations since the last improvement.
      scale: factor on the configured learning rate, now.
      stop: should training end?
    """

    metric: str
    mode: str = "min"
    factor: float = 1.0
    patience: int = 10
    threshold: float = 1e-4
    min_scale: float = 0.0
    stop_patience: int = -1
    best: float | None = None
    bad: int = 0
    stale: int = 0
    scale: float = 1.0
    stop: bool = False


def make_control(
    metric: str,
    mode: str = "min",
    factor: float = 1.0,
    patience: int = 10,
    threshold: float = 1e-4,
    min_scale: float = 0.0,
    stop_patience: int = -1,
) -> Control:
    """A fresh `Control`.

    Raises:
      UserError: a setting out of range.
    """
    if mode not in ("min", "max"):
        raise UserError(f'control.mode is "{mode}"; it must be "min" or "max".')
    if not 0 < factor <= 1:
        raise UserError(f"control.factor is {factor}; it must be in (0, 1].")
    if patience < 0 or threshold < 0 or stop_patience < -1:
        raise UserError(
            f"control.patience, .threshold, .stop_patience are {patience}, {threshold}, "
            f"{stop_patience}; they must be at least 0, 0, -1."
        )
    if not 0 <= min_scale <= 1:
        raise UserError(f"control.min_scale is {min_scale}; it must be in [0, 1].")
    return Control(metric, mode, factor, patience, threshold, min_scale, stop_patience)


def update(control: Control, value: float) -> Control:
    """`control` after one more evaluation; a value that is not a number is no improvement.

    The rule is that of PyTorch's ReduceLROnPlateau with a relative threshold: the reduction comes
    with the evaluation after `patience` bad ones, which then are counted anew.
    """
    if _improves(control, value):
        return control._replace(best=float(value), bad=0, stale=0)
    control = control._replace(bad=control.bad + 1, stale=control.stale + 1)
    if control.bad > control.patience:
        scale = max(control.scale * control.factor, control.min_scale)
        control = control._replace(scale=scale, bad=0)
    stop = 0 <= control.stop_patience < control.stale
    return control._replace(stop=control.stop or stop)


class Best(NamedTuple):
    """The best evaluation so far, by whatever decides which checkpoint is kept.

    Unlike `Control.best` it takes any gain, however small; of equals the first one stays.

    Attributes:
      value: of the metric, None before the first.
      step: of the evaluation.
    """

    value: float | None = None
    step: int | None = None


def better(best: Best, mode: str, value: float | None, step: int) -> Best:
    """`best` after one more evaluation; None is a value that cannot be ranked."""
    if value is None:
        return best
    if best.value is not None and not (value < best.value if mode == "min" else value > best.value):
        return best
    return Best(value, step)


def to_json(control: Control) -> dict[str, Any]:
    """`control` as a JSON object."""
    return control._asdict()


def from_json(value: dict[str, Any]) -> Control:
    """The inverse of `to_json`."""
    return Control(**value)


def _improves(control: Control, value: float) -> bool:
    if math.isnan(value):
        return False
    if control.best is None:
        return True
    margin = control.threshold * abs(control.best)
    if control.mode == "min":
        return value < control.best - margin
    return value > control.best + margin
