"""Seconds of an iteration, per algorithm and model, on random data of the published shape.

    python -m mmgen.bench [--algorithms=er,mir] [--models=vlbert] [--dtype=float32] [--peer]
    python -m mmgen.bench --config=configs/visCOLL_mir10k.py:model=lxmert
    python -m mmgen.bench --seeds=3 [--algorithms=er]

Reads no data set and imports no data or logging library. What is timed is a whole iteration, the
memory's inserts included, at one padded shape; utilisation is the model's floating-point operations
over the rate of a matrix product, measured in the same process at the same dtype, the highest of
several times. The second form takes algorithm, model and sizes from a config, where no option gives
them; the third takes turns between several seeds in one program and one.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from collections.abc import Sequence

import jax

from mmgen.benchmark.accelerator_report import clock_table
from mmgen.benchmark.from_config import step_of
from mmgen.benchmark.measure import device_facts
from mmgen.benchmark.memory_growth import memory_growth
from mmgen.benchmark.peer import check_peer, compare_with_peer, peer_table
from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import TYPICAL, Scale
from mmgen.benchmark.seeds import SIZE as SEEDS_SIZE
from mmgen.benchmark.seeds import compare_seeds
from mmgen.benchmark.subjects import ALGORITHMS
from mmgen.benchmark.suite import Case, clock_cases
from mmgen.benchmark.turns import time_turns, turn_table
from mmgen.data.buckets import Bucket
from mmgen.errors import UserError
from mmgen.models.masked_span import MODELS
from mmgen.settings.sizes import SIZES
from mmgen.settings.suggest import check_choice

INSTANCES = 6_000
"""Of the stream that is timed."""
PATIENCE = 3600.0
"""Seconds that compiling may take."""


def main(argv: list[str] | None = None) -> int:
    """Measures what is asked for, prints tables and writes JSON."""
    try:
        return _measure(_arguments(argv))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mmgen.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--config", help="FILE[:arguments] whose step is timed")
    add("--algorithms", default="plain,er,agem,mir", help="names, separated by commas")
    add("--models", default="vlbert", help="vlbert, lxmert or both")
    add("--size", help="of the models, as config.model.size; default paper, with --seeds small")
    add("--dtype", default="float32", help="of matrix products: float32 or bfloat16")
    add("--batch_size", type=int, default=32, help="examples of a stream batch")
    add("--text", type=int, default=TYPICAL.text, help="text positions of the padded shape")
    add("--objects", type=int, default=TYPICAL.objects, help="object slots of the padded shape")
    add("--packing", default="auto", help="as config.packing: auto, on or off")
    add("--chunk", type=int, default=0, help="also time residency device, so many per dispatch")
    add("--seconds", type=float, default=10.0, help="of each measurement, three rounds at least")
    add("--seeds", type=int, default=0, help="instead: so many seeds in one program against one")
    add("--memory", action="store_true", help="also compare memories of 1k and of 1M rows")
    add("--peer", action="store_true", help="also time a PyTorch implementation, in turns")
    add("--peer_python", default=sys.executable, help="interpreter that has torch and numpy")
    add("--peer_variants", default="eager", help="eager, compile or both")
    add("--out", type=pathlib.Path, help="file for everything measured, as JSON")
    parser.set_defaults(settings={}, dropout=Scale().dropout, capacity=Scale().capacity)
    arguments = parser.parse_args(argv)
    if arguments.config:
        step = step_of(arguments.config)
        parser.set_defaults(
            algorithms=step["algorithm"],
            models=step["model"],
            **{key: step[key] for key in step if key not in ("algorithm", "model", "settings")},
        )
        arguments = parser.parse_args(argv)
        if arguments.algorithms == step["algorithm"]:
            arguments.settings = step["settings"]
    arguments.size = arguments.size or (SEEDS_SIZE if arguments.seeds else "paper")
    return arguments


def _measure(arguments: argparse.Namespace) -> int:
    algorithms, models = arguments.algorithms.split(","), arguments.models.split(",")
    _check(arguments, algorithms, models)
    # The first step is to be timed as a user meets it.
    jax.config.update("jax_enable_compilation_cache", False)
    scale = _scale(arguments)
    own = (("settings", arguments.settings),) if arguments.settings else ()
    cases = [
        Case(model, algorithm, scale.batch_size, arguments.chunk, own)
        for model in models
        for algorithm in algorithms
    ]
    with tempfile.TemporaryDirectory() as folder:
        record = Record(arguments.out or pathlib.Path(folder) / "bench.json")
        record.add(
            facts=device_facts(), arguments=json.loads(json.dumps(vars(arguments), default=str))
        )
        if arguments.seeds:
            _measure_seeds(record, scale, cases, arguments.seeds)
            return 0
        _measure_cases(record, scale, cases)
        if arguments.memory:
            record.add(memory=memory_growth(scale))
            print(record.values["memory"])
        if arguments.peer:
            for case in cases:
                for variant in arguments.peer_variants.split(","):
                    record.append(
                        "peers", compare_with_peer(scale, case, arguments.peer_python, variant)
                    )
            print(peer_table(record.values["peers"]))
    return 0


def _check(arguments: argparse.Namespace, algorithms: list[str], models: list[str]) -> None:
    for flag, names, known in (
        ("--algorithms", algorithms, ALGORITHMS),
        ("--models", models, MODELS),
        ("--size", [arguments.size], SIZES["vlbert"]),
        ("--dtype", [arguments.dtype], ("float32", "bfloat16")),
        ("--packing", [arguments.packing], ("auto", "on", "off")),
    ):
        for name in names:
            check_choice(flag, name, known)
    if arguments.seeds < 0 or arguments.seeds == 1:
        raise UserError(f"--seeds={arguments.seeds} must be 2 or more: so many against one.")
    for flag in ("peer", "memory", "chunk") if arguments.seeds else ():
        if getattr(arguments, flag):
            raise UserError(
                f"--{flag} is not measured with --seeds={arguments.seeds}; leave it out."
            )
    if arguments.peer:
        check_peer(arguments.peer_python)


def _measure_cases(record: Record, scale: Scale, cases: Sequence[Case]) -> None:
    """One after the other, and then those of each model in turns."""
    turns = clock_cases(record, scale, cases)
    peak = record.values["peak"]
    print(f"{_setting(scale)}, matrix products {peak / 1e9:.4g} GFLOP/s")
    print(clock_table(record.values))
    for model in dict.fromkeys(case.model for case in cases):
        sides = [turn for turn in turns if turn.model == model]
        if len(sides) > 1:
            seconds = len(sides) * scale.clock_seconds
            record.append("turns", time_turns(sides, group=scale.group, seconds=seconds))
    if "turns" in record.values:
        print(turn_table(record.values["turns"]))


def _setting(scale: Scale) -> str:
    bucket = f"bucket {scale.bucket.text} + {scale.bucket.objects}"
    return f"{device_facts()['device']}, {scale.dtype}, model size {scale.size}, {bucket}"


def _measure_seeds(record: Record, scale: Scale, cases: Sequence[Case], count: int) -> None:
    for case in cases:
        record.append("seeds", compare_seeds(scale, count, case))
    print(_setting(scale))
    print(turn_table(record.values["seeds"]))


def _scale(arguments: argparse.Namespace) -> Scale:
    return dataclasses.replace(
        Scale(),
        clock_instances=max(INSTANCES, 100 * arguments.batch_size),
        size=arguments.size,
        dtype=arguments.dtype,
        dropout=arguments.dropout,
        batch_size=arguments.batch_size,
        capacity=arguments.capacity,
        bucket=Bucket(arguments.text, arguments.objects),
        packing=arguments.packing,
        matmul_size=0,
        compile_seconds=PATIENCE,
        threads=1,
        clock_seconds=arguments.seconds,
        group=1 if jax.default_backend() == "cpu" else 25,
    )


if __name__ == "__main__":
    sys.exit(main())
