"""Audio, vision and language on CompAct (Table 1, row AVL).

python -m mmgen.main --config=configs/compact_avl.py[:task=utterance|verb|noun,split=mcd,...]

kitchen_world (the default): about 100 s on one CPU core; CA 27.8 +- 0.6 over 5 seeds.
Published: BLEU 31.73 +- 0.4, EM 7.04 +- 0.4, CA 12.93 +- 0.8.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_avl"
    config.model.inputs = ("vision+objects", "audio")
    return compact_arguments(config, argument)
