"""Vision and language on CompAct (Table 1, row VL).

python -m mmgen.main --config=configs/compact_vl.py[:task=utterance|verb|noun,split=mcd,...]

kitchen_world (the default): about 100 s on one CPU core; CA 10.5 +- 0.4 over 5 seeds.
Published: BLEU 31.25 +- 0.3, EM 7.27 +- 0.1, CA 12.95 +- 0.4.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_vl"
    config.model.inputs = ("vision+objects",)
    return compact_arguments(config, argument)
