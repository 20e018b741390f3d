"""Any mesh gives the same run; rules split what they name and what divides."""

import json
import shutil

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from mmgen.algorithms.base import Feed
from mmgen.core.mesh import (
    batch_sharding,
    born_sharded,
    local_rows,
    make_mesh,
    param_shardings,
    put_feed,
)
from mmgen.errors import UserError

from . import children, toy


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory):
    """State and metrics of the toy on one device."""
    path = tmp_path_factory.mktemp("one")
    result = toy.toy_train(path)
    return toy.host_state(result), toy.traces(path)["metrics"]


def assert_like(path, on_one_device):
    """Equal but for rounding; memory and steps exactly."""
    expected, expected_lines = on_one_device
    for name, value in children.saved_state(path).items():
        if np.issubdtype(value.dtype, np.integer):
            np.testing.assert_array_equal(value, expected[name], err_msg=name)
        else:
            np.testing.assert_allclose(value, expected[name], 1e-4, 1e-6, err_msg=name)
    lines = toy.traces(path)["metrics"]
    assert [line["step"] for line in lines] == [line["step"] for line in expected_lines]
    for line, wanted in zip(lines, expected_lines, strict=True):
        np.testing.assert_allclose(list(line.values()), list(wanted.values()), rtol=1e-3)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (2, 2, 2)])
def test_eight_devices_train_like_one(tmp_path, on_one_device, sizes):
    assert children.run(children.train_on, str(tmp_path), sizes) == 0
    assert_like(tmp_path, on_one_device)
    layout = json.loads((tmp_path / "layout.json").read_text())
    shards = 8 if sizes == (0, 1, 1) else 4
    assert layout["8"][2] == 8 // shards
    # Six examples cannot be split into four or eight parts: every device has all.
    assert layout["6"][1:] == [8, 6]
    assert layout["bias"][1:] == [8, 1]
    # The kernel is [4, 1]: its rows are split over fsdp, its column cannot be.
    assert layout["kernel"][1:] == [8, 4 if sizes == (0, 1, 1) else 2]


def together(path, count=2, stop_at=-1):
    """Exit statuses of so many processes that train the toy together."""
    port = children.free_port()
    started = [
        children.start(children.train_together, str(path), index, count, port, stop_at)
        for index in range(count)
    ]
    return [children.status(process) for process in started]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A workdir in which two processes have been told to stop between two of their checkpoints."""
    path = tmp_path_factory.mktemp("stopped")
    assert together(path, stop_at=11) == [0, 0]
    return path


def test_two_processes_stop_together(stopped):
    outcomes = [json.loads((stopped / f"outcome{i}.json").read_text()) for i in (0, 1)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["stopped"]
    assert 11 - 3 <= outcomes[0]["step"] < toy.STEPS


def test_four_processes_train_like_one(tmp_path, on_one_device):
    assert together(tmp_path, 4) == [0] * 4
    assert_like(tmp_path, on_one_device)


@pytest.mark.parametrize("count", [2, 4])
def test_what_two_processes_have_saved_others_finish(tmp_path, stopped, on_one_device, count):
    path = shutil.copytree(stopped, tmp_path / "run")
    assert together(path, count) == [0] * count
    assert_like(path, on_one_device)
    done = json.loads((path / "outcome0.json").read_text())
    assert done == {"stopped": False, "step": toy.STEPS}


def test_one_process_finishes_what_two_have_saved(tmp_path, stopped, on_one_device, capsys):
    path = shutil.copytree(stopped, tmp_path / "run")
    saved = json.loads((path / "outcome0.json").read_text())["step"]
    alone = toy.toy_train(path)
    assert alone.timing["steps"] == toy.STEPS - saved > 0
    said = capsys.readouterr().err
    assert "not bit-equal" in said
    assert "processes was 2, is 1" in said
    np.savez(path / children.STATE, **toy.host_state(alone))
    assert_like(path, on_one_device)


class FakeMesh:
    """Sizes without devices, for what is decided by sizes alone."""

    shape = {"data": 2, "fsdp": 2, "tensor": 4}  # noqa: RUF012 (never changed)


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("params/mlp/kernel", (8, 12), ("fsdp", "tensor")),
        ("opt_state/0/mu/mlp/kernel", (8, 12), ("fsdp", "tensor")),
        ("params/layers/mlp/kernel", (6, 8, 12), (None, "fsdp", "tensor")),
        ("params/mlp/kernel", (7, 12), (None, "tensor")),
        ("params/mlp/kernel", (8, 10), ("fsdp",)),
        ("params/attention/out/kernel", (12, 8), ("tensor", "fsdp")),
        ("params/words/embedding", (30600, 384), ("tensor", "fsdp")),
        ("params/words/embedding", (30522, 384), (None, "fsdp")),
        ("params/norm/scale", (8,), ()),
        ("params/odd/kernel", (12,), ("tensor",)),
        ("memory/ids", (10000,), ()),
    ],
)
def test_rules_split_the_last_dimensions_where_they_divide(name, shape, expected):
    from mmgen.core.mesh import DEFAULT_RULES, _spec

    assert _spec(name, shape, FakeMesh, DEFAULT_RULES) == PartitionSpec(*expected)


@pytest.mark.parametrize("sizes", [(3, 1, 1), (0, 2, 1), (1, 1, 0)])
def test_sizes_that_do_not_fit_the_machine_are_named(sizes):
    with pytest.raises(UserError, match="mesh"):
        make_mesh(*sizes)


def test_a_state_is_born_where_it_belongs():
    mesh = make_mesh()
    state = born_sharded(toy.init, mesh)(jax.random.key(0))
    shardings = param_shardings(state, mesh)
    jax.tree.map(lambda leaf, sharding: leaf.sharding == sharding or 1 / 0, state, shardings)


def test_a_feed_arrives_as_it_was():
    mesh = make_mesh()
    feed = toy.ToyFeeds()[3]
    with jax.transfer_guard("disallow"):
        placed = put_feed(feed, mesh)
    assert placed.stream["x"].sharding == batch_sharding(mesh)
    jax.tree.map(np.testing.assert_array_equal, feed, placed)
    assert put_feed(Feed(feed.stream), mesh).insert_slot == ()
    np.testing.assert_array_equal(local_rows(5, mesh), np.arange(5))
