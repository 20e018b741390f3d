"""Online EWC, task-free, on VisCOLL (beyond the paper).

python -m mmgen.main --config=configs/visCOLL_ewc.py

scene_world (the default): about 50 s on one CPU core; test log-PPL 3.37 +- 0.05 over 2 seeds.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_ewc"
    config.algorithm.name = "ewc"
    return apply_arguments(config, argument)
