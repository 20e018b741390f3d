"""Object tags, audio and language on CompAct (Table 1, row OAL).

python -m mmgen.main --config=configs/compact_oal.py[:task=utterance|verb|noun,split=mcd,...]

Published: BLEU 32.02 +- 0.2, EM 7.32 +- 0.6, CA 13.08 +- 0.9.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_oal"
    config.model.inputs = ("tags", "audio")
    return compact_arguments(config, argument)
