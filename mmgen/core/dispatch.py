"""How the loop makes iterations: one per dispatch from the host, or chunks from device memory."""

import time
from typing import Any, Protocol, cast

import jax
from jax.sharding import Mesh
from jaxtyping import Array, Int

from mmgen.core.announce import announce
from mmgen.core.compiled_step import Trace, compile_step
from mmgen.core.feeding import Feeder, LiveFeeds
from mmgen.core.mesh import put_feed, replicated
from mmgen.core.resident import choose_chunk, compile_chunk, longest_chunk, put_data, steps_from
from mmgen.core.run_spec import RunSpec
from mmgen.core.state import TrainState
from mmgen.core.waiting import WaitClock

PyTree = Any


class Dispatcher(Protocol):
    """Makes iterations.

    Attributes:
      traces: one entry per compiled program; the last names the scalars.
      clock: of the time in which no iteration was running because its batch was not there; None
        if nothing can be waited for.
    """

    traces: list[Trace]

    @property
    def clock(self) -> WaitClock | None:
        """See above."""

    def prepare(self, step: int) -> Any:
        """What the iterations from `step` on read, on the device."""

    def dispatch(
        self, state: TrainState, prepared: Any, seed: Int[Array, ""]
    ) -> tuple[TrainState, Array, int]:
        """The new state, scalars float32[n] or float32[count, n], and `count`."""

    def close(self) -> None:
        """End the threads behind it."""


class HostDispatcher:
    """One iteration per dispatch; batches are read ahead on the host."""

    def __init__(self, spec: RunSpec, shardings: PyTree, mesh: Mesh, start: int):
        self._mesh, self._rows = mesh, spec.feed_rows
        self._call, self.traces = compile_step(spec.step, shardings, mesh)
        self._feeder = Feeder(spec.feeds, start, spec.num_steps)
        self.clock = WaitClock()

    def prepare(self, step: int) -> Any:
        """The next feed."""
        del step
        began = time.perf_counter()
        feed = put_feed(self._feeder.next(), self._mesh, self._rows)
        self.clock.placed(feed, began)
        return feed

    def dispatch(
        self, state: TrainState, prepared: Any, seed: Int[Array, ""]
    ) -> tuple[TrainState, Array, int]:
        """One iteration."""
        state, values = self._call(state, prepared, seed)
        self.clock.dispatched(values)
        return state, values, 1

    def close(self) -> None:
        """End the threads that read ahead and keep the clock."""
        self._feeder.close()
        self.clock.close()


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
        self.clock = WaitClock()

    def prepare(self, step: int) -> int:
        """Nothing can be prepared."""
        return step

    def dispatch(
        self, state: TrainState, prepared: int, seed: Int[Array, ""]
    ) -> tuple[TrainState, Array, int]:
        """One iteration."""
        drawn = jax.device_get(self._draw(state.memory, seed, state.step))
        began = time.perf_counter()
        feed = put_feed(self._feeds.with_replay(prepared, drawn), self._mesh, self._rows)
        self.clock.placed(feed, began)
        state, values = self._call(state, feed, seed)
        self.clock.dispatched(values)
        return state, values, 1

    def close(self) -> None:
        """End the clock's thread."""
        self.clock.close()


class DeviceDispatcher:
    """Many iterations per dispatch; the data lies on the device, and nothing is waited for."""

    clock = None

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

    def prepare(self, step: int) -> int:
        """How many iterations the dispatch makes."""
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
