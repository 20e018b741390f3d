"""ER-MIR with a 1k memory on VisCOLL (Table 2, row ER+MIR, 1,000).

python -m mmgen.main --config=configs/visCOLL_mir1k.py

scene_world (the default): about 70 s on one CPU core; test log-PPL 2.28 +- 0.05 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 3.34 / 3.16; Flickr-shift 5.12 / 4.95.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_mir1k"
    config.algorithm.name = "mir"
    config.memory.policy = "reservoir"
    config.memory.size = "1k"
    return apply_arguments(config, argument)
