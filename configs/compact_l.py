"""Text alone on CompAct (Table 1, row L).

python -m mmgen.main --config=configs/compact_l.py[:task=utterance|verb|noun,split=mcd,...]

kitchen_world (the default): about 40 s on one CPU core; CA 6.9 +- 0.4 over 5 seeds.
Published: BLEU 21.75 +- 1.0, EM 2.89 +- 0.3, CA 6.43 +- 0.2.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_l"
    return compact_arguments(config, argument)
