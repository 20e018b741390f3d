"""Runs whose memory depends on the model's losses and whose draws no plan can tell."""

import collections
import os
import pathlib
import signal

import jax
import numpy as np
import pytest

from mmgen import experiment
from mmgen.data.locate import locate
from mmgen.memory import balanced
from mmgen.memory.stop_words import function_word_ids
from mmgen.run import run
from mmgen.settings.command_line import parse_config

from . import running, traces
from .test_meshes import SETTINGS, assert_close

CONFIG = "--config=configs/visCOLL_balanced_forget10k.py:smoke"


ORDER = ("observe", "choose", "insert")


class Log:
    """What a run's memory was told and what it chose."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self._events: dict[tuple[int, int], tuple] = {}
        choose = balanced._choose_slots

        def logged_choice(divergence, weigh, state, mask, words):
            slots = choose(divergence, weigh, state, mask, words)
            self._write("choose", state, slots)
            return slots

        def logged_memory(*settings):
            memory = balanced.make_balanced_forget(*settings)

            def observe(state, slots, nll):
                self._write("observe", state, slots, nll)
                return memory.observe(state, slots, nll)

            def insert(state, ids, mask, slots, side):
                self._write("insert", state, ids, mask, side[1])
                return memory.insert(state, ids, mask, slots, side)

            return memory._replace(observe=observe, insert=insert)

        monkeypatch.setattr(balanced, "_choose_slots", logged_choice)
        monkeypatch.setitem(experiment.BALANCED, "balanced_forget", logged_memory)

    def events(self):
        """In order: ("observe", slots, nll), ("choose", slots, be they written over or not) and
        ("insert", ids, mask, nll)."""
        jax.effects_barrier()
        for (_, place), values in sorted(self._events.items()):
            yield ORDER[place], *values

    def _write(self, name, state, *values):
        def note(seen, *values):
            self._events[int(seen), ORDER.index(name)] = tuple(map(np.array, values))

        jax.debug.callback(note, state.seen, *values)


class SlowMemory:
    """Balanced-forget word by word, from the masked words of each row.

    Attributes:
      kept: row of each slot.
      swaps, drops: how often an example has replaced another, or none.
    """

    def __init__(self, capacity: int, words: list[list[int]], divergence: str, vocabulary: int):
        self.capacity, self.words, self.divergence = capacity, words, divergence
        self.kept: list[int] = []
        self.stream = np.zeros(vocabulary)
        self.best: dict[tuple[int, int], float] = {}
        self.mean: dict[int, float] = {}
        self.times: dict[int, float] = {}
        self.swaps = self.drops = 0

    def observe(self, slots, nll):
        """The losses of replayed rows: how much more than the best is each word's?"""
        everything = sum(self.times.values())
        overall = sum(self.mean[w] * n for w, n in self.times.items()) / max(everything, 1)
        start = everything / max(len(self.times), 1)
        forgotten = collections.defaultdict(list)
        for slot, losses in zip(slots, nll, strict=True):
            if slot < self.capacity:
                for place, word in enumerate(self.words[self.kept[slot]]):
                    self.best[slot, place] = min(self.best[slot, place], losses[place])
                    forgotten[word].append(losses[place] - self.best[slot, place])
        forgotten.pop(-1, None)
        for word, values in forgotten.items():
            before = self.times.get(word, start)
            total = self.mean.get(word, overall) * before + sum(values)
            self.times[word] = before + len(values)
            self.mean[word] = total / max(self.times[word], 1)

    def insert(self, row, slot, nll):
        """One example of the stream, which the run has put at `slot`; is that the best swap?"""
        new = self.words[row]
        for word in new:
            self.stream[word] += word >= 0
        if len(self.kept) < self.capacity:
            assert slot == len(self.kept)
            self.kept.append(row)
        else:
            gains = self.gains(row)
            assert (slot < self.capacity) == (gains.max() > 0) or abs(gains.max()) < 1e-6
            if slot == self.capacity:
                self.drops += 1
                return
            assert gains[slot] == pytest.approx(gains.max(), abs=1e-6)
            self.kept[slot] = row
            self.swaps += 1
        for place in range(len(new)):
            self.best[slot, place] = nll[place]

    def gains(self, row):
        """How much nearer to the target every possible swap would bring the memory."""
        held = [self.counts(kept) for kept in self.kept]
        counts = np.sum(held, axis=0)
        forgetting = np.zeros_like(self.stream)
        forgetting[list(self.mean)] = list(self.mean.values())
        target = self.stream * (1 + forgetting)
        before = self.distance(counts[None], target / target.sum())
        swapped = counts - np.stack(held) + self.counts(row)
        return before - self.distance(swapped, target / target.sum())

    def counts(self, row):
        """How often each word occurs in a row."""
        words = [word for word in self.words[row] if word >= 0]
        return np.bincount(words, minlength=len(self.stream)).astype(float)

    def distance(self, counts, target):
        """KL of each row of counts, as far as a swap changes it."""
        total = counts.sum(axis=1, keepdims=True)
        if self.divergence == "target_memory":
            return -np.sum(target * np.log((counts + 1) / total), axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = counts / total * np.log(counts / total / target)
        return np.sum(np.where(counts > 0, terms, 0), axis=1)


def slow_words(dataset) -> list[list[int]]:
    """The masked words of every row of the train split, -1 for a function word."""
    split = dataset.split("train")
    stop = set(function_word_ids(dataset.vocabulary.tokens))
    spans = np.asarray(split.columns["span"])
    return [
        [-1 if token in stop else token for token in split.tokens(row).tolist()[start:end]]
        for row, (start, end) in enumerate(spans)
    ]


@pytest.mark.parametrize(
    "divergence",
    ["memory_target", pytest.param("target_memory", marks=pytest.mark.slow)],
)
def test_every_insert_of_a_run_is_the_best_swap(bench, tmp_path, monkeypatch, divergence):
    log = Log(monkeypatch)
    arguments = bench.arguments(
        tmp_path / "run", *SETTINGS, f"--config.memory.divergence={divergence}", config=CONFIG
    )
    config = parse_config([a for a in arguments if not a.startswith("--workdir")])
    monkeypatch.chdir(running.ROOT)
    assert run(config, str(tmp_path / "run")) == 0

    dataset = locate(config)
    capacity = traces.summary(tmp_path / "run")["memory"]["capacity"]
    rows = dataset.info["vocabulary"]["rows"]
    slow = SlowMemory(capacity, slow_words(dataset), divergence, rows)
    chosen = None
    for name, *values in log.events():
        if name == "observe":
            slow.observe(*values)
        elif name == "choose":
            (chosen,) = values
        else:
            for row, real, slot, nll in zip(*values[:2], chosen, values[2], strict=True):
                if real:
                    slow.insert(row, slot, nll)
    state = traces.final_state(tmp_path / "run")
    assert state["memory/ids"].tolist() == slow.kept
    assert slow.swaps > 20 and slow.drops > 20, "a test of swaps must see some"
    assert sum(mean > 0.01 for mean in slow.mean.values()) > 10, "and something forgotten"
    for word, mean in slow.mean.items():
        assert state["memory/payload/forgetting"][word] == pytest.approx(mean, rel=1e-3, abs=1e-4)


@pytest.fixture(scope="module")
def whole(bench) -> pathlib.Path:
    """An unbroken run, fed from the host."""

    def make(workdir: pathlib.Path) -> None:
        finished(bench, workdir)

    return bench.once("balanced-forget", make)


def finished(bench, workdir, *arguments, **env):
    started = bench.start(workdir, *SETTINGS, *arguments, config=CONFIG, **env)
    assert started.status() == 0, started.errors
    return started


def test_a_stopped_run_goes_on_bit_equal(bench, whole, tmp_path):
    workdir = tmp_path / "run"
    stopped = bench.start(workdir, *SETTINGS, config=CONFIG)
    assert stopped.wait_for((workdir / "checkpoints" / "4").exists), stopped.errors
    os.kill(stopped.pid, signal.SIGTERM)
    assert stopped.status() == 0, stopped.errors
    assert not (workdir / "DONE").exists()
    finished(bench, workdir)
    traces.assert_bit_equal(workdir, whole)


def test_eight_devices_and_data_in_their_memory(bench, whole, tmp_path):
    """Chunks on the device draw what the host draws, and store it alike."""
    workdir = tmp_path / "run"
    settings = ("--config.residency=device", "--config.evaluation.count=4")
    flags = "--xla_force_host_platform_device_count=8"
    told = finished(bench, workdir, *settings, XLA_FLAGS=flags)
    assert "4 iterations per dispatch" in told.errors
    assert_close(workdir, whole)


def test_a_second_epoch_is_refused(bench, tmp_path):
    longer = bench.start(tmp_path / "run", "--config.total.steps=25", config=CONFIG)
    assert longer.status() == 2
    assert "more than once" in longer.errors and "Traceback" not in longer.errors
    assert not (tmp_path / "run").exists()
