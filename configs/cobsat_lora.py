"""LoRA on CoBSAT's fine-tuning split, described images as answers (section 7.1, Table 4).

python -m mmgen.main --config=configs/cobsat_lora.py:model=jax:DIR,shots=2

DIR is a LLaVA-1.5 folder (images in the prompts). With a text model give prompt=caption. One model
per number of shots; the paper has 2 and 4. Leave one theme out: split=leave_one_out,theme=color.
The adapters are asked afterwards by model=jax:DIR,adapter=WORKDIR/adapter in any prompted config.
"""

from ml_collections import ConfigDict

from mmgen.settings.finetune import finetune_config
from mmgen.settings.finetune_args import apply_arguments


def get_config(argument: str = "") -> ConfigDict:
    config = finetune_config()
    config.name = "cobsat_lora"
    return apply_arguments(config, argument)
