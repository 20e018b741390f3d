"""One pass over the shuffled stream (Table 2, row Offline (one pass)).

python -m mmgen.main --config=configs/visCOLL_onepass.py

scene_world (the default): about 30 s on one CPU core; test log-PPL 1.59 +- 0.01 over 5 seeds.
Published log-PPL, VLBERT / LXMERT: COCO-shift 1.61 / 1.78; Flickr-shift 2.59 / 2.64.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_onepass"
    config.stream.kind = "iid"
    return apply_arguments(config, argument)
