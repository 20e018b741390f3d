"""ER-MIR-max with a 10k memory on VisCOLL (Table 2, row ER+MIRmax, 10,000).

python -m mmgen.main --config=configs/visCOLL_mirmax10k.py

scene_world (the default): about 70 s on one CPU core; test log-PPL 1.84 +- 0.02 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 2.47 / 2.38; Flickr-shift 3.56 / 3.23.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_mirmax10k"
    config.algorithm.name = "mir"
    config.algorithm.aggregate = "max"
    config.memory.policy = "reservoir"
    config.memory.size = "10k"
    return apply_arguments(config, argument)
