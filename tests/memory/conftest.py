"""Helpers of the memory tests."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmgen.memory.plan import insert_key


def _run_stream(memory, rows, seed, side=()):
    """Memory after the batches `rows` [steps, b] (negative = padded), one scan."""
    key = insert_key(seed)

    def iteration(state, inputs):
        ids, side = inputs
        mask = ids >= 0
        slots = memory.slots(state, key, ids, mask, side)
        return memory.insert(state, ids, mask, slots, side), slots

    return jax.lax.scan(iteration, memory.init(), (rows, side))


@pytest.fixture(scope="session")
def run_stream():
    """Jitted `(memory, rows, seed, side) -> (state, slots [steps, b])`."""
    return functools.partial(jax.jit, static_argnums=0)(_run_stream)


@pytest.fixture(scope="session")
def eager_stream():
    """The same without jit, one call per batch."""

    def run(memory, rows, seed, side=()):
        state, slots = memory.init(), []
        for index, ids in enumerate(jnp.asarray(rows)):
            mask = ids >= 0
            here = jax.tree.map(lambda column, i=index: column[i], side)
            slots.append(memory.slots(state, insert_key(seed), ids, mask, here))
            state = memory.insert(state, ids, mask, slots[-1], here)
        return state, np.stack(slots)

    return run


def _batches(ids, b):
    """`ids` in batches of b, the last one padded with -1."""
    steps = -(-len(ids) // b)
    rows = np.full(steps * b, -1, np.int32)
    rows[: len(ids)] = ids
    return rows.reshape(steps, b)


@pytest.fixture(scope="session")
def batches():
    """`(ids, b) -> rows [steps, b]` padded with -1."""
    return _batches
