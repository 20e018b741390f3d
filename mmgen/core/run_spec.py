"""What the training loop is given, and what it gives back."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxtyping import Array, Key

from mmgen.core.compiled_step import StepFn
from mmgen.core.control import Control
from mmgen.core.feeding import Feeds
from mmgen.core.mesh import DEFAULT_RULES, Rules
from mmgen.core.resident import Resident
from mmgen.core.state import TrainState
from mmgen.memory.base import MemoryState
from mmgen.memory.live import Draw

PyTree = Any


class RunSpec(NamedTuple):
    """Everything the loop has to know of a run.

    Attributes:
      num_steps: iterations in all.
      seed: of initialisation, dropout and replay draws; several train side by side, and then state
        and feeds are as in `core.seeds`.
      init: `(key) -> TrainState`, traceable; the state is born on the mesh.
      step: `(state, feed, key) -> (state, scalars)`; scalars hold `loss`, float32 scalars.
      feeds: `feeds[step]` is the `Feed` of iteration `step`, a pure function; see `feeding.Feeds`.
      eval_steps: numbers of finished iterations at which to evaluate; the last is always one.
      evaluate: `(params, step, final) -> metrics`; writes its own records, whole, to the workdir.
        Every process calls it; the metrics of the first one count.
      save_every, log_every: iterations between checkpoints and log lines.
      examples_per_step: for the rate that is shown.
      memory_at: `(step) -> MemoryState` that a checkpoint of that step must hold; None: unchecked.
      facts: what besides devices and versions decides bit-equality (residency, ...), JSON values.
      keep: checkpoints to keep.
      control: reactions to a metric of `evaluate`; None for none.
      best: (metric, "min" or "max") by which the best checkpoint is kept besides.
      rules: which parameters are split over the mesh.
      feed_rows: sizes of the global batches of a feed; see `mesh.put_feed`.
      begin: `(abstract state with shardings) -> TrainState`, called instead of `init` where there
        is no checkpoint: the weights of another run. None to begin with `init`.
      resident: data in device memory, which is then read instead of `feeds`; None reads `feeds`.
      draw: rows to replay that no plan tells; None where `feeds` and `resident` hold all of them.
        Otherwise `feeds` are `feeding.LiveFeeds`.
      is_missing: `(step, final) -> bool`: are the records of that evaluation gone? Asked when a
        finished run is started again.
    """

    num_steps: int
    seed: int | tuple[int, ...]
    init: Callable[[Key[Array, ""]], TrainState]
    step: StepFn
    feeds: Feeds
    eval_steps: tuple[int, ...]
    evaluate: Callable[[PyTree, int, bool], Mapping[str, float]]
    save_every: int
    log_every: int
    examples_per_step: int
    memory_at: Callable[[int], MemoryState] | None = None
    facts: Mapping[str, Any] = {}
    keep: int = 2
    control: Control | None = None
    best: tuple[str, str] | None = None
    rules: Rules = DEFAULT_RULES
    feed_rows: tuple[int, ...] | None = None
    begin: Callable[[TrainState], TrainState] | None = None
    resident: Resident | None = None
    draw: Draw | None = None
    is_missing: Callable[[int, bool], bool] | None = None


class Result(NamedTuple):
    """What `train` returns.

    Attributes:
      state: the last state.
      metrics: of the last evaluation.
      timing: seconds by name, `steps` made by this process, `programs` compiled, rates; and
        `earlier_seconds`, which other processes had taken to the checkpoint this one began from.
      stopped: did a signal end it before its time? The state is saved then.
    """

    state: TrainState
    metrics: dict[str, float]
    timing: dict[str, float]
    stopped: bool
