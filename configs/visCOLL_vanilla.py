"""VisCOLL without a memory: one update per stream batch (Table 2, row Vanilla).

python -m mmgen.main --config=configs/visCOLL_vanilla.py
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_vanilla"
    return apply_arguments(config, argument)
