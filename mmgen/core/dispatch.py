"""How the loop makes iterations: one per dispatch from the host, or chunks from device memory."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import jax
from jax.sharding import Mesh
from jaxtyping import Array, Int

from mmgen.algorithms.base import Feed
from mmgen.core.announce import announce
from mmgen.core.compiled_step import Trace, compile_step
from mmgen.core.feeding import Feeder, LiveFeeds
from mmgen.core.mesh import put_feed, replicated
from mmgen.core.resident import choose_chunk, compile_chunk, longest_chunk, put_data, steps_from
from mmgen.core.run_spec import RunSpec
from mmgen.core.state import TrainState

PyTree = Any


class Dispatcher(Protocol):
    """Makes iterations.

    Attributes:
      traces: one entry per compiled program; the last names the scalars.
      wait_seconds: in which no iteration was running because its batch was not there, be it that
        it was not read yet or not copied to the device.
    """

    traces: list[Trace]
    wait_seconds: float

    def prepare(self, step: int, is_idle: Callable[[], bool]) -> Any:
        """What the iterations from `step` on read, on the device.

        Args:
          is_idle: has the device nothing to do?
        """

    def dispatch(
        self, state: TrainState, prepared: Any, seed: Int[Array, ""]
    ) -> tuple[TrainState, Array, int]:
        """The new state, scalars float32[n] or float32[count, n], and `count`."""

    def close(self) -> None:
        """End the threads behind it."""


def put_timed(
    feed: Feed, mesh: Mesh, rows: Sequence[int] | None, is_idle: Callable[[], bool]
) -> tuple[Feed, float]:
    """`mesh.put_feed`, and the seconds in which no step was running because of it.

    Args:
      is_idle: has the device nothing to do? Asked once the copy is under way: behind steps that
        still run it costs nothing, and is not waited for.

    Raises:
      ValueError: as `put_feed`.
    """
    began = time.perf_counter()
    placed = put_feed(feed, mesh, rows)
    if not is_idle():
        return placed, 0.0
    # `put_feed` may return before the copy is there. A step could not begin without it either, so
    # that to wait for it, which alone shows how long it takes, costs an idle device nearly nothing.
    jax.block_until_ready(placed)
    return placed, time.perf_counter() - began


class HostDispatcher:
    """One iteration per dispatch; batches are read ahead on the host."""

    def __init__(self, spec: RunSpec, shardings: PyTree, mesh: Mesh, start: int):
        self._mesh, self._rows = mesh, spec.feed_rows
        self._call, self.traces = compile_step(spec.step, shardings, mesh)
        self._feeder = Feeder(spec.feeds, start, spec.num_steps)

    @property
    def wait_seconds(self) -> float:
        """See `Dispatcher`."""
        return self._feeder.seconds

    @wait_seconds.setter
    def wait_seconds(self, seconds: float) -> None:
        self._feeder.seconds = seconds

    def prepare(self, step: int, is_idle: Callable[[], bool]) -> Any:
        """The next feed."""
        del step
        feed, seconds = put_timed(self._feeder.next(is_idle), self._mesh, self._rows, is_idle)
        self.wait_seconds += seconds
        return feed

    def dispatch(
        self, state: TrainState, prepared: Any, seed: Int[Array, ""]
    ) -> tuple[TrainState, Array, int]:
        """One iteration."""
        return *self._call(state, prepared, seed), 1

    def close(self) -> None:
        """End the thread that reads ahead."""
        self._feeder.close()


class LiveDispatcher:
    """One iteration per dispatch, its replay rows drawn from the memory as it is.

    Costs one synchronous read per iteration: the host learns the rows when the iteration before has
    ended, and the device is idle until it has assembled them, which counts as waiting for data.
    With the data in device memory (`DeviceDispatcher`) nobody waits.
    """

    def __init__(self, spec: RunSpec, shardings: PyTree, mesh: Mesh):
        assert spec.draw is not None
        self._mesh, self._rows = mesh, spec.feed_rows
        self._feeds = cast(LiveFeeds, spec.feeds)
        self._draw = jax.jit(spec.draw, out_shardings=replicated(mesh))
        self._call, self.traces = compile_step(spec.step, shardings, mesh)
        self.wait_seconds = 0.0

    def prepare(self, step: int, is_idle: Callable[[], bool]) -> int:
        """Nothing can be prepared."""
        del is_idle
        return step

    def dispatch(
        self, state: TrainState, prepared: int, seed: Int[Array, ""]
    ) -> tuple[TrainState, Array, int]:
        """One iteration."""
        drawn = jax.device_get(self._draw(state.memory, seed, state.step))
        began = time.perf_counter()
        read = self._feeds.with_replay(prepared, drawn)
        self.wait_seconds += time.perf_counter() - began
        feed, seconds = put_timed(read, self._mesh, self._rows, lambda: True)
        self.wait_seconds += seconds
        return *self._call(state, feed, seed), 1

    def close(self) -> None:
        """There is no thread."""


class DeviceDispatcher:
    """Many iterations per dispatch; the data lies on the device, and nothing is waited for."""

    wait_seconds = 0.0

    def __init__(self, spec: RunSpec, shardings: PyTree, mesh: Mesh):
        resident = spec.resident
        assert resident is not None
        due = range(0, spec.num_steps, spec.save_every)
        self._edges = sorted({*due, *spec.eval_steps, spec.num_steps})
        self._chunk = choose_chunk(self._edges, longest_chunk())
        self._data = put_data(resident.data, mesh)
        self._call, self.traces = compile_chunk(
            spec.step, resident.gather, resident.buckets, shardings, mesh, spec.draw
        )
        announce(f"residency device: {self._chunk} iterations per dispatch")

    def prepare(self, step: int, is_idle: Callable[[], bool]) -> int:
        """How many iterations the dispatch makes."""
        del is_idle
        return steps_from(step, self._edges, self._chunk)

    def dispatch(
        self, state: TrainState, prepared: int, seed: Int[Array, ""]
    ) -> tuple[TrainState, Array, int]:
        """`prepared` iterations."""
        return *self._call(state, self._data, seed, prepared), prepared

    def close(self) -> None:
        """There is no thread."""


def make_dispatcher(spec: RunSpec, shardings: PyTree, mesh: Mesh, start: int) -> Dispatcher:
    """The dispatcher of a run whose next iteration is `start`."""
    if spec.resident is not None:
        return DeviceDispatcher(spec, shardings, mesh)
    if spec.draw is not None:
        return LiveDispatcher(spec, shardings, mesh)
    return HostDispatcher(spec, shardings, mesh, start)
