"""Algorithms side by side: an iteration of each in turn, so that what slows the machine slows all.

Measured one after the other, two algorithms meet the machine in two states, and their ratio is off
by as much as these differ; in turns it is taken round by round.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from mmgen.benchmark.measure import WARM_UP
from mmgen.benchmark.record import table

LEAST_ROUNDS = 5


class Turn(NamedTuple):
    """Iterations of one case.

    Attributes:
      name: of the case.
      model: of the case.
      start: makes a first state; what it makes is donated.
      advance: makes an iteration: `state, values = advance(state)`.
    """

    name: str
    model: str
    start: Callable[[], Any]
    advance: Callable[[Any], tuple[Any, Array]]


def time_turns(turns: Sequence[Turn], *, group: int = 1, seconds: float = 5.0) -> dict[str, Any]:
    """Times the turns round by round; all their states are held at once.

    Args:
      group: iterations of a turn, see `measure.time_iterations`.
      seconds: of all rounds, at each of which every turn comes once; `LEAST_ROUNDS` at least.

    Returns:
      `first`: whose time is 1; `rounds`; and by name `ms`, the median of an iteration, and `times`,
      quartiles (.25, .5, .75) of an iteration's time over the first turn's in the same round.
    """
    states = [turn.start() for turn in turns]

    def once(place: int, iterations: int) -> float:
        began = time.perf_counter()
        for _ in range(iterations):
            states[place], values = turns[place].advance(states[place])
        values.block_until_ready()
        return (time.perf_counter() - began) / iterations

    places = range(len(turns))
    for place in places:
        once(place, WARM_UP)
    rounds: list[list[float]] = []
    began = time.perf_counter()
    while len(rounds) < LEAST_ROUNDS or time.perf_counter() - began < seconds:
        rounds.append([once(place, group) for place in places])
    found = np.array(rounds)
    times = np.quantile(found / found[:, :1], [0.25, 0.5, 0.75], axis=0)
    return {
        "first": turns[0].name,
        "rounds": len(rounds),
        "ms": {turns[i].name: 1e3 * float(np.median(found[:, i])) for i in places},
        "times": {turns[i].name: times[:, i].tolist() for i in places},
    }


def turn_table(results: Sequence[dict[str, Any]]) -> str:
    """A line per turn."""
    rows = [
        [name, result["ms"][name], median, f"{low:.2f} to {high:.2f}", result["rounds"]]
        for result in results
        for name, (low, median, high) in result["times"].items()
    ]
    return table(["in turns", "ms", "times the first", "quartiles", "rounds"], rows)
