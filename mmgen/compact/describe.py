"""`--describe` of a CompAct run: what it would be, without training it."""

import jax
from ml_collections import ConfigDict

from mmgen.benchmark.flops import count_flops
from mmgen.compact.experiment import CompactExperiment, prepare
from mmgen.core.rng import stream_key
from mmgen.describe import parameter_lines
from mmgen.report.compact_cells import MODELS, PAPER
from mmgen.report.published import Row, find_row
from mmgen.settings.command_line import flat_keys


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
    row = published_size(experiment)
    if row:
        task = "utterance" if experiment.config.task == "utterance" else "atom"
        lines.append(f"paper: {row[f'{task}_parameters']}M parameters ({row['model']}, Table 6)")
    feed = experiment.feeds()[0]
    flops = count_flops(experiment.algorithm.step, state, feed, stream_key(0, "step"))
    return [*lines, f"FLOPs of the first step: {flops:.3e}"]


def published_size(experiment: CompactExperiment) -> Row | None:
    """The row of Table 6 of a model with these inputs, None if the paper has none."""
    model = experiment.config.model
    name = MODELS.get((model.language, tuple(model.inputs)))
    return find_row(PAPER, "table6", model=name) if name else None
