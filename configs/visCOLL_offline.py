"""Several shuffled epochs (Table 2, row Offline); the paper gives no number of epochs, the released
script evaluates after six.

    python -m mmgen.main --config=configs/visCOLL_offline.py

Published log-PPL, VLBERT / LXMERT: COCO-shift 1.44 / 1.50; Flickr-shift 2.02 / 2.02.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_offline"
    config.stream.kind = "iid_epochs"
    config.total.epochs = 6.0
    return apply_arguments(config, argument)
