"""A decoder on ImageBind's features of CompAct (Table 1, row ImageBind).

python -m mmgen.main --config=configs/compact_imagebind.py[:task=utterance|verb|noun,split=mcd,...]

Published: BLEU 33.52 +- 0.3, EM 9.45 +- 0.5, CA 15.04 +- 1.0.
"""

from ml_collections import ConfigDict

from mmgen.settings.compact import compact_arguments, compact_config


def get_config(argument: str = "") -> ConfigDict:
    config = compact_config()
    config.name = "compact_imagebind"
    config.model.language = "imagebind_text"
    config.model.inputs = ("imagebind_vision", "imagebind_audio")
    # Two cross-modal blocks and no self-attention behind them: the published parameter total.
    config.model.fused_layers = 0
    return compact_arguments(config, argument)
