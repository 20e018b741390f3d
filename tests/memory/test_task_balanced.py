"""Every task gets its share of the memory, and keeps a uniform sample of its own examples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from mmgen.errors import UserError
from mmgen.memory.plan import insert_key, make_plan, memory_at
from mmgen.memory.task_balanced import TRIES, make_task_balanced

TASKS, CAPACITY, N = 3, 7, 33
MEMORY = make_task_balanced(CAPACITY, TASKS)
# Task 0 first and often, then task 1, at last three examples of task 2.
TASK = np.array([0] * 18 + [1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1] + [2, 1, 2], np.int32)


def slow_task_balanced(tasks, seed):
    """One example at a time, on a plain list; the same random numbers."""
    memory, offered = [], [0] * TASKS
    for n, task in enumerate(tasks):
        offered[task] += 1
        if n < CAPACITY:
            memory.append(n)
            continue
        stored = [sum(tasks[row] == t for row in memory) for t in range(TASKS)]
        accept_key, slot_key = jax.random.split(jax.random.fold_in(insert_key(seed), n))
        full = stored[task] >= max(stored) - 1
        drawn = int(jax.random.randint(accept_key, (), 0, offered[task]))
        if full and drawn >= stored[task]:
            continue
        leaves = task if full else stored.index(max(stored))
        tried = jax.random.randint(jax.random.fold_in(slot_key, 0), (TRIES,), 0, CAPACITY)
        memory[next(int(s) for s in tried if tasks[memory[int(s)]] == leaves)] = n
    return memory


ROWS = np.full(35, -1, np.int32)
ROWS[:N] = np.arange(N)
ROWS = ROWS.reshape(7, 5)
RUNS = 1500


@pytest.fixture(scope="module")
def runs(run_stream):
    """State and slots of RUNS seeds, batches of five and the last one padded."""
    side = TASK[np.maximum(ROWS, 0)]
    states, slots = jax.vmap(lambda s: run_stream(MEMORY, ROWS, s, side))(jnp.arange(RUNS))
    return jax.tree.map(np.asarray, states), np.asarray(slots)


@pytest.mark.parametrize("seed", [0, 4])
def test_follows_the_slow_copy(runs, seed):
    """Which takes one example at a time: the memory does not depend on the batch size."""
    state, slots = jax.tree.map(lambda part: part[seed], runs)
    assert state.ids.tolist() == slow_task_balanced(TASK.tolist(), seed)
    assert state.payload["task"].tolist() == TASK[state.ids].tolist()
    assert state.payload["stored"].tolist() == np.bincount(TASK[state.ids]).tolist()
    assert state.payload["offered"].tolist() == np.bincount(TASK).tolist()
    for used in slots:
        stored = used[used < CAPACITY]
        assert len(set(stored)) == len(stored)


def test_tasks_get_equal_shares(runs):
    stored = runs[0].payload["stored"]
    assert (stored.sum(1) == CAPACITY).all()
    assert (stored[:, 2] == 2).all(), "all there are"
    assert (np.abs(stored[:, 0] - stored[:, 1]) <= 1).all()


def test_each_task_keeps_a_uniform_sample(runs):
    kept = np.bincount(runs[0].ids.ravel(), minlength=N)
    for task in (0, 1):
        own = kept[task == TASK]
        share = own.mean() / RUNS
        statistic = np.sum((own - own.mean()) ** 2) / (RUNS * share * (1 - share))
        assert chi2.sf(statistic, len(own) - 1) > 1e-5


def test_plan_takes_the_task_of_every_row(runs):
    """Rows of the split are not in stream order: the plan looks their tasks up."""
    order = np.random.default_rng(0).permutation(N).astype(np.int32)
    rows = np.where(ROWS < 0, -1, order[np.maximum(ROWS, 0)])
    task_of_row = np.zeros(N, np.int32)
    task_of_row[order] = TASK
    plan = make_plan(MEMORY, rows, (3,), 9, task_of_row)
    assert np.array_equal(plan.insert_slot, runs[1][9])
    reached = memory_at(plan, MEMORY, rows, len(rows), task_of_row)
    assert reached.ids.tolist() == order[runs[0].ids[9]].tolist()
    for name, value in reached.payload.items():
        assert np.array_equal(value, runs[0].payload[name][9])


def test_fewer_slots_than_tasks_are_refused():
    with pytest.raises(UserError, match="is 2, fewer slots than the 3 tasks"):
        make_task_balanced(2, 3)
