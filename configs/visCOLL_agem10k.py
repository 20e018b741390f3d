"""AGEM with a 10k memory on VisCOLL (Table 2, row AGEM, 10,000).

python -m mmgen.main --config=configs/visCOLL_agem10k.py

scene_world (the default): about 90 s on one CPU core; test log-PPL 3.14 +- 0.20 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 3.27 / 3.23; Flickr-shift 4.39 / 5.07.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_agem10k"
    config.algorithm.name = "agem"
    config.memory.policy = "reservoir"
    config.memory.size = "10k"
    return apply_arguments(config, argument)
