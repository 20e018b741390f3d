"""MERLOT Reserve's features and language on CompAct (Table 1, row MerlotR).

python -m mmgen.main --config=configs/compact_merlotr.py[:task=utterance|verb|noun,split=mcd,...]

Published: BLEU 31.5 +- 0.3, EM 6.75 +- 0.2, CA 12.85 +- 0.1.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_merlotr"
    config.model.inputs = ("merlot_vision+merlot_audio",)
    return compact_arguments(config, argument)
