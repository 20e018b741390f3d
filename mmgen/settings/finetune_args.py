"""The argument after the colon of a fine-tuning config: `configs/cobsat_lora.py:model=...,shots=4`.

smoke        a few updates on a few prompts
model=SPEC   jax:FOLDER or jax-package:NAME
shots= split= theme= tasks= prompt= epochs= limit= rank= seed= dataset=
             the key of that name; several tasks are joined by +
"""

from ml_collections import ConfigDict

from mmgen.settings.args import Argument, check_bare, key
from mmgen.settings.args import apply_arguments as apply


def _smoke(config: ConfigDict, value: str) -> None:
    check_bare("smoke", value)
    config.finetune.limit = 16
    config.finetune.epochs = 2
    config.finetune.remat = False
    config.lora.rank = 4
    config.evaluation.limit = 8
    config.evaluation.count = 1
    config.evaluation.max_tokens = 24


def _joined(value: str) -> tuple[str, ...]:
    return tuple(value.split("+"))


ARGUMENTS: dict[str, Argument] = {
    "smoke": _smoke,
    "model": key("model.spec"),
    "dtype": key("model.dtype"),
    "dataset": key("dataset.name"),
    "seed": key("seed", int),
    "data_seed": key("data_seed", int),
    "shots": key("finetune.shots", int),
    "split": key("finetune.split"),
    "theme": key("finetune.theme"),
    "tasks": key("finetune.tasks", _joined),
    "prompt": key("finetune.prompt"),
    "epochs": key("finetune.epochs", int),
    "limit": key("finetune.limit", int),
    "rank": key("lora.rank", int),
}
"""Name -> how it changes the config."""


def apply_arguments(config: ConfigDict, argument: str) -> ConfigDict:
    """Applies `"smoke,shots=4"` to `config` in place, locks it and returns it.

    Raises:
      UserError: unknown argument, missing or unusable value.
    """
    return apply(config, argument, ARGUMENTS)
