"""The argument after a config file's colon: `configs/f.py:smoke,model=lxmert,profile=release`.

An argument only records a choice; what follows from it is decided in `resolve`, so that
`:profile=release` and `--config.profile=release` are the same run.
"""

from collections.abc import Callable, Mapping

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.settings.suggest import closest

Argument = Callable[[ConfigDict, str], None]
"""Changes a config by the argument's value, "" if it has none."""


def check_bare(name: str, value: str) -> None:
    """Refuses a value for an argument that takes none."""
    if value:
        raise UserError(f"The argument '{name}' takes no value; write ':{name}'.")


def _smoke(config: ConfigDict, value: str) -> None:
    """Seconds instead of minutes: a tiny world, a tiny model, twenty iterations."""
    check_bare("smoke", value)
    config.dataset.instances = 640
    config.dataset.validation_items = 64
    config.dataset.test_items = 200
    config.dataset.novel_items = 80
    config.model.size = "smoke"
    config.evaluation.subset = 100
    config.evaluation.count = 2


def _text_only(config: ConfigDict, value: str) -> None:
    config.text_only = value or "zero"


def key(path: str, kind: Callable[[str], object] = str) -> Argument:
    """The argument that sets the key at a dotted path, its value read by `kind`."""

    def apply(config: ConfigDict, value: str) -> None:
        name = path.rsplit(".", 1)[-1]
        if not value:
            raise UserError(f"The argument '{name}' needs a value, as in ':{name}=VALUE'.")
        try:
            converted = kind(value)
        except ValueError:
            raise UserError(f"The argument '{name}' got {value!r}, which is no number.") from None
        node = config
        *groups, last = path.split(".")
        for group in groups:
            node = node[group]
        node[last] = converted

    return apply


ARGUMENTS: dict[str, Argument] = {
    "smoke": _smoke,
    "text_only": _text_only,
    "model": key("model.factory"),
    "size": key("model.size"),
    "dataset": key("dataset.name"),
    "profile": key("profile"),
    "seed": key("seed", int),
    "data_seed": key("data_seed", int),
    "order": key("stream.order"),
    "memory": key("memory.size"),
    "residency": key("residency"),
}
"""Arguments of every masked-span config file: name -> how it changes the config."""


def apply_arguments(
    config: ConfigDict, argument: str, arguments: Mapping[str, Argument] = ARGUMENTS
) -> ConfigDict:
    """Applies `"smoke,model=lxmert"` to `config` in place, locks it and returns it.

    Args:
      config: recorded choices.
      argument: what follows the config file's colon.
      arguments: the arguments that this kind of run takes.

    Raises:
      UserError: unknown argument, missing or unusable value.
    """
    for part in filter(None, (p.strip() for p in (argument or "").split(","))):
        name, _, value = part.partition("=")
        if name not in arguments:
            raise UserError(
                f"Unknown argument '{name}' after the config file{closest(name, arguments)}; "
                f"it takes {', '.join(sorted(arguments))}."
            )
        arguments[name](config, value)
    return config.lock()
