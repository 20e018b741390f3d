"""A cost model of the ER train step: predicted milliseconds on 1, 8 and 256 accelerators.

    python -m mmgen.benchmark.scaling [--machines=h200,tpu_v5e] [--against=BENCH.json]

Nothing is measured: floating-point operations come from `mmgen.models.flops`, bytes and launches
from the constants below, rates from the vendors' data sheets. `--against` sets the model beside
what `python -m mmgen.bench --out=BENCH.json` has measured. launch/SCALING.md explains and discusses
the result.
"""

import argparse
import math
import pathlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from mmgen.benchmark.record import read_json, table
from mmgen.benchmark.scales import TYPICAL
from mmgen.benchmark.workload import COCO_INSTANCES, COCO_MAX_SPAN, FEATURE_DIM, WORD_ROWS
from mmgen.data.buckets import Bucket
from mmgen.models.flops import Shape, model_flops
from mmgen.models.masked_span import MODELS
from mmgen.settings.sizes import SIZES
from mmgen.settings.suggest import check_choice

PARAMETERS = {"vlbert": 23_564_040, "lxmert": 58_614_794}
"""At the published size; a test holds the models to them."""

BATCH = 32
"""Rows of the stream batch and of the replay batch, an update each."""
CAPACITY = 10_000
DEVICES = (1, 8, 256)
SEEDS = 3
"""Trained side by side in one program."""

EFFICIENCY = 0.5
"""Share of the peak that products of a thousand rows by 384 to 1,536 columns reach at best."""
HIDDEN_PASSES = 60
"""Vectors of the hidden size that a layer writes or reads per position, forward and backward."""
SCORE_PASSES = 12
"""The same for its attention scores, per head, query and key."""
LOGIT_PASSES = 6
"""The same for the logits of a target, in float32."""
UPDATE_BYTES = 40
"""Per parameter: weights read twice, gradient written and read, two moments and weights updated."""
LAYER_LAUNCHES, OTHER_LAUNCHES = 45, 140
"""Kernels of a layer and of everything else in an update, the optimizer included."""


class Machine(NamedTuple):
    """An accelerator and what joins it to others, from data sheets; bytes and seconds.

    Attributes:
      flops: bfloat16 operations per second, dense.
      bandwidth: bytes per second of its memory.
      link, network: bytes per second that it sends to others of its group, and beyond.
      group: devices that `link` joins.
      hop: seconds of a message that carries nothing.
      launch: seconds between two kernels that wait for each other.
      host: devices of a host.
    """

    flops: float
    bandwidth: float
    link: float
    network: float
    group: int
    hop: float
    launch: float
    host: int


MACHINES = {
    "h100": Machine(989e12, 3.35e12, 450e9, 50e9, 8, 5e-6, 4e-6, 8),
    "h200": Machine(989e12, 4.8e12, 450e9, 50e9, 8, 5e-6, 4e-6, 8),
    # A slice is one group; kernels follow each other without the host.
    "tpu_v5e": Machine(197e12, 0.82e12, 100e9, 100e9, 256, 1e-6, 1e-6, 8),
    "tpu_v5p": Machine(459e12, 2.76e12, 300e9, 300e9, 8960, 1e-6, 1e-6, 4),
}


class Step(NamedTuple):
    """Predicted seconds of a step by what takes them.

    Attributes:
      compute, memory: of the products, and of reading and writing; the longer one counts.
      launches: of starting kernels.
      collectives: of summing gradients over the devices.
    """

    compute: float
    memory: float
    launches: float
    collectives: float

    @property
    def total(self) -> float:
        """Nothing is assumed to overlap but products with their operands' traffic."""
        return max(self.compute, self.memory) + self.launches + self.collectives


def predict_step(
    model: str,
    machine: Machine,
    devices: int = 1,
    batch: int = BATCH,
    bucket: Bucket = TYPICAL,
    itemsize: int = 2,
    seeds: int = 1,
) -> Step:
    """An ER iteration: an update on `batch` stream rows, then one on as many replayed rows.

    Args:
      batch: global; one that the devices cannot share evenly is computed by each of them, which is
        what the code does.
      itemsize: bytes of an activation.
      seeds: runs in one program, which share the launches.
    """
    split = batch % devices == 0
    rows = batch // devices if split else batch
    settings = SIZES[model]["paper"]
    net = MODELS[model](vocabulary_rows=WORD_ROWS, feature_dim=FEATURE_DIM, **settings)
    shape = Shape(rows, bucket.text, bucket.objects, masked=COCO_MAX_SPAN)
    flops = seeds * model_flops(net, shape).train
    parameters = seeds * PARAMETERS[model]
    moved = seeds * _activation_bytes(settings, shape, itemsize) + UPDATE_BYTES * parameters
    launches = LAYER_LAUNCHES * _layers(settings) + OTHER_LAUNCHES
    one = Step(
        compute=flops / (EFFICIENCY * machine.flops),
        memory=moved / machine.bandwidth,
        launches=launches * machine.launch,
        collectives=all_reduce(4 * parameters, machine, devices) if split else 0.0,
    )
    return Step(*(2 * seconds for seconds in one))


def all_reduce(size: int, machine: Machine, devices: int) -> float:
    """Seconds to sum `size` bytes over the devices: rings in each group, then between them."""
    near = min(devices, machine.group)
    far = math.ceil(devices / machine.group)

    def ring(size: float, count: int, rate: float) -> float:
        hops = 2 * math.ceil(math.log2(count)) if count > 1 else 0
        return 2 * size * (count - 1) / count / rate + hops * machine.hop

    return ring(size, near, machine.link) + ring(size / near, far, machine.network)


def _layers(settings: dict[str, int]) -> int:
    """Layers, a cross-modal one counted as two."""
    return (
        settings["layers"] + settings.get("visual_layers", 0) + 2 * settings.get("cross_layers", 0)
    )


def _activation_bytes(settings: dict[str, int], shape: Shape, itemsize: int) -> int:
    positions = shape.text + shape.objects + 1
    vectors = HIDDEN_PASSES * settings["hidden"] * positions
    scores = SCORE_PASSES * settings["heads"] * positions**2
    logits = LOGIT_PASSES * shape.masked * WORD_ROWS * 4
    return shape.rows * (_layers(settings) * (vectors + scores) * itemsize + logits)


def step_table(machines: Sequence[str]) -> str:
    """Predicted steps of both models at a fixed batch and at a fixed batch per device."""
    rows: list[list[Any]] = []
    for name in machines:
        for model in MODELS:
            for devices in DEVICES:
                fixed = predict_step(model, MACHINES[name], devices)
                grown = predict_step(model, MACHINES[name], devices, BATCH * devices)
                hours = fixed.total * COCO_INSTANCES / BATCH / 3600
                parts = [1e3 * part for part in (*fixed, fixed.total)]
                rate = BATCH * devices / grown.total
                rows.append(
                    [f"{name}, {model}", devices, *parts, hours, 1e3 * grown.total, f"{rate:,.0f}"]
                )
    names = ["compute", "memory", "launches", "all-reduce"]
    header = ["machine", "devices", *names, "step ms", "pass h", "32 each: ms", "examples/s"]
    return table(header, rows)


def seed_table(machines: Sequence[str]) -> str:
    """Several seeds in one program on one device."""
    rows: list[list[Any]] = []
    for name in machines:
        for model in MODELS:
            one, all_of_them = (
                1e3 * predict_step(model, MACHINES[name], seeds=seeds).total for seeds in (1, SEEDS)
            )
            rows.append([f"{name}, {model}", one, all_of_them, all_of_them / one])
    return table(["machine", "one seed, ms", f"{SEEDS} seeds, ms", "ratio"], rows)


def demand_table(machines: Sequence[str]) -> str:
    """What a host has to deliver and to write, at 32 + 32 examples per device."""
    features = 2 * BATCH * TYPICAL.objects * FEATURE_DIM * 2
    rows: list[list[Any]] = []
    for name in machines:
        machine = MACHINES[name]
        for model, parameters in PARAMETERS.items():
            step = predict_step(model, machine, DEVICES[-1], BATCH * DEVICES[-1]).total
            rate = machine.host * features / step
            checkpoint = 12 * parameters / 1e6
            rows.append([f"{name}, {model}", rate / 1e9, checkpoint, 4 * CAPACITY / 1e6])
    return table(["machine", "features GB/s", "checkpoint MB", "memory of 10k, MB"], rows)


def against(path: pathlib.Path) -> str:
    """The model beside a bench's ER cases: one machine with the peak that the bench has found.

    Raises:
      UserError: the bench was not of the published size.
    """
    bench = read_json(path)
    check_choice("the bench's --size", bench["size"], ("paper",))
    itemsize = 2 if bench["dtype"] == "bfloat16" else 4
    here = Machine(bench["peak"], _memory_rate(), 1.0, 1.0, 1, 0.0, 0.0, 1)
    rows: list[list[Any]] = []
    for case in bench["cases"]:
        if case["algorithm"] == "er":
            step = predict_step(
                case["model"],
                here,
                batch=case["batch_size"],
                # Packed, about as much work as at a padded shape that is nowhere empty.
                bucket=Bucket(*(case.get("room") or bench["bucket"])[:2]),
                itemsize=itemsize,
            )
            measured = case["host_ms"]
            predicted = 1e3 * step.total
            parts = [1e3 * step.compute, 1e3 * step.memory]
            rows.append([case["name"], *parts, predicted, measured, measured / predicted])
    header = ["case", "compute", "memory", "predicted ms", "measured ms", "ratio"]
    return table(header, rows)


def _memory_rate(size: int = 1 << 26, repeats: int = 7) -> float:
    """Bytes per second of reading and writing large arrays on the default device."""
    x = jax.numpy.zeros((size // 4,), jax.numpy.float32)
    add = jax.jit(lambda x: x + 1)
    add(x).block_until_ready()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        add(x).block_until_ready()
        found.append(time.perf_counter() - began)
    return 2 * size / min(found)


def _size(bucket: Bucket) -> str:
    return f"padded to {bucket.text} text positions and {bucket.objects} objects"


def report(machines: Sequence[str]) -> str:
    """All tables that need no measurement."""
    parts = [
        f"ER, {BATCH} + {BATCH} examples {_size(TYPICAL)}, bfloat16; milliseconds",
        step_table(machines),
        f"{SEEDS} seeds in one program, one device",
        seed_table(machines),
        f"per host, {BATCH} + {BATCH} examples per device on {DEVICES[-1]} devices",
        demand_table(machines),
    ]
    return "\n\n".join(parts)


def main(argv: list[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m mmgen.benchmark.scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--machines", default=",".join(MACHINES), help="names, separated by commas")
    parser.add_argument("--against", type=pathlib.Path, help="JSON file of `python -m mmgen.bench`")
    arguments = parser.parse_args(argv)
    machines = arguments.machines.split(",")
    for name in machines:
        check_choice("--machines", name, MACHINES)
    print(report(machines))
    if arguments.against:
        print(f"\n{arguments.against}\n")
        print(against(arguments.against))


if __name__ == "__main__":
    main()
