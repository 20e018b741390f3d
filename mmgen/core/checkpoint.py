"""Checkpoints: written in the background, whole or not at all, checked when they are read.

Each step holds two items: `state` (the arrays) and `about` (JSON: control, facts, and the dtype,
shape and checksum of every array, because Orbax casts dtypes and misses flipped bytes silently).
"""

import errno
import logging
import math
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from absl import logging as absl_logging
from etils import epath

from mmgen.core.announce import announce
from mmgen.core.broadcast import from_first_process
from mmgen.core.digest import Mark, named_leaves, tree_marks
from mmgen.core.state import TrainState
from mmgen.core.workdir import is_disk_full, write_error
from mmgen.errors import UserError

PyTree = Any
policies = ocp.checkpoint_managers

SLACK = 1 << 16
"""Bytes that a checkpoint needs besides its arrays."""
DATA_FILE = 1 << 24
"""Bytes of a data file. Larger ones are gathered in memory, as much again as the whole state."""

ASIDE = "replaced-"
"""Begins the name of a checkpoint whose step is being saved again."""


class NotFiniteError(Exception):
    """A parameter to be saved is not finite; nothing was written. `path` names it."""

    def __init__(self, path: str):
        super().__init__(f"{path} is not finite")
        self.path = path


class Restored(NamedTuple):
    """What a checkpoint gives back."""

    state: TrainState
    control: dict[str, Any]
    facts: dict[str, Any]
    step: int


class Checkpointer:
    """The checkpoints of one run, in one folder.

    Every process of a run makes one and calls the same methods in the same order.
    """

    def __init__(
        self, directory: epath.PathLike, keep: int = 2, best: tuple[str, str] | None = None
    ):
        """Open, or make, the folder.

        Args:
          keep: how many of the newest are kept; at least 2, or a corrupt newest one is the end.
          best: (metric, "min" or "max"): the best by that metric is kept besides.
        """
        self._directory = epath.Path(directory)
        if keep < 1:
            raise UserError(f"checkpoint.keep is {keep}; it must be at least 1.")
        self._best = best
        self._bring_back()
        absl_logging.get_absl_logger().addFilter(_RAISED_ANYWAY)
        options = ocp.CheckpointManagerOptions(
            preservation_policy=_preservation(keep, best),
            best_fn=(lambda metrics: metrics[best[0]]) if best else None,
            best_mode=best[1] if best else "max",
            cleanup_tmp_directories=True,
        )
        self._manager = self._writing(
            lambda: ocp.CheckpointManager(
                self._directory, options=options, item_names=("state", "about")
            )
        )

    @property
    def steps(self) -> list[int]:
        """Steps of the finished checkpoints, ascending."""
        return sorted(self._manager.all_steps())

    @property
    def best_step(self) -> int | None:
        """Step of the best checkpoint by the metric, None if there is none."""
        return self._manager.best_step()

    def save(
        self,
        step: int,
        state: TrainState,
        control: dict[str, Any],
        facts: dict[str, Any],
        metrics: dict[str, float] | None = None,
        *,
        replace: bool = False,
    ) -> None:
        """Copy the state and write it in the background; the state may be donated afterwards.

        Args:
          control, facts: JSON objects that come back from `restore`.
          metrics: what `best` chooses by; None if this step was not evaluated.
          replace: `step` is saved already. On a disk that checkpoint is there until the new one
            is; a bucket cannot rename, and has it deleted first.

        Raises:
          NotFiniteError: a parameter is not finite.
          UserError: the disk is full (now, or when the previous checkpoint was written).
          ValueError: `step` is not above every saved step.
        """
        marks = tree_marks(state)
        for path, mark in marks.items():
            if path.startswith("params/") and not mark.finite:
                raise NotFiniteError(path)
        about = {"control": control, "facts": facts, "arrays": _to_json(marks)}
        arguments = ocp.args.Composite(
            state=ocp.args.PyTreeSave(state, ocdbt_target_data_file_size=DATA_FILE),
            about=ocp.args.JsonSave(about),
        )
        self._writing(lambda: self._check_space(state))
        rank = self._rank(metrics)
        if replace:
            self.wait()
            self._writing(lambda: self._set_aside(step))
        saved = self._writing(lambda: self._manager.save(step, args=arguments, metrics=rank))
        # Orbax only returns False here, and writes nothing.
        if not saved:
            raise ValueError(f"step {step} was not saved; {self.steps} are there already")
        if replace:
            self.wait()
            self._bring_back()

    def restore_latest(self, abstract_state: TrainState) -> Restored | None:
        """The newest checkpoint that can be read; None if there is none at all.

        Newer ones that cannot be read are named in one sentence and deleted, since their steps will
        be saved again.

        Args:
          abstract_state: `ShapeDtypeStruct`s with the shardings to restore to.

        Raises:
          UserError: none of them can be read, or they hold another model.
        """
        steps = self.steps
        unreadable: list[tuple[int, str]] = []
        for step in reversed(steps):
            try:
                restored = self._read(step, abstract_state)
            except _Unreadable as error:
                unreadable.append((step, str(error)))
                continue
            for bad, reason in unreadable:
                announce(
                    f"the checkpoint of step {bad} in {self._directory} cannot be read ({reason}); "
                    f"going on from the one before, of step {step}"
                )
                self._manager.delete(bad)
            return restored
        if not steps:
            return None
        raise UserError(
            f"none of the checkpoints in {self._directory} can be read (step "
            f"{', '.join(map(str, steps))}; {unreadable[0][1]}); delete that folder to start anew."
        )

    def restore(self, step: int, abstract_state: TrainState) -> Restored:
        """The checkpoint of `step`.

        Raises:
          UserError: it is not there, cannot be read, or holds another model.
        """
        if step not in self.steps:
            raise UserError(
                f"{self._directory} has no checkpoint of step {step}; there are: "
                f"{', '.join(map(str, self.steps)) or 'none'}."
            )
        try:
            return self._read(step, abstract_state)
        except _Unreadable as error:
            raise UserError(
                f"the checkpoint of step {step} in {self._directory} cannot be read ({error}); "
                "use another step."
            ) from error

    def wait(self) -> None:
        """Until everything is written. Raises UserError if the disk was full."""
        self._writing(self._manager.wait_until_finished)

    def close(self) -> None:
        """Wait, then let go of threads. Raises UserError if the disk was full."""
        try:
            self.wait()
        finally:
            self._writing(self._manager.close)

    def _read(self, step: int, abstract_state: TrainState) -> Restored:
        about = self._reading(step, ocp.args.Composite(about=ocp.args.JsonRestore())).about
        try:
            expected = _from_json(about["arrays"])
            control, facts = about["control"], about["facts"]
        except (TypeError, KeyError, ValueError) as error:
            raise _Unreadable(f"its description is damaged: {error!r}") from error
        self._compare(step, expected, abstract_state)
        where = ocp.checkpoint_utils.construct_restore_args(abstract_state)
        arguments = ocp.args.Composite(
            state=ocp.args.PyTreeRestore(abstract_state, restore_args=where)
        )
        state = self._reading(step, arguments).state
        for path, mark in tree_marks(state).items():
            if mark.checksum != expected[path].checksum:
                raise _Unreadable(f"the checksum of {path} is wrong")
        return Restored(state, control, facts, step)

    def _compare(self, step: int, expected: dict[str, Mark], abstract_state: TrainState) -> None:
        """Refuse a checkpoint of another model; Orbax would cast the dtype without a word."""
        wanted = {
            path: (str(leaf.dtype), tuple(leaf.shape))
            for path, leaf in named_leaves(abstract_state).items()
        }
        saved = {path: (mark.dtype, mark.shape) for path, mark in expected.items()}
        for path in sorted({*wanted, *saved}):
            if wanted.get(path) != saved.get(path):
                raise UserError(
                    f"the checkpoint of step {step} in {self._directory} is of another model: "
                    f"{path} is {_array(saved.get(path))} there and {_array(wanted.get(path))} "
                    "here; give another --workdir, or the code and config it was made with."
                )

    def _reading(self, step: int, arguments: ocp.args.Composite) -> Any:
        try:
            return self._manager.restore(step, args=arguments)
        except Exception as error:
            # Whatever Orbax and TensorStore say of a damaged file; there is no common class.
            absl_logging.debug("restoring step %d failed", step, exc_info=True)
            first_line = str(error).strip().split("\n")[0][:200]
            raise _Unreadable(f"{type(error).__name__}: {first_line}") from error

    def _rank(self, metrics: dict[str, float] | None) -> dict[str, float] | None:
        if self._best is None or metrics is None:
            return None
        value = rank_of(metrics, self._best[0])
        return None if value is None else {self._best[0]: value}

    @property
    def _is_remote(self) -> bool:
        return "://" in os.fspath(self._directory)

    def _set_aside(self, step: int) -> None:
        """Out of the way of another checkpoint of `step`, until `_bring_back`."""
        if self._is_remote:
            self._manager.delete(step)
            return
        if jax.process_index() == 0:
            (self._directory / str(step)).rename(self._directory / f"{ASIDE}{step}")
        from_first_process(None)  # nobody looks before it is done
        self._manager.reload()

    def _bring_back(self) -> None:
        """What was set aside: back where its replacement was not finished, else deleted."""
        if self._is_remote:
            return
        if jax.process_index() == 0:
            for aside in self._directory.glob(f"{ASIDE}*"):
                place = self._directory / aside.name.removeprefix(ASIDE)
                if place.exists():  # Orbax renames as well, so that it is whole
                    aside.rmtree()
                else:
                    aside.rename(place)
        from_first_process(None)

    def _check_space(self, state: TrainState) -> None:
        """Ask for room beforehand: Orbax leaves half a folder and a page of tracebacks."""
        if self._is_remote:
            return
        needed = sum(leaf.nbytes for leaf in jax.tree.leaves(state)) + SLACK
        if from_first_process(shutil.disk_usage(self._directory).free) < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _writing(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            if not is_disk_full(error):
                raise
            self._remove_unfinished()
            raise write_error(error, self._directory) from error

    def _remove_unfinished(self) -> None:
        if jax.process_index() == 0:
            for path in self._directory.glob("*.orbax-checkpoint-tmp"):
                path.rmtree(missing_ok=True)


class _Unreadable(Exception):
    """A checkpoint is damaged."""


class _RaisedAnyway(logging.Filter):
    """Drops the tracebacks that Orbax's threads print of errors that `wait` raises again.

    And its warning of every step that was saved without being evaluated.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if f"{os.sep}orbax{os.sep}" not in record.pathname:
            return True
        return record.levelno < logging.ERROR and "`tracked_metric`" not in str(record.msg)


_RAISED_ANYWAY = _RaisedAnyway()


def rank_of(metrics: Mapping[str, float], name: str) -> float | None:
    """What the best checkpoint is chosen by; None for a value that is not a number.

    Raises:
      UserError: `metrics` has no such name.
    """
    if name not in metrics:
        raise UserError(
            f'checkpoint.best is by "{name}", which the evaluation does not give; it gives '
            f"{', '.join(sorted(metrics))}."
        )
    return None if math.isnan(metrics[name]) else metrics[name]


def _preservation(keep: int, best: tuple[str, str] | None) -> Any:
    latest = policies.LatestN(n=keep)
    if best is None:
        return latest
    metric, mode = best
    if mode not in ("min", "max"):
        raise UserError(f'checkpoint.best has mode "{mode}"; it must be "min" or "max".')
    chosen = policies.BestN(
        get_metric_fn=lambda metrics: metrics[metric],
        reverse=mode == "min",
        n=1,
        keep_checkpoints_without_metrics=False,
    )
    return policies.AnyPreservationPolicy([latest, chosen])


def _array(mark: tuple[str, tuple[int, ...]] | None) -> str:
    return f"{mark[0]}{list(mark[1])}" if mark else "absent"


def _to_json(marks: dict[str, Mark]) -> dict[str, list[Any]]:
    return {path: [m.dtype, list(m.shape), m.checksum] for path, m in marks.items()}


def _from_json(value: dict[str, list[Any]]) -> dict[str, Mark]:
    return {
        path: Mark(dtype, tuple(shape), int(checksum), True)
        for path, (dtype, shape, checksum) in value.items()
    }
