"""The argument after a config file's colon: `configs/f.py:smoke,model=lxmert,profile=release`.

An argument only records a choice; what follows from it is decided in `resolve`, so that
`:profile=release` and `--config.profile=release` are the same run.
"""

from collections.abc import Callable

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.settings.suggest import closest


def _smoke(config: ConfigDict, value: str) -> None:
    """Seconds instead of minutes: a tiny world, a tiny model, twenty iterations."""
    if value:
        raise UserError("The argument 'smoke' takes no value; write ':smoke'.")
    config.dataset.instances = 640
    config.dataset.validation_items = 64
    config.dataset.test_items = 200
    config.dataset.novel_items = 80
    config.model.size = "smoke"
    config.evaluation.subset = 100
    config.evaluation.count = 2


def _text_only(config: ConfigDict, value: str) -> None:
    config.text_only = value or "zero"


def _key(path: str, kind: Callable[[str], object] = str) -> Callable[[ConfigDict, str], None]:
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


ARGUMENTS: dict[str, Callable[[ConfigDict, str], None]] = {
    "smoke": _smoke,
    "text_only": _text_only,
    "model": _key("model.factory"),
    "size": _key("model.size"),
    "dataset": _key("dataset.name"),
    "profile": _key("profile"),
    "seed": _key("seed", int),
    "data_seed": _key("data_seed", int),
    "order": _key("stream.order"),
    "memory": _key("memory.size"),
    "residency": _key("residency"),
}
"""Arguments every config file takes: name -> how it changes the config."""


def apply_arguments(config: ConfigDict, argument: str) -> ConfigDict:
    """Applies `"smoke,model=lxmert"` to `config` in place, locks it and returns it.

    Raises:
      UserError: unknown argument, missing or unusable value.
    """
    for part in filter(None, (p.strip() for p in (argument or "").split(","))):
        name, _, value = part.partition("=")
        if name not in ARGUMENTS:
            raise UserError(
                f"Unknown argument '{name}' after the config file{closest(name, ARGUMENTS)}; "
                f"it takes {', '.join(sorted(ARGUMENTS))}."
            )
        ARGUMENTS[name](config, value)
    return config.lock()
