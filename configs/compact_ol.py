"""Object tags and language on CompAct (Table 1, row OL).

python -m mmgen.main --config=configs/compact_ol.py[:task=utterance|verb|noun,split=mcd,...]

Published: BLEU 30.79 +- 0.6, EM 6.36 +- 0.2, CA 12.21 +- 0.1.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_ol"
    config.model.inputs = ("tags",)
    return compact_arguments(config, argument)
