"""As `mmgen.settings.unused`, for CompAct: settings that a run would not read are refused."""

from typing import Any

from ml_collections import ConfigDict

from mmgen.settings.command_line import flat_keys
from mmgen.settings.compact import compact_config
from mmgen.settings.unused import refuse

OF_FUSION = (
    "model.fusion",
    "model.two_way",
    "model.swap_query",
    "model.cross_layers",
    "model.cross_mlp",
    "model.fused_layers",
)
"""Keys that nothing reads where there is but one sequence."""

OF_FUSIONS = {
    "model.two_way": ("cross",),
    "model.swap_query": ("cross",),
    "model.fused_layers": ("cross", "gated"),
}
"""Keys that only some values of `model.fusion` read."""

OF_WORDS = ("model.layers", "model.mlp")
"""Keys of what reads or writes words."""


def check_used(config: ConfigDict) -> None:
    """Refuses a value that differs from its default and that nothing of this run reads.

    Args:
      config: recorded choices of a CompAct run, not yet resolved.

    Raises:
      UserError: such a key, and what reads it.
    """
    usual = flat_keys(compact_config())
    for key, value in flat_keys(config).items():
        if key in usual and value != usual[key]:
            why = _unread(config, key, value)
            if why:
                refuse(key, value, why)


def _unread(config: ConfigDict, key: str, value: Any) -> str:
    """Why nothing reads a key, "" if something does."""
    model = config.model
    if key in OF_FUSION and not model.inputs:
        return "config.model.inputs is empty, so that there is nothing to fuse"
    # No layers of a stack that is not there: it is said as it is.
    is_absent = key == "model.fused_layers" and value == 0
    if not is_absent and model.fusion not in OF_FUSIONS.get(key, (model.fusion,)):
        fusions = " or ".join(f"'{name}'" for name in OF_FUSIONS[key])
        return f"only config.model.fusion={fusions} reads it"
    if key.startswith("decoding.") and config.task != "utterance":
        return "only config.task='utterance' reads it"
    if key == "decoding.length_penalty" and config.decoding.beams == 1:
        return "config.decoding.beams=1 has no other to choose from"
    if key == "model.classifier" and config.task == "utterance":
        return "only config.task='verb' or 'noun' reads it"
    if key in OF_WORDS and model.language != "words" and config.task != "utterance":
        return f"config.task='{config.task}' on features has neither a text encoder nor a decoder"
    return ""
