"""Text alone on CompAct (Table 1, row L).

python -m mmgen.main --config=configs/compact_l.py[:task=utterance|verb|noun,split=mcd,...]
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_l"
    return compact_arguments(config, argument)
