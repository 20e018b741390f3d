"""The prompted benchmarks: name -> the function that makes it from a config."""

import importlib

from ml_collections import ConfigDict

from mmgen.prompting.benchmark import Benchmark
from mmgen.settings.suggest import check_choice

BENCHMARKS = {
    "macid": "mmgen.prompting.benchmarks.macid:make",
    "cobsat": "mmgen.prompting.benchmarks.cobsat:make",
    "compact": "mmgen.prompting.benchmarks.compact:make",
}
"""`config.benchmark` -> `package.module:make`, a function `(resolved config) -> Benchmark`."""


def make_benchmark(config: ConfigDict) -> Benchmark:
    """The benchmark that `config.benchmark` names; "package.module:make" plugs in another one."""
    name = config.benchmark
    if ":" not in name:
        check_choice("config.benchmark", name, BENCHMARKS)
    module, function = BENCHMARKS.get(name, name).split(":")
    return getattr(importlib.import_module(module), function)(config)
