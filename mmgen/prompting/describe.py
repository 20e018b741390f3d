"""`--describe`: what a prompted run would ask, without asking it."""

from ml_collections import ConfigDict

from mmgen.prompting.benchmark import Benchmark, Traits
from mmgen.prompting.benchmarks import make_benchmark
from mmgen.prompting.requests import Request, Text
from mmgen.settings.command_line import flat_keys
from mmgen.settings.prompting import prompting_workdir
from mmgen.settings.resolve_prompting import resolve

ABLE = Traits({}, reads_images=True, paints=True, scores_choices=True)
"""A model that can be asked anything; which one answers is not opened to describe a run."""


def describe(config: ConfigDict) -> str:
    """The resolved config, the data set, the number of requests and the first prompt, as text."""
    config = resolve(config)
    benchmark = make_benchmark(config)
    lines = ["config (resolved):"]
    lines += [f"  {key} = {value!r}" for key, value in sorted(flat_keys(config).items())]
    dataset = benchmark.dataset
    lines += ["", f"data set: {dataset['name']}", f"fingerprint: {dataset['fingerprint']}"]
    lines += [f"workdir: {prompting_workdir(config, dataset)}", "", *_stages(benchmark)]
    return "\n".join(lines)


def _stages(benchmark: Benchmark) -> list[str]:
    lines: list[str] = []
    first: Request | None = None
    for stage in benchmark.stages:
        requests = stage.requests(ABLE, {name.name: {} for name in benchmark.stages})
        later = "" if requests else " (depends on the answers before)"
        lines.append(f"stage {stage.name} asks the {stage.role}: {len(requests):,} requests{later}")
        first = first or next(iter(requests), None)
    return [*lines, "", "first request:", *prompt_lines(first)] if first else lines


def prompt_lines(request: Request) -> list[str]:
    """A request for a person to read: pictures as their files."""
    lines = [f"  [system] {request.system}"] if request.system else []
    for turn in request.turns:
        shown = [
            part.text if isinstance(part, Text) else f"<picture {part.path or 'in memory'}>"
            for part in turn.parts
        ]
        role = "text" if request.raw else turn.role
        lines += [f"  [{role}] {line}" for line in "".join(shown).split("\n")]
    if request.choices:
        lines.append(f"  [choices] {' | '.join(map(repr, request.choices))}")
    return lines
