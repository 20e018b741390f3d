"""Synaptic intelligence, task-free, on VisCOLL (beyond the paper).

python -m mmgen.main --config=configs/visCOLL_si.py

scene_world (the default): about 80 s on one CPU core; test log-PPL 2.83 +- 0.07 over 5 seeds.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_si"
    config.algorithm.name = "si"
    # The best of 1 to 1e5 on scene_world's validation split (mmgen.search --share 1, seed 0).
    config.algorithm.weight = 1e4
    return apply_arguments(config, argument)
