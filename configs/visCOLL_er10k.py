"""Experience replay with a 10k memory on VisCOLL (Table 2, row ER, 10,000).

python -m mmgen.main --config=configs/visCOLL_er10k.py

scene_world (the default): about 50 s on one CPU core; test log-PPL 1.97 +- 0.05 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 2.43 / 2.43; Flickr-shift 3.49 / 3.20.
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
