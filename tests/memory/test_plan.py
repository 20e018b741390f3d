"""The plan says what the device will do: same draws, same slots, same memory."""

import functools
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmgen.core.rng import stream_key
from mmgen.errors import UserError
from mmgen.memory.plan import draw_slots, insert_key, make_plan, memory_at
from mmgen.memory.reservoir import make_reservoir

ROWS = np.random.default_rng(0).permutation(24).astype(np.int32).reshape(4, 6)
ROWS[-1, 4:] = -1
DRAWS = (4, 3)
MEMORY = make_reservoir(9)


@pytest.fixture(scope="module")
def plan():
    return make_plan(MEMORY, ROWS, DRAWS, seed=5)


def test_plan_is_what_one_iteration_after_another_does(plan):
    """Draw, then insert, eagerly: draws of iteration t see the inserts up to t - 1."""
    state = MEMORY.init()
    for step, rows in enumerate(jnp.asarray(ROWS)):
        drawn = jnp.concatenate(draw_slots(MEMORY, state, 5, step, DRAWS))
        held = np.append(np.asarray(state.ids), -1)
        assert plan.replay_slot[step].tolist() == drawn.tolist()
        assert plan.replay_ids[step].tolist() == held[drawn].tolist()
        slots = MEMORY.slots(state, insert_key(5), rows, rows >= 0, ())
        assert plan.insert_slot[step].tolist() == slots.tolist()
        state = MEMORY.insert(state, rows, rows >= 0, slots, ())
        reached = memory_at(plan, MEMORY, ROWS, step + 1)
        assert reached.ids.tolist() == state.ids.tolist()
        assert int(reached.seen) == int(state.seen)


def test_first_iteration_replays_nothing(plan):
    assert (plan.replay_ids[0] == -1).all() and (plan.replay_slot[0] == 9).all()
    assert set(plan.replay_ids[1]) <= set(ROWS[0].tolist())
    assert memory_at(plan, MEMORY, ROWS, 0).ids.tolist() == [-1] * 9


def test_types_and_shapes(plan):
    assert [part.shape for part in plan] == [(4, 7), (4, 7), (4, 6)]
    assert all(isinstance(part, np.ndarray) and part.dtype == np.int32 for part in plan)


def test_no_draws(plan):
    bare = make_plan(MEMORY, ROWS, (), seed=5)
    assert bare.replay_ids.shape == (4, 0)
    assert np.array_equal(bare.insert_slot, plan.insert_slot)


def test_memory_does_not_depend_on_the_batch_size(plan):
    ids = ROWS[ROWS >= 0]
    small = np.full((12, 2), -1, np.int32)
    small.ravel()[: len(ids)] = ids
    other = make_plan(MEMORY, small, (), seed=5)
    reached = memory_at(other, MEMORY, small, 12)
    assert np.array_equal(reached.ids, memory_at(plan, MEMORY, ROWS, 4).ids)


def test_seeds_give_other_draws(plan):
    assert not np.array_equal(make_plan(MEMORY, ROWS, DRAWS, 6).replay_ids, plan.replay_ids)


def test_draw_keys_are_the_documented_ones(plan):
    key = jax.random.fold_in(stream_key(5, "memory/draw", 3), 1)
    state = memory_at(plan, MEMORY, ROWS, 3)
    assert MEMORY.sample(state, key, 3).tolist() == plan.replay_slot[3, 4:].tolist()


def test_second_epoch_is_refused():
    rows = np.array([[3, 1], [2, -1], [1, -1]], np.int32)
    with pytest.raises(UserError, match="reads row 1 more than once"):
        make_plan(MEMORY, rows, (), 0)


def test_unplanned_policy_is_refused():
    with pytest.raises(ValueError, match="no plan"):
        make_plan(MEMORY._replace(planned=False), ROWS, (), 0)


EIGHT_DEVICES = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from mmgen.memory.plan import insert_key, make_plan
from mmgen.memory.reservoir import make_reservoir
assert jax.device_count() == 8
rows = np.random.default_rng(0).permutation(64).astype(np.int32).reshape(4, 16)
memory = make_reservoir(16)
plan = make_plan(memory, rows, (8,), 2)
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
split, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
@jax.jit
def step(state, ids):
    slots = memory.slots(state, insert_key(2), ids, ids >= 0, ())
    return memory.insert(state, ids, ids >= 0, slots, ())
for sharding in (whole, split):
    state = jax.device_put(memory.init(), whole)
    state = state.replace(ids=jax.device_put(state.ids, sharding))
    for ids in rows:
        state = step(state, jax.device_put(ids, split))
    print(np.asarray(state.ids).tolist())
print(plan.replay_ids.tolist())
"""


def test_eight_devices_equal_one():
    """In another process: slots and inserts of sharded batches, into a whole or sharded memory."""
    rows = np.random.default_rng(0).permutation(64).astype(np.int32).reshape(4, 16)
    memory = make_reservoir(16)
    plan = make_plan(memory, rows, (8,), 2)
    ids = memory_at(plan, memory, rows, 4).ids.tolist()
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PYTHONPATH": str(pathlib.Path(__file__).parents[2]),
    }
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=False)
    done = run([sys.executable, "-c", EIGHT_DEVICES], env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == [str(ids), str(ids), str(plan.replay_ids.tolist())]
