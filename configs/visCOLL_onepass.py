"""One pass over the shuffled stream (Table 2, row Offline (one pass)).

python -m mmgen.main --config=configs/visCOLL_onepass.py
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_onepass"
    config.stream.kind = "iid"
    return apply_arguments(config, argument)
