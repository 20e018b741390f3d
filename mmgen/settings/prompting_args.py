"""The argument after the colon of a prompted config file: `configs/macid.py:model=...,shots=5`.

smoke        the first few items, seconds instead of minutes
model=SPEC   whom to ask: fake:perfect, jax:DIR, jax-package:NAME, server:URL#NAME, torch:DIR, ...
judge=SPEC   who judges
shots= prompt= scoring= language= orders= format= ...
             the key of that name in the benchmark's own group of keys
"""

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.settings.args import Argument, check_bare, key
from mmgen.settings.args import apply_arguments as apply

SMOKE_ITEMS = 12


def _smoke(config: ConfigDict, value: str) -> None:
    check_bare("smoke", value)
    config.limit = SMOKE_ITEMS


GENERAL: dict[str, Argument] = {
    "smoke": _smoke,
    "model": key("model.spec"),
    "adapter": key("model.adapter"),
    "judge": key("judge.spec"),
    "dataset": key("dataset.name"),
    "limit": key("limit", int),
    "seed": key("seed", int),
    "data_seed": key("data_seed", int),
    "temperature": key("decoding.temperature", float),
    "max_tokens": key("decoding.max_tokens", int),
}
"""Arguments of every prompted config file."""


def apply_arguments(config: ConfigDict, argument: str) -> ConfigDict:
    """Applies `"smoke,model=fake:perfect,shots=5"` to `config` in place, locks and returns it.

    Raises:
      UserError: unknown argument, missing or unusable value.
    """
    group = config.get(config.benchmark) or ConfigDict()
    own = {name: _own(config.benchmark, name, group[name]) for name in group}
    return apply(config, argument, GENERAL | own)


def _own(benchmark: str, name: str, default: object) -> Argument:
    """The argument that sets a key of the benchmark's group, of the type of its default."""
    path = f"{benchmark}.{name}"
    if isinstance(default, tuple):
        return key(path, lambda value: tuple(value.split("+")))
    if isinstance(default, bool) or default is None:
        return key(path, _truth)
    return key(path, type(default))


def _truth(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise UserError(f"An argument got {value!r}; write true or false.")
    return value.lower() == "true"
