"""`--describe`: what a run would be, without training it."""

import jax
import numpy as np
from ml_collections import ConfigDict

from mmgen.benchmark.flops import count_flops
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState, parameter_count
from mmgen.experiment import Experiment, prepare
from mmgen.report.published import published
from mmgen.settings.command_line import flat_keys


def describe(config: ConfigDict) -> str:
    """The resolved config, data set, parameters, FLOPs of a step and bytes of memory, as text."""
    experiment = prepare(config)
    state = jax.eval_shape(experiment.init, stream_key(0, "init"))
    resolved = flat_keys(experiment.config)
    lines = ["config (resolved):"]
    lines += [f"  {key} = {value!r}" for key, value in sorted(resolved.items())]
    lines += ["", *_data_lines(experiment), "", *_parameter_lines(experiment, state), ""]
    lines += _cost_lines(experiment, state)
    return "\n".join(lines)


def _data_lines(experiment: Experiment) -> list[str]:
    info = experiment.dataset.info
    lines = [
        f"data set: {info['name']}",
        f"fingerprint: {info['fingerprint']}",
        f"vocabulary: {info['vocabulary']['size']} tokens",
        f"tasks: {len(info['tasks'])}",
    ]
    for name, split in info["splits"].items():
        lines.append(f"  {name}: {split['examples']:,} examples, {split['images']:,} images")
    lines.append(f"iterations: {experiment.num_steps:,} of {experiment.config.batch_size}")
    lines.append(f"evaluations after: {', '.join(map(str, experiment.eval_steps))}")
    shapes = ", ".join(f"{b.text} text + {b.objects} objects" for b in experiment.buckets)
    lines.append(f"buckets: {shapes}")
    return lines


def parameter_lines(params: object) -> list[str]:
    """Every parameter with its shape and size, and how many numbers that is."""
    rows = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = "/".join(str(getattr(p, "key", getattr(p, "name", p))) for p in path)
        rows.append((name, "x".join(map(str, leaf.shape)) or "scalar", f"{leaf.size:,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"  {n:<{widths[0]}}  {s:>{widths[1]}}  {c:>{widths[2]}}" for n, s, c in rows]
    return [*lines, f"parameters: {parameter_count(params)}"]


def _parameter_lines(experiment: Experiment, state: TrainState) -> list[str]:
    lines = parameter_lines(state.params)
    paper = published("viscoll")["parameters"].get(experiment.config.model.factory)
    if paper:
        lines.append(f"paper: {paper} parameters ({experiment.config.model.factory})")
    return lines


def _bytes(tree: object) -> int:
    return sum(
        leaf.size * np.dtype(leaf.dtype).itemsize
        for leaf in jax.tree.leaves(tree)
        if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    )


def _cost_lines(experiment: Experiment, state: TrainState) -> list[str]:
    config = experiment.config
    lines = []
    feeds = experiment.feeds()
    counted = "steps by their stream rows" if experiment.draw else "steps"
    for index, bucket in enumerate(feeds.buckets):
        used = np.flatnonzero(feeds.bucket_index == index)
        if len(used):
            feed = feeds[int(used[0])]
            flops = count_flops(experiment.algorithm.step, state, feed, stream_key(0, "step"))
            shape = f"{bucket.text} text + {bucket.objects} objects"
            if bucket.room:
                shape += f", packed to {bucket.room.text} + {bucket.room.objects}"
            lines.append(f"FLOPs per step ({shape}, {len(used):,} {counted}): {flops:.3e}")
    lines.append(f"bytes of parameters: {_bytes(state.params):,}")
    lines.append(f"bytes of optimizer state: {_bytes(state.opt_state):,}")
    share = config.memory.capacity / max(1, len(experiment.stream_rows))
    lines.append(
        f"bytes of replay memory: {_bytes(state.memory):,} "
        f"({config.memory.capacity:,} slots, {share:.2%} of the stream)"
    )
    lines.append(f"bytes of algorithm state: {_bytes(state.extras):,}")
    return lines
