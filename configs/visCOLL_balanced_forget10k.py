"""Experience replay from a balanced-forget memory of 10k on VisCOLL (Fig. 9).

python -m mmgen.main --config=configs/visCOLL_balanced_forget10k.py

scene_world (the default): about 50 s on one CPU core; test log-PPL 1.99 +- 0.04 over 5 seeds.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_balanced_forget10k"
    config.algorithm.name = "er"
    config.memory.policy = "balanced_forget"
    config.memory.size = "10k"
    return apply_arguments(config, argument)
