"""The loop's order, what it refuses to save, and what it must not do on the way."""

import errno
import itertools
import json
import os
import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from mmgen.core.checkpoint import Checkpointer
from mmgen.core.control import make_control
from mmgen.core.optim import learning_rate_scale
from mmgen.core.reading import LateReader
from mmgen.core.writers import read_metrics
from mmgen.errors import UserError

from . import toy


def steps_saved(path):
    """Steps of the finished checkpoints."""
    return sorted(int(p.name) for p in (path / "checkpoints").iterdir() if p.name.isdigit())


def test_evaluates_then_saves_then_steps_and_the_last_step_counts(tmp_path, monkeypatch):
    events = []
    save = Checkpointer.save

    def noted_save(self, step, *args, **kwargs):
        events.append(("save", step))
        save(self, step, *args, **kwargs)

    monkeypatch.setattr(Checkpointer, "save", noted_save)
    result = toy.toy_train(
        tmp_path, lambda *at: events.append(at), eval_steps=(0, 5, 7), save_every=5, keep=3
    )
    order = [event for event in events if event[0] != "feed"]
    assert order == [
        *[("evaluate", 0), ("evaluate", 5), ("save", 5), ("evaluate", 7), ("save", 10)],
        *[("save", 15), ("evaluate", 20), ("save", 20)],
    ]
    assert [number for place, number in events if place == "feed"] == list(range(toy.STEPS))
    assert steps_saved(tmp_path) == [10, 15, 20]
    assert result.metrics["test/final"] == 1
    assert int(result.state.step) == toy.STEPS


def test_a_finished_run_does_nothing_again_and_gives_the_same_answer(tmp_path):
    first = toy.toy_train(tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    events = []
    again = toy.toy_train(tmp_path, lambda *at: events.append(at))
    assert events == []
    assert again.metrics == first.metrics
    assert again.timing["steps"] == 0
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_lost_records_of_the_last_evaluation_are_made_again(tmp_path):
    toy.toy_train(tmp_path)
    record = tmp_path / "evals" / "all" / "20.json"
    before, lines = record.read_bytes(), (tmp_path / "metrics.jsonl").read_bytes()
    record.unlink()
    toy.toy_train(tmp_path, is_missing=lambda step, final: not record.exists())
    assert record.read_bytes() == before
    assert (tmp_path / "metrics.jsonl").read_bytes() == lines


@pytest.mark.parametrize("broken_step", [0, 9, 19])
def test_a_loss_that_is_not_finite_stops_and_names_step_and_examples(tmp_path, broken_step):
    with pytest.raises(UserError) as caught:
        toy.toy_train(tmp_path, feeds=toy.ToyFeeds(broken_step=broken_step))
    sentence = str(caught.value)
    first = broken_step * toy.BATCH
    assert f"the loss is inf at step {broken_step + 1}," in sentence
    assert f"stream: {', '.join(map(str, range(first, first + toy.BATCH)))};" in sentence
    good = [step for step in (5, 10, 15) if step <= broken_step]
    assert steps_saved(tmp_path) == good[-2:]
    assert (f"checkpoint of step {good[-1]}" if good else "no checkpoint") in sentence
    assert all(line["step"] <= broken_step for line in read_metrics(toy.Workdir(tmp_path)))


def test_saving_waits_for_the_losses_that_nobody_has_read_yet(tmp_path, monkeypatch):
    monkeypatch.setattr(LateReader, "poll", lambda self: None)
    with pytest.raises(UserError, match="the loss is inf at step 7,"):
        toy.toy_train(tmp_path, feeds=toy.ToyFeeds(broken_step=6), eval_steps=())
    assert steps_saved(tmp_path) == [5]


def test_parameters_that_are_not_finite_are_not_saved_though_every_loss_was(tmp_path):
    def step(state, feed, key):
        state, scalars = toy.step(state, feed, key)
        bad = jnp.where(state.step == 10, jnp.nan, 0.0)
        return state.replace(params=jax.tree.map(lambda p: p + bad, state.params)), scalars

    with pytest.raises(UserError, match=r"params/dense/\w+ is not finite at step 10"):
        toy.toy_train(tmp_path, step=step)
    assert steps_saved(tmp_path) == [5]


def test_compiles_once_and_the_seed_is_no_constant(tmp_path):
    traces = []

    def step(state, feed, key):
        traces.append(1)
        return toy.step(state, feed, key)

    result = toy.toy_train(tmp_path, step=step)
    assert result.timing["programs"] == 1
    # Once for the program; none of evaluating, saving or logging traces it again.
    assert len(traces) == 1
    assert result.timing["steps"] == toy.STEPS


def test_other_seeds_give_other_runs(tmp_path):
    ends = [toy.host_state(toy.toy_train(tmp_path / str(s), seed=s)) for s in (1, 2)]
    name = ".params['dense']['kernel']"
    assert not np.array_equal(ends[0][name], ends[1][name])


def test_nothing_is_copied_to_the_host_on_the_sly(tmp_path):
    def step(state, feed, key):
        del key
        return toy.step(state, feed, jax.random.key(0))

    class Feeds(toy.ToyFeeds):
        def __getitem__(self, number):
            feed = super().__getitem__(number)
            # A Python number in a feed would be copied at every step by every call.
            return feed._replace(stream={**feed.stream, "x": feed.stream["x"].tolist()})

    with pytest.raises(Exception, match="x"):
        toy.toy_train(tmp_path, step=step, feeds=Feeds())


def test_a_feed_that_cannot_be_made_says_so_where_it_is_needed(tmp_path):
    def hook(place, number):
        if (place, number) == ("feed", 12):
            raise UserError("features.npy is truncated; build it again.")

    with pytest.raises(UserError, match=r"features\.npy is truncated"):
        toy.toy_train(tmp_path, hook)
    assert steps_saved(tmp_path) == [5, 10]


def test_a_memory_of_another_stream_is_refused(tmp_path):
    toy.toy_train(tmp_path)

    def memory_at(step):
        state = toy.memory_at(step)
        return state.replace(ids=state.ids[::-1])

    with pytest.raises(UserError, match=r"memory in the checkpoint of step 20 .*memory\.ids"):
        toy.toy_train(tmp_path, memory_at=memory_at)


def test_other_facts_go_on_and_say_so(tmp_path, capsys):
    toy.toy_train(tmp_path, facts={"residency": "host"})
    toy.toy_train(tmp_path, facts={"residency": "host"})
    assert capsys.readouterr().err == ""
    toy.toy_train(tmp_path, facts={"residency": "device"})
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "not bit-equal: the run goes on" in said
    assert 'residency was "host", is "device"' in said


def test_another_kind_of_processor_goes_on_and_says_so(tmp_path, monkeypatch, capsys):
    toy.toy_train(tmp_path)
    monkeypatch.setattr("mmgen.core.facts.vector_units", lambda: "avx avx512f")
    toy.toy_train(tmp_path)
    assert 'is "avx avx512f"' in capsys.readouterr().err


def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on(tmp_path, monkeypatch):
    real = os.fsync

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="the disk is full") as caught:
        toy.toy_train(tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.rglob("*tmp*")) == []
    monkeypatch.setattr(os, "fsync", real)
    assert toy.toy_train(tmp_path).metrics["test/final"] == 1


def test_a_plateau_lowers_the_learning_rate_and_resuming_remembers(tmp_path):
    errors = dict.fromkeys(range(2, 21, 2), 4) | {2: 5}

    def run(path, **changes):
        return toy.toy_train(
            path,
            eval_steps=tuple(errors),
            evaluate=lambda params, step, final: {"error": errors[step]},
            control=make_control("error", factor=0.5, patience=1),
            **changes,
        )

    whole = run(tmp_path / "whole")
    assert learning_rate_scale(whole.state.opt_state) == 0.5**4

    def broken(place, number):
        if number == 12:
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off"):
        run(tmp_path / "broken", feeds=toy.ToyFeeds(broken))
    assert toy.traces(tmp_path / "broken") != toy.traces(tmp_path / "whole")
    again = run(tmp_path / "broken")
    assert toy.traces(tmp_path / "broken") == toy.traces(tmp_path / "whole")
    for name, value in toy.host_state(again).items():
        np.testing.assert_array_equal(value, toy.host_state(whole)[name])


def test_stopping_early_is_an_end_with_a_final_evaluation(tmp_path):
    spec = {"control": make_control("test/error", mode="max", stop_patience=0, threshold=1e9)}
    result = toy.toy_train(tmp_path, **spec)
    assert int(result.state.step) == 14
    assert result.metrics["test/final"] == 1
    assert (tmp_path / "evals" / "all" / "14.json").exists()
    again = toy.toy_train(tmp_path, **spec)
    assert again.timing["steps"] == 0
    assert again.metrics == result.metrics


def test_a_metric_that_nobody_gives_is_named(tmp_path):
    with pytest.raises(UserError, match=r"test/eror.*test/error"):
        toy.toy_train(tmp_path, control=make_control("test/eror"))


def test_the_best_checkpoint_is_kept_beside_the_newest(tmp_path):
    values = {7: 1.0, 14: 3.0, 20: 2.0}
    toy.toy_train(
        tmp_path,
        evaluate=lambda params, step, final: {"error": values[step]},
        best=("error", "min"),
        keep=1,
    )
    assert steps_saved(tmp_path) == [7, 20]
    checkpoints = Checkpointer(tmp_path / "checkpoints", best=("error", "min"))
    assert checkpoints.best_step == 7
    checkpoints.close()


def test_of_equals_the_first_is_the_best(tmp_path):
    toy.toy_train(
        tmp_path,
        evaluate=lambda params, step, final: {"error": 1.0},
        control=make_control("error"),
        best=("error", "min"),
        save_every=100,
        keep=1,
    )
    assert steps_saved(tmp_path) == [7, 20]
    checkpoints = Checkpointer(tmp_path / "checkpoints", best=("error", "min"))
    assert checkpoints.best_step == 7
    checkpoints.close()


def test_a_gain_below_the_threshold_of_control_is_the_best(tmp_path):
    values = {7: 0.5, 14: 0.5 * (1 + 1e-5), 20: 0.4}
    toy.toy_train(
        tmp_path,
        evaluate=lambda params, step, final: {"accuracy": values[step]},
        control=make_control("accuracy", mode="max", threshold=1e-4),
        best=("accuracy", "max"),
        save_every=100,
        keep=1,
    )
    assert steps_saved(tmp_path) == [14, 20]


def test_the_best_is_known_after_a_restart(tmp_path):
    values = {7: 1.0, 14: 2.0, 20: 3.0}
    settings = {
        "evaluate": lambda params, step, final: {"error": values[step]},
        "best": ("error", "min"),
        "keep": 1,
    }

    def broken_off(place, number):
        if (place, number) == ("feed", 12):
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off"):
        toy.toy_train(tmp_path, feeds=toy.ToyFeeds(broken_off), **settings)
    toy.toy_train(tmp_path, **settings, save_every=100)
    # 14 is worse than 7, so nothing was saved there for being the best.
    assert steps_saved(tmp_path) == [7, 20]
    checkpoints = Checkpointer(tmp_path / "checkpoints", best=("error", "min"))
    step = checkpoints.best_step
    checkpoints.close()
    assert step == 7


def test_the_best_is_kept_though_a_signal_broke_its_evaluation(tmp_path):
    values = {7: 1.0, 14: 2.0, 20: 3.0}
    signals = iter([True])

    def evaluate(params, step, final):
        if next(signals, False):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(30)
        return {"error": values[step]}

    settings = {"evaluate": evaluate, "best": ("error", "min"), "keep": 1, "save_every": 100}
    assert toy.toy_train(tmp_path, **settings).stopped
    assert steps_saved(tmp_path) == [7]
    toy.toy_train(tmp_path, **settings)
    assert steps_saved(tmp_path) == [7, 20]
    checkpoints = Checkpointer(tmp_path / "checkpoints", best=("error", "min"))
    assert checkpoints.best_step == 7
    checkpoints.close()


def test_a_kill_while_the_best_is_saved_again_loses_nothing(tmp_path, monkeypatch):
    """Its evaluation was broken off by a signal, so that it was saved before it was the best."""
    signals = iter([True])

    def evaluate(params, step, final):
        if next(signals, False):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(30)
        return {"error": float(step)}

    settings = {"evaluate": evaluate, "best": ("error", "min"), "keep": 1, "save_every": 100}
    assert toy.toy_train(tmp_path, **settings).stopped
    folder = tmp_path / "checkpoints"
    for when in ("before it is written", "before the old one is gone"):
        with monkeypatch.context() as patch:
            if when == "before it is written":
                patch.setattr(ocp.CheckpointManager, "save", broken)
            else:
                patch.setattr(Checkpointer, "_bring_back", fails_on_its_second_call())
            with pytest.raises(RuntimeError, match="killed"):
                toy.toy_train(tmp_path, **settings)
        assert (folder / "replaced-7").exists(), when
        checkpoints = Checkpointer(folder, best=("error", "min"))
        assert checkpoints.steps == [7], when
        checkpoints.close()
        assert not (folder / "replaced-7").exists(), when
    toy.toy_train(tmp_path, **settings)
    assert steps_saved(tmp_path) == [7, 20]


def broken(*args, **settings):
    raise RuntimeError("killed")


def fails_on_its_second_call():
    calls = itertools.count()
    works = Checkpointer._bring_back

    def bring_back(self):
        if next(calls) == 1:
            broken()
        works(self)

    return bring_back


def test_a_best_metric_that_nobody_gives_is_named(tmp_path):
    with pytest.raises(UserError, match=r'by "bleu", which .* test/error'):
        toy.toy_train(tmp_path, best=("bleu", "max"))


def test_timing_tells_where_the_time_went(tmp_path):
    timing = toy.toy_train(tmp_path).timing
    assert json.loads(json.dumps(timing)) == timing
    parts = ("start", "train", "evaluate", "save")
    assert sum(timing[f"{part}_seconds"] for part in parts) <= timing["total_seconds"]
    assert 0 < timing["compile_seconds"] <= timing["train_seconds"]
    assert timing["to_first_step_seconds"] <= timing["total_seconds"]
    assert 0 <= timing["data_wait_share"] <= 1
    assert timing["examples_per_second"] > 0
