"""Audio and language on CompAct (Table 1, row AL).

python -m mmgen.main --config=configs/compact_al.py[:task=utterance|verb|noun,split=mcd,...]

kitchen_world (the default): about 110 s on one CPU core; CA 16.8 +- 0.4 over 5 seeds.
Published: BLEU 30.82 +- 0.5, EM 6.81 +- 0.5, CA 13.22 +- 0.9.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_al"
    config.model.inputs = ("audio",)
    return compact_arguments(config, argument)
