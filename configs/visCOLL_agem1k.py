"""AGEM with a 1k memory on VisCOLL (Table 2, row AGEM, 1,000).

python -m mmgen.main --config=configs/visCOLL_agem1k.py

scene_world (the default): about 90 s on one CPU core; test log-PPL 3.03 +- 0.11 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 3.48 / 3.41; Flickr-shift 4.49 / 5.25.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_agem1k"
    config.algorithm.name = "agem"
    config.memory.policy = "reservoir"
    config.memory.size = "1k"
    return apply_arguments(config, argument)
