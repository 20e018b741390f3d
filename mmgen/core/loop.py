"""The training loop.

Its order is fixed: evaluate (the state as it is) -> save -> batch -> step -> log. The last step is
evaluated and saved. Nothing is saved before every step up to it is known to be finite. Whatever
kills the process, the same call goes on from the newest checkpoint and ends in the same numbers.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from mmgen.core import control as control_lib
from mmgen.core.announce import announce
from mmgen.core.broadcast import from_first_process
from mmgen.core.checkpoint import Checkpointer, NotFiniteError, Restored, rank_of
from mmgen.core.control import Best, Control, better
from mmgen.core.dispatch import make_dispatcher
from mmgen.core.facts import environment, not_bit_equal
from mmgen.core.host_memory import return_freed_memory
from mmgen.core.mesh import born_sharded, param_shardings, placed_shapes, put_replicated
from mmgen.core.optim import learning_rate_scale, with_learning_rate_scale
from mmgen.core.preemption import Interrupted, StopSignal
from mmgen.core.progress import Progress
from mmgen.core.reading import LateReader, NotFinite, Window
from mmgen.core.run_spec import Result, RunSpec
from mmgen.core.seeds import born
from mmgen.core.state import TrainState
from mmgen.core.timing import Stopwatch
from mmgen.core.workdir import Workdir
from mmgen.core.writers import NullWriter, Writer
from mmgen.errors import Diverged, UserError

PyTree = Any

CHECKPOINTS = "checkpoints"
NO_WINDOW, NO_BEST = Window({}, 0), Best()
AS_IT_IS = ("memory_fill",)
"""Scalars of which the last value is logged, not the mean since the last line."""


def train(
    spec: RunSpec,
    workdir: Workdir,
    mesh: Mesh,
    writer: Writer | None = None,
    progress: Progress | None = None,
) -> Result:
    """Train from the newest checkpoint in `workdir`, or from the start, to the end.

    On SIGTERM (or Ctrl-C) the current step is finished and saved, nothing is evaluated, and the
    result says `stopped`. The writer and the progress line stay the caller's to close.

    Raises:
      UserError: another process has the workdir; a loss is not finite; a full disk; no checkpoint
        can be read, or it holds another model or memory.
    """
    if jax.process_index() != 0:
        writer = progress = None
    with contextlib.ExitStack() as stack:
        stack.enter_context(workdir.lock())
        stop = stack.enter_context(StopSignal())
        checkpoints = Checkpointer(workdir.file(CHECKPOINTS), spec.keep, spec.best)
        stack.push(_closing(checkpoints))
        run = _Run(spec, mesh, checkpoints, writer or NullWriter(), progress, stop)
        run.start()
        stack.callback(run.close)
        run.loop()
        return run.finish()


def saved_control(
    evaluated: int | None,
    metrics: Mapping[str, float],
    window: Window = NO_WINDOW,
    best: Best = NO_BEST,
    control: Control | None = None,
    seconds: float = 0.0,
) -> dict[str, Any]:
    """What a checkpoint holds besides the state, for `_Run._resume`: a JSON object.

    Args:
      evaluated: step of the last evaluation, None before the first.
      metrics: of that evaluation.
      window: scalars since the last log line.
      best: the best evaluation so far.
      control: of the run, if it has one.
      seconds: that training has taken so far, in this process and in those it has gone on from.
    """
    return {
        "control": None if control is None else control_lib.to_json(control),
        "evaluated": evaluated,
        "metrics": dict(metrics),
        "window": window._asdict(),
        "best": best._asdict(),
        "seconds": seconds,
    }


class _Run:
    """The moving parts of one call of `train`."""

    def __init__(
        self,
        spec: RunSpec,
        mesh: Mesh,
        checkpoints: Checkpointer,
        writer: Writer,
        progress: Progress | None,
        stop: StopSignal,
    ):
        self.spec = spec
        self.stop = stop
        self.mesh = mesh
        self.checkpoints = checkpoints
        self.writer = writer
        self.progress = progress or Progress(spec.num_steps, enabled=False)
        self.facts = {**environment(mesh), **spec.facts}
        self.watch = Stopwatch()
        self.earlier_seconds = 0.0
        self.reader = LateReader(self._log)
        self.control = spec.control
        self.window = NO_WINDOW
        self.best = NO_BEST
        self.metrics: dict[str, float] = {}
        self.evaluated: int | None = None
        self.saved: int | None = None
        self.saved_evaluated = False
        self.stopped = False
        self.dispatches = 0
        self.unrated = 0

    # Before the first step.

    def start(self) -> None:
        spec = self.spec
        with self.watch.time("start"):
            self.seed = put_replicated(np.asarray(spec.seed, np.uint32), self.mesh)
            shapes = jax.eval_shape(self._born, self.seed)
            self.shardings = param_shardings(shapes, self.mesh, spec.rules)
            placed = placed_shapes(shapes, self.shardings)
            restored = self.checkpoints.restore_latest(placed)
            if restored is None:
                self.state = self._first_state(placed)
                self.step = 0
            else:
                self._resume(restored)
        self.first = self.step
        self.writer.resume(None if restored is None else self.step)
        self.dispatcher = make_dispatcher(spec, self.shardings, self.mesh, self.step)
        self.progress.start(self.step)

    def _born(self, seed: Array) -> TrainState:
        return born(self.spec.init, seed)

    def _first_state(self, placed: PyTree) -> TrainState:
        if self.spec.begin is not None:
            return self.spec.begin(placed)
        return born_sharded(self._born, self.mesh, self.spec.rules)(self.seed)

    def _resume(self, restored: Restored) -> None:
        self.state, self.step = restored.state, restored.step
        self.saved = self.step
        if self.step > self.spec.num_steps:
            raise UserError(
                f"the checkpoint is of step {self.step}, but the run has only "
                f"{self.spec.num_steps} steps; give another --workdir, or a longer run."
            )
        self._check_memory()
        warning = not_bit_equal(restored.facts, self.facts)
        if warning:
            announce(warning)
        saved = restored.control
        self.evaluated, self.metrics = saved["evaluated"], saved["metrics"]
        self.saved_evaluated = self.evaluated == self.step
        self.window, self.best = Window(**saved["window"]), Best(**saved.get("best", {}))
        self.earlier_seconds = saved.get("seconds", 0.0)
        if self.control is not None and saved["control"] is not None:
            self.control = control_lib.from_json(saved["control"])

    def _check_memory(self) -> None:
        if self.spec.memory_at is None:
            return
        expected, found = self.spec.memory_at(self.step), self.state.memory
        # A payload is the algorithm's own (DER's logits), and no plan can foretell it.
        for name in ("ids", "seen"):
            pair = jax.device_get((getattr(expected, name), getattr(found, name)))
            if not np.array_equal(*pair):
                raise UserError(
                    f"the memory in the checkpoint of step {self.step} is not the one that this "
                    f"data set, stream and seed give (memory.{name} differs); give another "
                    "--workdir, or the data set the run was started with."
                )

    # The loop.

    def loop(self) -> None:
        try:
            self._redo_missing()
            while not self._turn():
                pass
        except NotFinite as error:
            raise self._not_finite(error.step, f"the loss is {error.loss}") from None
        except Interrupted:
            self._interrupt()

    def _turn(self) -> bool:
        """Evaluate, save, and make one step if there is one to make; True at the end."""
        if self.stop.requested_at(self.dispatches):
            self._interrupt()
            return True
        if self._is_evaluation_due():
            self._evaluate()
        if self._is_save_due():
            self._save()
        if self._is_last():
            return True
        self._iterate()
        return False

    def _is_last(self) -> bool:
        return self.step == self.spec.num_steps or (self.control is not None and self.control.stop)

    def _is_evaluation_due(self) -> bool:
        due = self.step in self.spec.eval_steps or self.step == self.spec.num_steps
        return due and self.evaluated != self.step

    def _is_save_due(self) -> bool:
        if self.saved == self.step:
            # A signal had it saved before its evaluation: as the best it has to say by what.
            return self._is_best() and not self.saved_evaluated
        if self.step == 0 and not self._is_last():
            return False
        return self._is_last() or self._is_best() or self.step % self.spec.save_every == 0

    def _is_best(self) -> bool:
        """Is this the best evaluation so far?"""
        return self.evaluated == self.step == self.best.step

    def _iterate(self) -> None:
        dispatcher = self.dispatcher
        programs = len(dispatcher.traces)
        # Every copy between host and device in here has to be meant.
        with self.watch.time("train"), jax.transfer_guard("disallow"):
            prepared = dispatcher.prepare(self.step)
            began = time.perf_counter()
            self.state, values, count = dispatcher.dispatch(self.state, prepared, self.seed)
            self.step += count
            self.dispatches += 1
            self.reader.push(self.step, dispatcher.traces[-1].names, values)
            self.reader.poll()
            if len(dispatcher.traces) > programs:
                values.block_until_ready()
                self._note_compilation(time.perf_counter() - began, count)

    def _note_compilation(self, seconds: float, steps: int) -> None:
        """A new program has made its first steps: rates are counted without them."""
        return_freed_memory()
        self.watch.add("compile", seconds)
        self.unrated += steps
        if self.dispatches == 1:
            self.watch.add("to_first_step", self.watch.total())
            if self.dispatcher.clock:
                self.dispatcher.clock.reset()
            self.progress.start(self.step)

    # What happens around the steps.

    def _evaluate(self) -> None:
        self._drain()
        final = self.step == self.spec.num_steps
        metrics = self._metrics(final)
        control = self._updated_control(metrics)
        if control is not None and control.stop and not final:
            metrics |= self._metrics(True)
        self.metrics = metrics
        if self.spec.best is not None:
            name, mode = self.spec.best
            self.best = better(self.best, mode, rank_of(metrics, name), self.step)
        self._apply_control(control)
        self.evaluated = self.step
        self.writer.scalars(self.step, self.metrics)

    def _metrics(self, final: bool) -> dict[str, float]:
        # Only this may be broken off by a signal: nothing of the run's own has changed yet.
        with self.watch.time("evaluate"), self.stop.breakable():
            found = self.spec.evaluate(self.state.params, self.step, final)
        return_freed_memory()
        return from_first_process({name: float(value) for name, value in found.items()})

    def _updated_control(self, metrics: Mapping[str, float]) -> Control | None:
        if self.control is None:
            return None
        if self.control.metric not in metrics:
            raise UserError(
                f'control.metric is "{self.control.metric}", which the evaluation does not give; '
                f"it gives {', '.join(sorted(metrics))}."
            )
        return control_lib.update(self.control, float(metrics[self.control.metric]))

    def _apply_control(self, control: Control | None) -> None:
        self.control = control
        if control is None or control.scale == learning_rate_scale(self.state.opt_state):
            return
        scaled = with_learning_rate_scale(self.state.opt_state, control.scale)
        self.state = self.state.replace(opt_state=scaled)

    def _drain(self) -> None:
        """Wait for the steps in flight, which is time of training."""
        with self.watch.time("train"):
            self.reader.drain()

    def _save(self) -> None:
        self._drain()
        with self.watch.time("save"):
            # First the lines, then the checkpoint: it must never know more than the files do.
            self.writer.flush()
            seconds = self.earlier_seconds + self.watch.total()
            control = saved_control(
                self.evaluated, self.metrics, self.window, self.best, self.control, seconds
            )
            metrics = self.metrics if self._is_best() else None
            try:
                self.checkpoints.save(
                    self.step,
                    self.state,
                    control,
                    self.facts,
                    metrics,
                    replace=self.saved == self.step,
                )
            except NotFiniteError as error:
                raise self._not_finite(self.step, str(error)) from None
            self.saved, self.saved_evaluated = self.step, self.evaluated == self.step

    def _interrupt(self) -> None:
        if self.saved != self.step:
            self._save()
        self.checkpoints.wait()
        self.stopped = True
        announce(
            f"stopped by a signal at step {self.step} of {self.spec.num_steps}, which is saved; "
            "the same command goes on from there"
        )

    def _redo_missing(self) -> None:
        """Write the records of the evaluation at the restored step again, if they are gone."""
        final = self.step == self.spec.num_steps
        is_missing = self.spec.is_missing
        if is_missing is None or self.evaluated != self.step or not is_missing(self.step, final):
            return
        self._metrics(final)

    def _log(self, step: int, values: dict[str, float]) -> None:
        """Scalars of a step have arrived, in order, some steps late."""
        self.window = self.window.add(values)
        wait_share = self._wait_share()
        self.progress.update(step, values["loss"], values.get("memory_fill"), wait_share)
        if step % self.spec.log_every == 0 or step == self.spec.num_steps:
            as_they_are = {k: v for k, v in values.items() if k.rsplit("/", 1)[-1] in AS_IT_IS}
            means = {**self.window.means(), **as_they_are}
            line = {f"train/{name}": value for name, value in means.items()}
            line["time/examples_per_second"] = self._rate(step)
            line["time/data_wait_share"] = wait_share
            self.writer.scalars(step, line)
            self.window = NO_WINDOW

    def _rate(self, step: int) -> float:
        """Examples per second since this process began to train, compilation left out."""
        seconds = self.watch.seconds("train") - self.watch.seconds("compile")
        steps = max(step - self.first - self.unrated, 0)
        return steps * self.spec.examples_per_step / max(seconds, 1e-9)

    def _wait_share(self) -> float:
        clock = self.dispatcher.clock
        return clock.seconds / max(self.watch.seconds("train"), 1e-9) if clock else 0.0

    def _not_finite(self, step: int, what: str) -> Diverged:
        """The sentence, with the examples that the step has read."""
        self.writer.flush()
        feed = self.spec.feeds[step - 1]
        batches = [("stream", feed.stream), *(("replayed", batch) for batch in feed.replay)]
        examples = "; ".join(
            f"{name}: {', '.join(map(str, np.asarray(batch['ids'])[np.asarray(batch['mask'])]))}"
            for name, batch in batches
        )
        here = "" if jax.process_count() == 1 else " in this process"
        saved = "no checkpoint" if self.saved is None else f"the checkpoint of step {self.saved}"
        return Diverged(
            f"{what} at step {step}, whose examples{here} were ({examples}); training has stopped "
            f"and {saved} is the last good one: lower optimizer.learning_rate, or look at these "
            "rows."
        )

    # After the last step.

    def finish(self) -> Result:
        with self.watch.time("save"):
            self.writer.flush()
            self.checkpoints.wait()
        timing = self.watch.report()
        steps = self.step - self.first
        timing.update(
            steps=steps,
            earlier_seconds=self.earlier_seconds,
            programs=len(self.dispatcher.traces),
            examples_per_second=self._rate(self.step) if steps else 0.0,
            data_wait_share=self._wait_share(),
        )
        return Result(self.state, self.metrics, timing, self.stopped)

    def close(self) -> None:
        self.dispatcher.close()


def _closing(checkpoints: Checkpointer) -> Callable[..., bool]:
    """Close at the end of the stack; an error that is already on its way is not replaced."""

    def close(kind: type[BaseException] | None, *_: object) -> bool:
        if kind is None:
            checkpoints.close()
        else:
            with contextlib.suppress(Exception):
                checkpoints.close()
        return False

    return close
