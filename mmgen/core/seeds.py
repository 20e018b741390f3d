"""Several seeds of one run side by side in one program: what depends on the seed has a seed axis.

The seed says which it is: a scalar is a single run, a vector several. Of these the state has a
leading axis in every leaf, and a feed holds

- `stream` and `side` once, since the order of the stream does not depend on the seed,
- `replay` and `replay_slot` of all seeds, those of the first seed before those of the second,
- `insert_slot` int32[seeds, b].
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from mmgen.algorithms.base import Feed, Scalars
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState

PyTree = Any
KeyedStep = Callable[[TrainState, Feed, Int[Array, "*s"]], tuple[TrainState, Scalars]]

AXES: Any = Feed._make((None, 0, 0, 0, None))
"""Axis of the seeds in the stream, replay, insert_slot, replay_slot and side of a feed."""

SHARED = ("loss", "memory_fill")
"""Scalars of which the mean over the seeds is given as well, under their own names."""


def born(init: Callable[[Key[Array, ""]], PyTree], seed: Int[Array, "*s"]) -> PyTree:
    """What `init` makes of the seed's key, for one seed or several."""

    def one(seed: Int[Array, ""]) -> PyTree:
        return init(stream_key(seed, "init"))

    return one(seed) if seed.ndim == 0 else jax.vmap(one)(seed)


def for_each_seed(step: KeyedStep) -> KeyedStep:
    """`step` of a single run, and of several where `seed` is a vector.

    The scalars of seed number i are then called "seed<i>/<name>".
    """

    def either(state: TrainState, feed: Feed, seed: Int[Array, "*s"]) -> tuple[TrainState, Scalars]:
        if seed.ndim == 0:
            return step(state, feed, seed)
        count = len(seed)
        stacked = feed._replace(
            replay=_by_seed(feed.replay, count), replay_slot=_by_seed(feed.replay_slot, count)
        )
        state, scalars = jax.vmap(step, in_axes=(0, AXES, 0))(state, stacked, seed)
        means = {name: jnp.mean(scalars[name]) for name in SHARED if name in scalars}
        apart = {
            f"{seed_mark(index)}{name}": values[index]
            for name, values in scalars.items()
            for index in range(count)
        }
        return state, means | apart

    return either


def _by_seed(parts: Sequence[PyTree], count: int) -> tuple[PyTree, ...]:
    """Each draw with a leading seed axis, from the draws of all seeds in a row."""
    draws = len(parts) // count
    return tuple(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts[draw::draws])
        for draw in range(draws)
    )


def seed_mark(index: int) -> str:
    """What the names of scalars and metrics of seed number `index` contain."""
    return f"seed{index}/"
