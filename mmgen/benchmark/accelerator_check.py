"""The accelerator check: stages in processes of their own, each recorded, all within a time.

    python -m mmgen.benchmark.accelerator_check --out=DIR [--scale=tiny] [--seconds=560]

A stage that fails or takes too long is recorded, and the next one runs. At any time DIR holds
everything so far: `report.txt` to read, `report.json`, and `logs.txt`, what stages have printed.
Needs jax, flax, optax, jaxtyping and numpy alone; the stage `loop` orbax as well, and says so where
it is missing.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from mmgen.benchmark.accelerator_report import report
from mmgen.benchmark.record import Record, read_json
from mmgen.benchmark.scales import SCALES, Scale

MODULE = "mmgen.benchmark.accelerator_check"
SECONDS = 560.0
"""For all stages together: with what comes around them, less than ten minutes."""
LEAST_SECONDS = 20.0
"""A stage that has less is not begun."""
POLL_SECONDS = 3.0
LOG_CHARACTERS = 40_000
"""What of a stage's output is kept, from its end."""

COMMAND_BUFFERS = "--xla_gpu_enable_command_buffer="
FLAGS = {
    "speed_default": "",
    "speed_no_graphs": COMMAND_BUFFERS,
    "speed_loops_in_graphs": (
        f"{COMMAND_BUFFERS}FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,"
        "CONDITIONAL,WHILE"
    ),
    "speed_overlap": "--xla_gpu_enable_latency_hiding_scheduler=true",
    "speed_cublas_alone": "--xla_gpu_enable_triton_gemm=false",
}
"""Variants of the compiler's settings under which ER on VLBERT is timed."""


class Stage(NamedTuple):
    """A part of the check.

    Attributes:
      run: `(record, scale)`, in a process of its own.
      seconds: after which it is ended; what it has recorded stays.
      flags: added to XLA_FLAGS.
    """

    run: Callable[[Record, Scale], None]
    seconds: float
    flags: str = ""


def stages() -> dict[str, Stage]:
    """By name, in the order of their worth.

    Limits of those up to `seeds` leave each of them all of its own within `SECONDS`, whatever those
    before it take; the others have what is left.
    """
    from mmgen.benchmark import numerics
    from mmgen.benchmark.clocks import bench, sanity, speed
    from mmgen.benchmark.full_pass import full_pass
    from mmgen.benchmark.seeds import seeds
    from mmgen.benchmark.trained import loop

    return {
        "sanity": Stage(sanity, 40),
        "numerics": Stage(numerics.numerics, 100),
        "loop": Stage(loop, 60),
        "full_pass": Stage(full_pass, 290),
        "seeds": Stage(seeds, 45),
        "bench": Stage(bench, 220),
        "determinism": Stage(
            numerics.determinism, 80, "--xla_gpu_exclude_nondeterministic_ops=true"
        ),
        **{name: Stage(speed, 90, flags) for name, flags in FLAGS.items()},
    }


def main() -> int:
    """Runs the stages asked for, or inside a stage's process that one."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--scale", choices=SCALES, default=os.environ.get("SCALE", "full"))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all stages together")
    parser.add_argument("--stages", default="", help="names, separated by commas; default all")
    parser.add_argument("--stage", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    known = stages()
    if arguments.stage:
        record = Record(arguments.out / f"{arguments.stage}.json")
        known[arguments.stage].run(record, SCALES[arguments.scale])
        # Compilations that were given up still run in their threads, and would be waited for.
        sys.stdout.flush()
        os._exit(0)
    chosen = arguments.stages.split(",") if arguments.stages else list(known)
    for name in chosen:
        if name not in known:
            parser.error(f"--stages: {name!r} is no stage; there are {', '.join(known)}")
    with tempfile.TemporaryDirectory() as folder:
        check = Check(arguments.out, pathlib.Path(folder), arguments.scale)
        return check.run({name: known[name] for name in chosen}, arguments.seconds)


class Check:
    """A run of the stages, which write into `work`, and its reports, in `out`."""

    def __init__(self, out: pathlib.Path, work: pathlib.Path, scale: str):
        self.out, self.work, self.scale = out, work, scale
        self.outcomes: dict[str, dict[str, Any]] = {}

    def run(self, chosen: dict[str, Stage], seconds: float) -> int:
        """Runs the stages; 0 if all of them were done."""
        began = time.monotonic()
        for name, stage in chosen.items():
            left = seconds - (time.monotonic() - began)
            if left < LEAST_SECONDS:
                self._note(name, stage, "not begun: no time left", 0.0)
            else:
                limit = SCALES[self.scale].patience * stage.seconds
                self._run_stage(name, stage, min(limit, left))
            outcome = self.outcomes[name]
            print(f"{name}: {outcome['outcome']}, {outcome['seconds']:.0f} s", flush=True)
        print((self.out / "report.txt").read_text(encoding="utf-8"), flush=True)
        return 0 if all(stage["outcome"] == "done" for stage in self.outcomes.values()) else 1

    def _run_stage(self, name: str, stage: Stage, seconds: float) -> None:
        command = [sys.executable, "-m", MODULE, f"--stage={name}"]
        command += [f"--out={self.work}", f"--scale={self.scale}"]
        flags = f"{os.environ.get('XLA_FLAGS', '')} {stage.flags}".strip()
        began = time.monotonic()
        with (self.work / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, "XLA_FLAGS": flags, "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while (status := process.poll()) is None and time.monotonic() - began < seconds:
            self._note(name, stage, "running", time.monotonic() - began)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=POLL_SECONDS)
        if status is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            outcome = f"ended after {seconds:.0f} s"
        else:
            outcome = "done" if status == 0 else f"failed (status {status}), see logs.txt"
        self._note(name, stage, outcome, time.monotonic() - began)

    def _note(self, name: str, stage: Stage, outcome: str, seconds: float) -> None:
        """Writes the reports, with this said of a stage."""
        self.outcomes[name] = {"outcome": outcome, "seconds": seconds, "flags": stage.flags}
        found = {
            name: {**outcome, **read_json(self.work / f"{name}.json")}
            for name, outcome in self.outcomes.items()
        }
        logs = [
            f"===== {name}\n{log.read_text(encoding='utf-8', errors='replace')[-LOG_CHARACTERS:]}"
            for name in self.outcomes
            if (log := self.work / f"{name}.log").exists()
        ]
        for file, text in (
            ("report.json", json.dumps(found, indent=1)),
            ("report.txt", report(found)),
            ("logs.txt", "\n".join(logs)),
        ):
            (self.out / file).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
