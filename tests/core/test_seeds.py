"""Seeds that train side by side are the runs that they would be alone."""

import jax
import numpy as np
import pytest

from mmgen.core.resident import Data, Resident, make_schedule
from mmgen.core.seed_writer import SeedWriter
from mmgen.memory.plan import Plan, join_plans

from . import toy
from .test_resident import SHAPES, gather

SEEDS = (3, 4, 5)


class OwnFeeds(toy.ToyFeeds):
    """The toy's feeds of one seed, which replays and stores its own rows."""

    def __init__(self, seed, hook=toy.no_hook):
        super().__init__(hook)
        self.seed = seed

    def __getitem__(self, step):
        feed = super().__getitem__(step)
        replayed = feed.stream["ids"] - self.seed * toy.BATCH
        slots = ((feed.insert_slot + self.seed) % toy.CAPACITY).astype(np.int32)
        return feed._replace(
            replay=(self._batch(np.maximum(replayed, -1)),), insert_slot=slots, replay_slot=(slots,)
        )


class JoinedFeeds:
    """Those of all seeds, as `core.seeds` has them."""

    def __init__(self, hook=toy.no_hook):
        self.own = [OwnFeeds(seed, hook) for seed in SEEDS]

    def __getitem__(self, step):
        feeds = [own[step] for own in self.own]
        return feeds[0]._replace(
            replay=sum((feed.replay for feed in feeds), ()),
            insert_slot=np.stack([feed.insert_slot for feed in feeds]),
            replay_slot=sum((feed.replay_slot for feed in feeds), ()),
        )


def together(path, hook=toy.no_hook, **changes):
    def evaluate(params, number, final):
        hook("evaluate", number)
        return {f"seed{i}/norm": float(np.abs(leaf).sum()) for i, leaf in enumerate(kernel(params))}

    spec = {"seed": SEEDS, "feeds": JoinedFeeds(hook), "evaluate": evaluate, "memory_at": None}
    spec["feed_rows"] = (toy.BATCH,) * (1 + len(SEEDS))
    return toy.toy_train(path, hook, **spec | changes)


def kernel(params):
    return np.asarray(params["dense"]["kernel"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """State and metrics of each seed that trained alone."""
    runs = []
    for seed in SEEDS:
        path = tmp_path_factory.mktemp("alone")
        result = toy.toy_train(path, seed=seed, feeds=OwnFeeds(seed), memory_at=None)
        runs.append((toy.host_state(result), toy.traces(path)["metrics"]))
    assert len({state[".params['dense']['bias']"][0].item() for state, _ in runs}) == len(SEEDS)
    return runs


def resident():
    plans = []
    for seed in SEEDS:
        feeds = [OwnFeeds(seed)[step] for step in range(toy.STEPS)]
        plans.append(
            Plan(
                replay_ids=np.stack([feed.replay[0]["ids"] for feed in feeds]),
                replay_slot=np.stack([feed.replay_slot[0] for feed in feeds]),
                insert_slot=np.stack([feed.insert_slot for feed in feeds]),
            )
        )
    streams = [feed.stream for feed in feeds]
    tables = {name: np.concatenate([stream[name] for stream in streams]) for name in ("x", "y")}
    rows = np.stack([stream["ids"] for stream in streams])
    draws = (toy.BATCH,) * len(SEEDS)
    schedule = make_schedule(rows, np.zeros(toy.STEPS, int), join_plans(plans), draws)
    return Resident(Data(tables, schedule), gather, SHAPES[:1])


@pytest.mark.parametrize("residency", ["host", "device"])
def test_each_seed_is_its_single_run(tmp_path, alone, residency):
    data = resident() if residency == "device" else None
    state = toy.host_state(together(tmp_path, resident=data))
    lines = [line for line in toy.traces(tmp_path)["metrics"] if "train/loss" in line]
    for index, (expected, expected_lines) in enumerate(alone):
        for name, values in expected.items():
            np.testing.assert_allclose(state[name][index], values, 1e-4, 1e-6, err_msg=name)
        np.testing.assert_array_equal(state[".memory.ids"][index], expected[".memory.ids"])
        single = [line for line in expected_lines if "train/loss" in line]
        for name in ("loss", "replay_loss", "memory_fill"):
            np.testing.assert_allclose(
                [line[f"train/seed{index}/{name}"] for line in lines],
                [line[f"train/{name}"] for line in single],
                rtol=1e-4,
            )
    losses = [[line[f"train/seed{i}/loss"] for i in range(len(SEEDS))] for line in lines]
    np.testing.assert_allclose([line["train/loss"] for line in lines], np.mean(losses, 1), 1e-5)


def test_a_broken_run_goes_on_bit_equal(tmp_path):
    def fail(place, number):
        if (place, number) == ("evaluate", 14):
            raise RuntimeError("broken off")

    whole = together(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="broken off"):
        together(tmp_path / "broken", fail)
    again = together(tmp_path / "broken")
    assert 0 < again.timing["steps"] < toy.STEPS
    for ours, theirs in zip(
        jax.tree.leaves(again.state), jax.tree.leaves(whole.state), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert toy.traces(tmp_path / "broken") == toy.traces(tmp_path / "whole")


def test_the_memory_of_every_seed_is_checked_against_its_plan(tmp_path):
    def expected(step):
        state = toy.memory_at(step)
        return state.replace(ids=np.stack([state.ids] * 3), seen=np.stack([state.seen] * 3))

    together(tmp_path)
    with pytest.raises(Exception, match=r"memory\.ids differs"):
        together(tmp_path, memory_at=expected)


def test_every_seed_gets_its_own_lines():
    class Kept:
        def __init__(self):
            self.lines = []

        def scalars(self, step, values):
            self.lines.append((step, values))

    writers = [Kept() for _ in range(12)]
    values = {f"train/seed{i}/loss": float(i) for i in range(12)}
    SeedWriter(writers).scalars(4, values | {"train/loss": 5.5, "time/x": 1.0})
    for index, writer in enumerate(writers):
        assert writer.lines == [(4, {"train/loss": float(index), "time/x": 1.0})]
