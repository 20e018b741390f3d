"""Experience replay with a 1k memory on VisCOLL (Table 2, row ER, 1,000).

python -m mmgen.main --config=configs/visCOLL_er1k.py

scene_world (the default): about 50 s on one CPU core; test log-PPL 2.35 +- 0.07 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 3.32 / 3.15; Flickr-shift 5.02 / 4.95.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_er1k"
    config.algorithm.name = "er"
    config.memory.policy = "reservoir"
    config.memory.size = "1k"
    return apply_arguments(config, argument)
