"""From recorded choices of a fine-tuning run to a complete configuration, after all overrides."""

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.models.lm.lora import LoraConfig, check_lora
from mmgen.prompting.cobsat.instructions import MODELS, TABLES
from mmgen.settings.resolve import get
from mmgen.settings.seeds import check_seeds
from mmgen.settings.suggest import check_choice

CHOICES: dict[str, tuple] = {
    "finetune.split": ("all", "leave_one_out"),
    "finetune.prompt": ("default", "instruct", "caption"),
    "finetune.instructions": MODELS,
    "finetune.table": TABLES,
    "model.dtype": ("float32", "bfloat16"),
}
"""Keys with a closed set of values."""

COUNTS = (
    "finetune.epochs",
    "finetune.batch_size",
    "finetune.accumulation",
    "finetune.max_length",
    "finetune.limit",
    "evaluation.count",
    "evaluation.batch_size",
    "evaluation.max_tokens",
    "evaluation.limit",
    "checkpoint.every",
    "logging.every",
)
"""Keys that are positive numbers, where they are set."""


def resolve(config: ConfigDict) -> ConfigDict:
    """A locked copy with every value checked.

    Raises:
      UserError: a value that is not one of those there are, or out of range.
    """
    config = config.copy_and_resolve_references().unlock()
    if config.finetune.prompt is None:
        is_package = config.model.spec.startswith("jax-package:")
        config.finetune.prompt = "caption" if is_package else "default"
    for path, choices in CHOICES.items():
        check_choice(f"config.{path}", get(config, path), choices)
    check_seeds(config)
    for path in COUNTS:
        value = get(config, path)
        if value is not None and value < 1:
            raise UserError(f"config.{path} is {value}; it must be at least 1.")
    left_out = config.finetune.split == "leave_one_out"
    if left_out != bool(config.finetune.theme):
        raise UserError(
            "config.finetune.theme names the theme that split=leave_one_out leaves out: "
            + ("give it." if left_out else "leave it empty for split=all.")
        )
    if not 0 <= config.optimizer.warm_up <= 1:
        raise UserError(
            f"config.optimizer.warm_up is {config.optimizer.warm_up}; it is a share, in [0, 1]."
        )
    check_lora(lora_config(config))
    return config.lock()


def lora_config(config: ConfigDict) -> LoraConfig:
    """The adapters that `config.lora` describes."""
    chosen = config.lora
    return LoraConfig(chosen.rank, chosen.alpha, chosen.dropout, tuple(chosen.targets))
