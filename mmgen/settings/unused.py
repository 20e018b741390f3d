"""Settings that a run would not read are refused: they would still make it another run."""

from collections.abc import Collection

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.settings.command_line import flat_keys
from mmgen.settings.defaults import default_config
from mmgen.settings.resolve import BALANCED

OF_POLICY = {
    "memory.reservoir": ("reservoir",),
    "memory.divergence": BALANCED,
    "memory.count_stop_words": BALANCED,
}
"""Keys that only some values of `memory.policy` read."""

WITHOUT_MEMORY = ("plain", "ewc", "si", "lwf")
"""Algorithms that never replay: a memory would be filled and not read."""

OF_SCORING = ("algorithm.aggregate", "algorithm.scoring_dropout")
"""Keys of MIR that mean nothing without its virtual step."""

NOT_OF_MODEL = {
    "vlbert": ("model.visual_layers", "model.cross_layers"),
    "lxmert": ("model.box_geometry",),
}
"""Keys that a model does not read."""


def check_used(config: ConfigDict, algorithm_settings: Collection[str]) -> None:
    """Refuses a value that differs from its default and that nothing of this run reads.

    Args:
      config: recorded choices, not yet resolved.
      algorithm_settings: names that the algorithm's factory takes.

    Raises:
      UserError: such a key, and what reads it.
    """
    defaults = flat_keys(default_config())
    for key, value in flat_keys(config).items():
        if value == defaults.get(key):
            continue
        group, _, name = key.partition(".")
        if group == "algorithm" and name != "name" and name not in algorithm_settings:
            readable = [
                path.partition(".")[2]
                for path in defaults
                if path.startswith("algorithm.") and path.partition(".")[2] in algorithm_settings
            ]
            refuse(
                key,
                value,
                f"config.algorithm.name='{config.algorithm.name}' reads "
                f"{', '.join(readable) or 'no setting'}",
            )
        if key == "memory.policy" and config.algorithm.name in WITHOUT_MEMORY:
            refuse(key, value, f"config.algorithm.name='{config.algorithm.name}' never replays")
        if config.memory.policy not in OF_POLICY.get(key, (config.memory.policy,)):
            policies = " or ".join(f"'{policy}'" for policy in OF_POLICY[key])
            refuse(key, value, f"only config.memory.policy={policies} reads it")
        if key in NOT_OF_MODEL.get(config.model.factory, ()):
            refuse(key, value, f"config.model.factory='{config.model.factory}' does not read it")
        if key == "stream.reshuffle" and config.stream.kind != "iid_epochs":
            refuse(key, value, "only config.stream.kind='iid_epochs' reads it")
        if key == "dataset.shuffle_features" and config.text_only:
            refuse(key, value, f"config.text_only='{config.text_only}' shows no features")
        if key in OF_SCORING and config.algorithm.virtual_step == "none":
            refuse(key, value, "config.algorithm.virtual_step='none' scores no candidate")
        if key == "buckets.max" and config.buckets.text is not None:
            refuse(key, value, "config.buckets.text says how many there are")


def refuse(key: str, value: object, why: str) -> None:
    """UserError for a key that nothing reads, and why."""
    raise UserError(f"config.{key} is {value!r}, but {why}; leave it out.")
