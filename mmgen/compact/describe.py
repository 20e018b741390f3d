"""`--describe` of a CompAct run: what it would be, without training it."""

import jax
from ml_collections import ConfigDict

from mmgen.benchmark.flops import count_flops
from mmgen.compact.experiment import CompactExperiment, prepare
from mmgen.core.rng import stream_key
from mmgen.describe import parameter_lines
from mmgen.settings.command_line import flat_keys

PUBLISHED = {
    "compact_l": (4.8, 2.1),
    "compact_ol": (12.0, 9.3),
    "compact_vl": (12.5, 9.7),
    "compact_al": (12.0, 9.3),
    "compact_avl": (12.6, 9.9),
    "compact_oal": (12.1, 9.4),
    "compact_merlotr": (12.1, 9.4),
    "compact_imagebind": (8.4, 5.7),
}
"""Table 6: millions of parameters for utterances, and for atoms."""


def describe(config: ConfigDict) -> str:
    """The resolved config, data set, parameters beside the published ones, FLOPs, as text."""
    experiment = prepare(config)
    resolved = flat_keys(experiment.config)
    lines = ["config (resolved):"]
    lines += [f"  {key} = {value!r}" for key, value in sorted(resolved.items())]
    lines += ["", *_data_lines(experiment), "", *_model_lines(experiment)]
    return "\n".join(lines)


def _data_lines(experiment: CompactExperiment) -> list[str]:
    info, config = experiment.dataset.info, experiment.config
    lines = [f"data set: {info['name']}", f"fingerprint: {info['fingerprint']}"]
    lines += [
        f"  {name}: {facts['examples']:,} examples of {facts['videos']:,} videos"
        for name, facts in info["splits"].items()
    ]
    lines.append(f"vocabulary: {len(experiment.inputs.vocabulary):,} tokens")
    if experiment.inputs.labels is not None:
        lines.append(f"labels: {len(experiment.inputs.labels):,}")
    for name, store in experiment.inputs.features.items():
        lines.append(f"  {name}: {'x'.join(map(str, store.shape))}")
    lines.append(
        f"iterations: at most {experiment.num_steps:,} of {config.batch_size}, "
        f"{experiment.steps_per_epoch:,} an epoch"
    )
    shapes = ", ".join(f"{w.text} input + {w.target} target" for w in experiment.widths)
    return [*lines, f"evaluations: at most {len(experiment.eval_steps):,}", f"buckets: {shapes}"]


def _model_lines(experiment: CompactExperiment) -> list[str]:
    state = jax.eval_shape(experiment.init, stream_key(0, "init"))
    lines = parameter_lines(state.params)
    published = PUBLISHED.get(experiment.config.name)
    if published:
        millions = published[experiment.config.task != "utterance"]
        lines.append(f"paper: {millions}M parameters ({experiment.config.name})")
    feed = experiment.feeds()[0]
    flops = count_flops(experiment.algorithm.step, state, feed, stream_key(0, "step"))
    return [*lines, f"FLOPs of the first step: {flops:.3e}"]
