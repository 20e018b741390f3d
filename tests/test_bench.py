"""The benchmark: operations, what is measured, the peer, and the guarded stages of the check."""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peers.torch_python import peer_python
from test_imports import SERVICES

from mmgen import bench
from mmgen.benchmark import accelerator_check, peer, suite, turns
from mmgen.benchmark.accelerator_check import Check, Stage
from mmgen.benchmark.accelerator_report import report
from mmgen.benchmark.flops import count_flops
from mmgen.benchmark.from_config import step_of
from mmgen.benchmark.insertion import insertion_times
from mmgen.benchmark.measure import WARM_UP, matmul_peak
from mmgen.benchmark.profile import kernel_times
from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import SCALES
from mmgen.benchmark.subjects import make_subject
from mmgen.benchmark.suite import Case, clock_cases
from mmgen.benchmark.trained import loop
from mmgen.benchmark.turns import LEAST_ROUNDS, Turn, time_turns
from mmgen.benchmark.workload import make_workload
from mmgen.core.mesh import put_feed
from mmgen.data.buckets import Bucket
from mmgen.memory.divergence import DIVERGENCES
from mmgen.models.flops import Shape, model_flops
from mmgen.models.vlbert import make_vlbert
from mmgen.settings.sizes import SIZES

TINY = Bucket(16, 4)


def test_products_in_loops_and_branches_are_counted():
    x, w = jnp.ones((4, 8)), jnp.ones((8, 8))

    def looped(x, w):
        return jax.lax.scan(lambda c, _: (c @ w, None), x, None, length=3)[0]

    once = 2 * 4 * 8 * 8
    assert count_flops(looped, x, w) == 3 * once
    # Forward, backward towards w, and towards the carry in each iteration of the loop; newer
    # versions of jax leave out the last of these, which nobody reads.
    assert count_flops(jax.grad(lambda w: looped(x, w).sum()), w) // once in (3 + 3 + 3, 3 + 3 + 2)
    assert count_flops(lambda i: jax.lax.switch(i, [lambda: x @ w, lambda: looped(x, w)]), 0) == (
        3 * once
    )
    with pytest.raises(ValueError, match="unknown length"):
        count_flops(lambda n: jax.lax.fori_loop(0, n, lambda _, c: c @ w, x), 5)


def test_an_er_iteration_costs_two_passes_of_the_closed_form():
    workload = make_workload(
        20, 60, feature_dim=8, pieces=30, word_rows=50, longest=13, most_objects=4
    )
    subject = make_subject(
        workload, size="smoke", batch_size=4, buckets=(TINY,), settings={"replay_size": 6}
    )
    model = make_vlbert(vocabulary_rows=50, feature_dim=8, **SIZES["vlbert"]["smoke"])
    shapes = [Shape(rows, TINY.text, TINY.objects, masked=8) for rows in (4, 6)]
    passes = [model_flops(model, shape).train for shape in shapes]
    assert subject.flops() == (sum(passes),)


def test_matmul_peak_is_a_rate_of_this_machine():
    assert 1e7 < matmul_peak("float32", size=128) < 1e14


def test_workload_has_the_published_distributions():
    workload = make_workload(4_000, 20_000)
    lengths, spans = workload.split.lengths, workload.split.columns["span"]
    assert lengths.mean() == pytest.approx(12.06, abs=0.4)
    assert workload.counts.mean() == pytest.approx(7.33, abs=0.4)
    assert np.diff(spans).mean() == pytest.approx(2.50, abs=0.05)
    assert (spans[:, 0] >= 0).all() and (spans[:, 1] <= lengths).all()
    task = np.bincount(workload.split.columns["task"])
    assert task[0] / len(workload.split) == pytest.approx(0.32, abs=0.02)
    assert sorted(workload.stream()) == list(range(20_000))


BENCH = (
    "--size=smoke --algorithms=plain,er --batch_size=4 --text=16 --objects=4 --seconds=0.1".split()
)


def test_bench_prints_a_table_and_writes_json(tmp_path, capsys):
    out = tmp_path / "bench.json"
    assert bench.main([*BENCH, f"--out={out}"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("er vlbert x4") == 2 and "in turns" in printed
    found = json.loads(out.read_text())
    case, other = found["cases"]
    (sides,) = found["turns"]
    assert sides["first"] == case["name"] and [*sides["times"]] == [case["name"], other["name"]]
    assert case["host_ms"] > 0 and 0 < case["host_utilisation"] < 1
    assert case["host_first_step_seconds"] > case["host_ms"] / 1e3
    assert 0 <= case["data_wait_share"] < 1 and case["fed_ms"] > 0


def test_a_config_says_which_step_is_timed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parents[1])
    config = "--config=configs/visCOLL_mir10k.py"
    small = [option for option in BENCH if not option.startswith(("--algorithms", "--batch_size"))]
    out = tmp_path / "bench.json"
    assert bench.main([*small, "--batch_size=4", config, f"--out={out}"]) == 0
    (case,) = json.loads(out.read_text())["cases"]
    assert (case["name"], case["draws"]) == ("mir vlbert x4", [80])
    for wrong, words in (
        ("visCOLL_der10k.py", "algorithm.name='der', and the bench times plain, er"),
        ("visCOLL_er10k.py:profile=release", "profile='release'"),
        ("visCOLL_balanced_sqrt10k.py", "memory.policy='balanced_sqrt'"),
        ("visCOLL_er10k.py:text_only", "text_only=True"),
        ("compact_l.py", "of kind compact"),
    ):
        assert bench.main([f"--config=configs/{wrong}"]) == 2
        assert words in capsys.readouterr().err


def test_a_config_says_the_sizes_of_its_step(monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parents[1])
    steps = [step_of(f"configs/visCOLL_{name}.py") for name in ("er1k", "er10k", "vanilla")]
    assert [step.get("capacity") for step in steps] == [1_000, 10_000, None]
    smoke = step_of("configs/visCOLL_er10k.py:smoke")
    assert (smoke["size"], smoke["batch_size"], smoke["dropout"]) == ("smoke", 32, 0.1)
    assert smoke["packing"] == "auto"


def test_what_several_seeds_are_not_measured_with_is_refused(capsys):
    assert bench.main(["--seeds=3", "--algorithms=er", "--memory"]) == 2
    assert "--memory is not measured with --seeds=3" in capsys.readouterr().err


def test_a_case_that_fails_leaves_the_others(tmp_path, monkeypatch):
    def clock(record, scale, ground, bench, *rest):
        if bench.case.algorithm == "er":
            raise RuntimeError("out of memory")

    monkeypatch.setattr(suite, "_clock", clock)
    record = Record(tmp_path / "record.json")
    cases = [Case("vlbert", name, 4, 0) for name in ("er", "plain")]
    (turn,) = clock_cases(record, SCALES["tiny"], cases, wait=False)
    assert record.values["failures"] == {"er vlbert x4": "RuntimeError: out of memory"}
    assert turn.name == "plain vlbert x4"


def test_a_case_with_settings_of_its_own_is_timed(tmp_path):
    """As the accelerator check's large batch is."""
    record = Record(tmp_path / "record.json")
    case = Case("vlbert", "er", 4, 0, (("settings", {"replay_size": 3}), ("capacity", 8)))
    (turn,) = clock_cases(record, SCALES["tiny"], [case], wait=False)
    assert record.values["failures"] == {}
    assert record.values["cases"][0]["draws"] == (3,) and turn.model == "vlbert"


def test_utilisations_of_a_table_are_shares_of_one_peak(tmp_path, monkeypatch):
    """The machine turns out to be faster after the second case, which holds for the first too."""
    peaks = iter([2e9, 1e9, 5e9])
    monkeypatch.setattr(suite, "matmul_peak", lambda *_: next(peaks))
    record = Record(tmp_path / "record.json")
    cases = [Case("vlbert", name, 4, 0) for name in ("plain", "er")]
    clock_cases(record, SCALES["tiny"], cases, wait=False)
    assert record.values["peak"] == 5e9
    for case in record.values["cases"]:
        rate = case["flops"] / (case["host_ms"] / 1e3)
        assert case["host_utilisation"] == pytest.approx(rate / 5e9)


def test_waiting_for_data_counts_the_copy_and_ends_in_time(tmp_path, monkeypatch):
    copies = []

    def slow_put(*arguments):
        copies.append(arguments)
        time.sleep(0.3)
        return put_feed(*arguments)

    monkeypatch.setattr(suite, "put_feed", slow_put)
    record = Record(tmp_path / "record.json")
    clock_cases(record, SCALES["tiny"], [Case("vlbert", "plain", 4, 0)])
    (case,) = record.values["cases"]
    assert case["data_wait_share"] > 0.5 and case["fed_ms"] > 100
    # One more for the iterations that are timed with a batch on the device.
    assert len(copies) == suite.LEAST_WAITED + 1, "each takes longer than a measurement may"


def test_algorithms_take_turns(monkeypatch):
    """A machine that slows down between rounds changes no ratio, and every state is passed on."""
    clock, seen = [0.0], []
    monkeypatch.setattr(turns.time, "perf_counter", lambda: clock[0])

    def turn(name, seconds):
        def advance(state):
            seen.append((name, state))
            clock[0] += seconds * (1 + state // 4)
            return state + 1, jnp.zeros(())

        return Turn(name, "vlbert", lambda: 0, advance)

    found = time_turns([turn("er", 2.0), turn("agem", 3.0)], seconds=50)
    assert (found["first"], found["rounds"]) == ("er", 6)
    assert found["times"] == {"er": [1.0] * 3, "agem": [1.5] * 3}
    assert found["ms"] == {"er": 4000, "agem": 6000}
    assert seen[2 * WARM_UP :] == [(name, step) for step in range(2, 8) for name in ("er", "agem")]


def test_insertion_is_timed_by_policy():
    found = insertion_times(64, 8, 0.01, ["reservoir", "balanced_forget"], word_rows=60)
    assert set(found) == {"reservoir", *(f"balanced_forget, {name}" for name in DIVERGENCES)}
    assert all(0 < timing.least <= timing.median for timing in found.values())


def test_bench_names_what_it_does_not_know(capsys):
    assert bench.main(["--algorithms=erm"]) == 2
    message = capsys.readouterr().err
    assert "--algorithms" in message and "er" in message and message.count("\n") == 1


def test_seeds_side_by_side_take_turns_with_one(tmp_path, capsys):
    out = tmp_path / "bench.json"
    arguments = [*BENCH, "--seeds=2", "--algorithms=er", f"--out={out}"]
    assert bench.main(arguments) == 0
    (found,) = json.loads(out.read_text())["seeds"]
    one, two = "er vlbert x4, 1 seed", "er vlbert x4, 2 seeds"
    assert found["first"] == one and found["rounds"] >= LEAST_ROUNDS
    low, median, high = found["times"][two]
    assert 0 < low <= median <= high
    printed = capsys.readouterr().out
    assert two in printed and f"{low:.2f} to {high:.2f}" in printed
    assert "in turns" in printed and "host ms" not in printed


def test_seeds_are_of_the_small_model_unless_another_is_named(capsys):
    assert bench._arguments(["--seeds=3"]).size == "small"
    assert bench._arguments(["--seeds=3", "--size=paper"]).size == "paper"
    assert bench._arguments([]).size == "paper"
    assert bench.main(["--seeds=1"]) == 2
    assert "--seeds=1" in capsys.readouterr().err


class StandIn:
    """A peer without torch, which reads its examples and takes no time."""

    def __init__(self, python, arguments):
        options = dict(part.partition("=")[::2] for part in arguments)
        with np.load(options["--examples"]) as file:
            masks = [file[f"stream/{name}_mask"] for name in ("text", "object")]
        whole = int("--released" in options)
        self.rows = sum(mask.sum(1) for mask in masks) + 1 + whole
        slots = masks[0].shape[1] + masks[1].shape[1] + 1 + whole
        self.lengths = [[int(self.rows.max()) if "--packed" in options else slots]]
        self.facts, self.made = {"torch": "none"}, 0
        made.append(self)

    def seconds(self):
        self.made += 1
        time.sleep(0.15)
        return 0.15

    def close(self):
        pass


made: list[StandIn] = []


def test_both_sides_have_the_same_positions_and_say_how_many(monkeypatch):
    """The issue's layouts: 64 + 100 slots, packed as released and not, and the bucket's 27 + 40."""
    monkeypatch.setattr(peer, "Peer", StandIn)
    made.clear()
    scale = dataclasses.replace(
        SCALES["tiny"], bucket=Bucket(27, 40), clock_instances=400, batch_size=16
    )
    result = peer.compare_with_peer(scale, Case("vlbert", "plain", 16, 0), "python", "eager")
    layouts = result["layouts"]
    assert {name: layout["slots"] for name, layout in layouts.items()} == {
        "released": (64, 100),
        "unpacked": (64, 100),
        "bucketed": (27, 40),
    }
    assert result["ours_lengths"] == [[68]]
    assert {name: layout["peer_lengths"] for name, layout in layouts.items()} == {
        "released": [[27 + 41 + 1]],
        "unpacked": [[64 + 100 + 1]],
        "bucketed": [[68]],
    }
    # One row is full, and the others are as long as they are in the workload.
    assert all(np.sum(other.rows == other.rows.max()) == 1 for other in made)
    assert 15 < np.median(made[0].rows) < 35
    for other, layout in zip(made, layouts.values(), strict=True):
        assert other.made - 1 == len(layout["turns"]) == peer.LEAST_ROUNDS, "slower than --seconds"
    printed = peer.peer_table([result])
    assert "64 + 100" in printed and " 165 " in printed and " 69 " in printed


@pytest.mark.parametrize("algorithm", ["plain", "mir"])
def test_peer_takes_turns(capsys, tmp_path, algorithm):
    out = tmp_path / "bench.json"
    chosen = (f"--algorithms={algorithm}", "--peer", f"--peer_python={peer_python()}")
    assert bench.main([*BENCH, *chosen, f"--out={out}"]) == 0
    assert "peer / ours" in capsys.readouterr().out
    (result,) = json.loads(out.read_text())["peers"]
    lengths = {name: layout["peer_lengths"] for name, layout in result["layouts"].items()}
    assert lengths["bucketed"] == result["ours_lengths"] == [[16 + 4 + 1]]
    assert lengths["unpacked"] == [[64 + 100 + 1]]
    assert lengths["released"][-1] == [16 + 5 + 1]


def test_without_torch_the_peer_is_explained_before_anything_is_measured(tmp_path, capsys):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho No module named torch >&2\nexit 1\n")
    fake.chmod(0o755)
    for python, words in ((fake, "No module named torch"), (tmp_path, "cannot be run")):
        assert bench.main([*BENCH, "--peer", f"--peer_python={python}"]) == 2
        printed = capsys.readouterr()
        assert words in printed.err and printed.err.count("\n") == 1
        assert not printed.out


def test_a_profiler_that_writes_nothing_fails_no_stage(monkeypatch):
    monkeypatch.setattr(jax.profiler, "trace", lambda folder: contextlib.nullcontext())
    found = kernel_times(lambda: None)
    assert [*found] == ["missing"]
    assert "no profile" in report({"full_pass": {**PASS, "profile": found}})


def test_the_loop_is_run_without_data_and_logging_libraries(tmp_path):
    program = f"""
import sys
sys.modules |= dict.fromkeys({SERVICES})
from mmgen.benchmark import trained
from mmgen.benchmark.profile import kernel_times
from mmgen.benchmark.record import Record
trained.STEPS = 20
trained.loop(Record(sys.argv[1]), None)
"""
    file = tmp_path / "loop.json"
    program = program.replace(
        "Record(sys.argv[1])", "Record(__import__('pathlib').Path(sys.argv[1]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(file)], text=True, stderr=subprocess.PIPE
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(file.read_text())
    assert found["passed"] and found["memory_equal"], found
    assert [run["steps"] for run in found["runs"]] == [20, 10, 10]
    printed = report({"loop": {"outcome": "done", "seconds": 3.0, **found}})
    assert "device, from its checkpoint" in printed and "pass  the runs agree" in printed


def test_the_loop_says_what_it_lacks(tmp_path, monkeypatch):
    for name in ("mmgen.core.loop", "mmgen.core.checkpoint"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "orbax", None)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    record = Record(tmp_path / "loop.json")
    loop(record, SCALES["tiny"])
    assert "orbax" in record.values["missing"] and "runs" not in record.values
    assert "orbax" in report({"loop": {"outcome": "done", "seconds": 1.0, **record.values}})


def test_the_first_stages_have_all_of_their_time():
    """Whatever those before them take, and all of it is over in ten minutes."""
    stages = accelerator_check.stages()
    sure = ("sanity", "numerics", "loop", "full_pass", "seeds")
    assert tuple(stages)[: len(sure)] == sure
    left = accelerator_check.SECONDS
    for name in sure:
        left -= stages[name].seconds
    assert left > accelerator_check.LEAST_SECONDS, "and the next one begins"
    assert accelerator_check.SECONDS + accelerator_check.LEAST_SECONDS < 600


def nothing(record, scale):
    """A stage that is run by tests/fake_stage.py instead."""


def test_a_stage_that_fails_or_hangs_is_recorded_and_the_next_one_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerator_check, "MODULE", "tests.fake_stage")
    monkeypatch.setattr(accelerator_check, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(accelerator_check, "LEAST_SECONDS", 0.0)
    (tmp_path / "work").mkdir()
    check = Check(tmp_path, tmp_path / "work", "full")
    names = {"fails": 30, "hangs": 1.5, "sanity": 30}
    stages = {name: Stage(nothing, seconds) for name, seconds in names.items()}
    assert check.run(stages, 60) == 1
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["fails"]["outcome"].startswith("failed (status 3)")
    assert found["hangs"]["outcome"].startswith("ended after")
    assert found["hangs"]["facts"], "what it had recorded stays"
    assert found["sanity"]["outcome"] == "done"
    assert "this is hangs" in (tmp_path / "logs.txt").read_text()
    assert "a stand-in" in (tmp_path / "report.txt").read_text()
    assert check.run({"sanity": stages["sanity"]}, -1.0) == 1  # no time left


PASS = {
    "outcome": "done",
    "seconds": 3.0,
    "instances": 640,
    "steps": 20,
    "regions": 9,
    "buckets": [[27, 40]],
    "way": "chunk",
    "steps_made": 5,
    "seconds_made": 1.0,
    "step_ms": 200.0,
    "utilisation": 0.1,
    "extrapolated": True,
    "whole_stream_seconds": 4.0,
    "loss_first": 3.0,
    "loss_last": 2.0,
    "loss_is_finite": True,
    "memory_is_the_plan": True,
}


def test_report_says_what_was_extrapolated():
    text = report({"full_pass": PASS})
    assert "4.0 s (EXTRAPOLATED)" in text and "5 iterations in 1.0 s" in text
    assert "(measured)" in report({"full_pass": {**PASS, "extrapolated": False}})
