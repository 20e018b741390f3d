"""Several seeds side by side in one program against one: what a second and third seed cost.

Both make the same iterations of one algorithm, in turns.
"""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from mmgen.algorithms.base import Feed
from mmgen.benchmark.programs import Program, compile_ahead, compile_all
from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.subjects import Subject
from mmgen.benchmark.suite import Case
from mmgen.benchmark.turns import Turn, time_turns
from mmgen.core.compiled_step import compile_step
from mmgen.core.mesh import make_mesh, param_shardings, placed_shapes, put_feed, put_replicated
from mmgen.core.seeds import born
from mmgen.errors import UserError

SEEDS = 3
SIZE = "small"
"""As `config.model.size`: models so small that one seed leaves an accelerator idle."""


def compare_seeds(scale: Scale, count: int, case: Case) -> dict[str, Any]:
    """An iteration of `count` seeds over one of a single seed, in turns.

    Args:
      scale: whose `clock_seconds` is the time of a side.
      count: seeds that train side by side.

    Returns:
      As `turns.time_turns`: of 1 seed, whose time is 1, and of `count` seeds.

    Raises:
      UserError: a program is not compiled within `scale.compile_seconds`.
    """
    subject = scale.subject(
        scale.clocked(),
        model=case.model,
        algorithm=case.algorithm,
        buckets=(scale.bucket,),
        **dict(case.settings),
    )
    mesh = make_mesh()
    sides = [_Side(case.name, subject, scale, mesh, number) for number in (1, count)]
    attempts = compile_all(
        {side.name: side.compile for side in sides},
        threads=scale.threads,
        seconds=scale.compile_seconds,
    )
    if attempts.failures:
        raise UserError(f"{case.name} cannot be timed: {attempts.failures}")
    turns = [side.turn(case.model, attempts.programs[side.name]) for side in sides]
    return time_turns(turns, group=scale.group, seconds=len(sides) * scale.clock_seconds)


def seeds(record: Record, scale: Scale) -> None:
    """A stage of the accelerator check: ER on VLBERT, `SEEDS` seeds against one."""
    small = dataclasses.replace(scale, size=SIZE if scale.size == "paper" else scale.size)
    record.append("seeds", compare_seeds(small, SEEDS, Case("vlbert", "er", small.batch_size, 0)))


class _Side:
    """One seed, or several: the arguments of its step."""

    def __init__(self, name: str, subject: Subject, scale: Scale, mesh: Mesh, count: int):
        self.name = f"{name}, {count} {'seeds' if count > 1 else 'seed'}"
        self._step, self._mesh = subject.algorithm.step, mesh
        numbers = np.arange(count, dtype=np.uint32) if count > 1 else np.uint32(0)
        self._seed = put_replicated(numbers, mesh)
        self._born = functools.partial(born, subject.init)
        self._shapes = jax.eval_shape(self._born, self._seed)
        self._shardings = param_shardings(self._shapes, mesh)
        self._feed = put_feed(_for_seeds(subject.feed_at(subject.buckets[0]), count), mesh)

    def compile(self) -> Program:
        """The step."""
        call = compile_step(self._step, self._shardings, self._mesh).call
        return compile_ahead(
            call, placed_shapes(self._shapes, self._shardings), self._feed, self._seed
        )

    def turn(self, model: str, program: Program) -> Turn:
        """The compiled step as a turn."""
        start = jax.jit(self._born, out_shardings=self._shardings)
        return Turn(
            self.name,
            model,
            lambda: start(self._seed),
            lambda state: program.call(state, self._feed, self._seed),
        )


def _for_seeds(feed: Feed, count: int) -> Feed:
    """The feed of `count` seeds, see `core.seeds`: each replays and stores the same."""
    if count == 1:
        return feed
    return feed._replace(
        replay=feed.replay * count,
        insert_slot=jax.tree.map(lambda slots: np.stack([slots] * count), feed.insert_slot),
        replay_slot=feed.replay_slot * count,
    )
