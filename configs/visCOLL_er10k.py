"""Experience replay with a 10k memory on VisCOLL (Table 2, row ER, 10,000).

python -m mmgen.main --config=configs/visCOLL_er10k.py
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_er10k"
    config.algorithm.name = "er"
    config.memory.policy = "reservoir"
    config.memory.size = "10k"
    return apply_arguments(config, argument)
