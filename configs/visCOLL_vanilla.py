"""VisCOLL without a memory: one update per stream batch (Table 2, row Vanilla).

python -m mmgen.main --config=configs/visCOLL_vanilla.py

scene_world (the default): about 30 s on one CPU core; test log-PPL 3.30 +- 0.13 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 5.04 / 5.19; Flickr-shift 5.69 / 6.11.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_vanilla"
    return apply_arguments(config, argument)
