"""Residency "device": the same iterations as from the host, and which dispatches it makes.

That batches gathered on the device are those of the host is in tests/data/test_tables.py.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmgen.core.compiled_step import compile_step
from mmgen.core.mesh import make_mesh, param_shardings, put_feed, put_replicated
from mmgen.core.resident import (
    Data,
    Resident,
    Schedule,
    choose_chunk,
    compile_chunk,
    make_schedule,
    put_data,
    steps_from,
)
from mmgen.core.rng import stream_key
from mmgen.errors import UserError
from mmgen.memory.plan import Plan
from tests.core import toy

CHUNK, EDGES = 6, (0, 8, toy.STEPS)
BUCKET = np.arange(toy.STEPS) % 3 % 2
"""Which of two padded shapes an iteration has."""
SHAPES = (1.0, 3.0)
"""The toy has nothing to pad: a factor on the targets stands for the shape."""


def gather(tables, rows, shape):
    mask, known = rows >= 0, jnp.maximum(rows, 0)
    x = jnp.where(mask[:, None], tables["x"][known], 0)
    return {"ids": rows, "mask": mask, "x": x, "y": shape * jnp.where(mask, tables["y"][known], 0)}


def resident_data():
    feeds = [toy.ToyFeeds()[step] for step in range(toy.STEPS)]
    stream = np.stack([feed.stream["ids"] for feed in feeds])
    plan = Plan(
        replay_ids=np.stack([feed.replay[0]["ids"] for feed in feeds]),
        replay_slot=np.stack([feed.replay_slot[0] for feed in feeds]),
        insert_slot=np.stack([feed.insert_slot for feed in feeds]),
    )
    tables = {name: np.concatenate([feed.stream[name] for feed in feeds]) for name in ("x", "y")}
    return Data(tables, make_schedule(stream, BUCKET, plan, (toy.BATCH,)))


def from_host(mesh, shardings, state, seed):
    compiled = compile_step(toy.step, shardings, mesh)
    scalars = []
    for step in range(toy.STEPS):
        feed = toy.ToyFeeds()[step]
        for batch in (feed.stream, *feed.replay):
            batch["y"] = np.float32(SHAPES[BUCKET[step]]) * batch["y"]
        state, values = compiled.call(state, put_feed(feed, mesh), seed)
        scalars.append(values)
    return jax.device_get((state, np.stack(scalars)))


def from_device(mesh, shardings, state, seed):
    compiled = compile_chunk(toy.step, gather, SHAPES, shardings, mesh)
    data, scalars, step = put_data(resident_data(), mesh), [], 0
    while step < toy.STEPS:
        count = steps_from(step, EDGES, CHUNK)
        state, values = compiled.call(state, data, seed, count)
        step += count
        scalars.append(values)
    assert len(compiled.traces) == 2, "one program for chunks, one for single iterations"
    return jax.device_get((state, np.concatenate(scalars)))


def test_device_equals_host():
    mesh = make_mesh(1)
    seed = put_replicated(np.uint32(3), mesh)
    shardings = param_shardings(jax.eval_shape(toy.init, stream_key(3, "init")), mesh)
    runs = [
        run(mesh, shardings, jax.device_put(toy.init(stream_key(3, "init")), shardings), seed)
        for run in (from_host, from_device)
    ]
    np.testing.assert_array_equal(runs[0][0].memory.ids, runs[1][0].memory.ids)
    for host, device in zip(*map(jax.tree.leaves, runs), strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-4)


def resident():
    return Resident(resident_data(), gather, SHAPES[:1])


RUN = {"eval_steps": (10, toy.STEPS), "save_every": 5, "log_every": 3}


def test_a_run_is_the_same_from_the_device(tmp_path):
    host = toy.toy_train(tmp_path / "host", **RUN)
    device = toy.toy_train(tmp_path / "device", **RUN, resident=resident())
    assert host.timing["programs"] == device.timing["programs"] == 1
    assert device.timing["data_wait_share"] == 0
    traces = [toy.traces(tmp_path / name) for name in ("host", "device")]
    for ours, theirs in zip(traces[1]["metrics"], traces[0]["metrics"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    theirs = toy.host_state(host)
    for name, value in toy.host_state(device).items():
        np.testing.assert_allclose(value, theirs[name], rtol=1e-4, err_msg=name)


def test_a_broken_run_goes_on_bit_equal(tmp_path):
    def fail(place, number):
        if (place, number) == ("evaluate", 10):
            raise RuntimeError("broken off")

    toy.toy_train(tmp_path / "whole", **RUN, resident=resident())
    with pytest.raises(RuntimeError, match="broken off"):
        toy.toy_train(tmp_path / "broken", fail, **RUN, resident=resident())
    result = toy.toy_train(tmp_path / "broken", **RUN, resident=resident())
    assert result.timing["steps"] == toy.STEPS - 5
    assert toy.traces(tmp_path / "broken") == toy.traces(tmp_path / "whole")


def test_a_loss_that_is_not_finite_is_found_inside_a_chunk(tmp_path):
    data = resident_data()
    data.tables["y"][12 * toy.BATCH] = np.inf
    broken = resident()._replace(data=data)
    with pytest.raises(UserError, match="step 13"):
        toy.toy_train(tmp_path, **RUN, resident=broken)


@pytest.mark.parametrize("stats", [(1000, 0), (10**9, 10**9 - 1000)])
def test_data_larger_than_the_room_on_the_device_is_refused(stats):

    class Small:
        def memory_stats(self):
            return dict(zip(("bytes_limit", "bytes_in_use"), stats, strict=True))

    class OneSmall:
        local_devices = (Small(),)

    with pytest.raises(UserError, match=r"device memory.*residency='host'"):
        put_data(resident_data(), OneSmall())


def test_schedule_splits_the_draws():
    ids = np.arange(10).reshape(2, 5)
    plan = Plan(replay_ids=ids, replay_slot=ids + 100, insert_slot=ids[:, :3])
    schedule = make_schedule(ids[:, :3], np.zeros(2, np.int8), plan, (3, 2))
    assert [rows.tolist() for rows in schedule.replay] == [[[0, 1, 2], [5, 6, 7]], [[3, 4], [8, 9]]]
    assert schedule.replay_slot[1].tolist() == [[103, 104], [108, 109]]
    without = make_schedule(ids, np.zeros(2, np.int8), None, ())
    assert without == Schedule(without.stream, (), (), (), without.bucket)


@st.composite
def edges(draw):
    distances = draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    return [0, *itertools.accumulate(distances)]


@settings(deadline=None)
@given(edges=edges(), chunk=st.integers(1, 12))
def test_dispatches_end_at_every_edge_and_are_few(edges, chunk):
    step, starts = 0, []
    while step < edges[-1]:
        starts.append(step)
        step += steps_from(step, edges, chunk)
    assert set(edges[:-1]) <= set(starts) and step == edges[-1]
    assert len(starts) == sum(d // chunk + d % chunk for d in np.diff(edges))


@pytest.mark.parametrize(
    ("edges", "chunk"),
    [
        (range(0, 1001, 125), 25),  # one program; two would need fewer dispatches
        ([0, 50, 100], 50),
        ([0, 10], 10),
        ([0, 1997, 4000, 8000, 19_966], 83),  # no divisor: single iterations lead up to the edges
    ],
)
def test_chunk(edges, chunk):
    assert choose_chunk(edges) == chunk
