"""From recorded choices of a prompted run to a complete configuration, after all overrides."""

import re
from typing import Any

from ml_collections import ConfigDict

from mmgen.errors import UserError
from mmgen.settings.cobsat import resolve_cobsat
from mmgen.settings.resolve import get
from mmgen.settings.seeds import check_seeds
from mmgen.settings.suggest import check_choice

CHOICES: dict[str, dict[str, tuple]] = {
    "macid": {
        "prompt": ("paper", "corrected", "harness", "follow_up_0", "follow_up_1", "follow_up_2"),
        "format": ("quadruples", "pairs"),
        "scoring": ("auto", "generate", "choices", "both"),
        "parser": ("robust", "follow_up"),
        "orders": ("given", "rotations", "all"),
        "modality": ("text", "frames", "both"),
    },
    "compact": {
        "template": ("llama2", "idefics", "idefics_unused"),
        "selection": ("overlap", "random"),
        "exclude": ("none", "overlap", "video"),
        "split": ("test", "validation", "train"),
        "images": ("none", "keyframes"),
    },
}
"""Benchmark -> its keys with a closed set of values."""

MAX_TOKENS = {"macid": 16, "compact": 24}
"""New tokens of an answer; other benchmarks 64."""

DATASETS = {"macid": "push_world", "cobsat": "shape_world", "compact": "kitchen_world"}
"""Data set of a benchmark: a built-in world, where there is one."""

RAW_PROMPTS = ("harness", "follow_up_0", "follow_up_1", "follow_up_2")
"""MACID's prompts that were published as plain text to be continued."""


_ADDRESS = re.compile(r"(https?://)?(\[[0-9a-fA-F:.]*\]|[^/:@?]*)(:\d+)?(/[^@?]*)?")
"""Scheme, host, port and path of a server: nothing that could hold a key."""


def resolve(config: ConfigDict) -> ConfigDict:
    """A locked copy with every value decided.

    Raises:
      UserError: a value that is not one of those there are, or out of range; a server's address
        that may hold a key.
    """
    config = config.copy_and_resolve_references().unlock()
    _check_address("config.model.spec", config.model.spec)
    _check_address("config.judge.spec", config.judge.spec)
    name = config.benchmark
    _set_missing(config, "decoding.max_tokens", MAX_TOKENS.get(name, 64))
    if config.dataset.name is None and name in DATASETS:
        config.dataset.name = DATASETS[name]
    if name == "macid":
        _set_missing(config, "macid.chat", config.macid.prompt not in RAW_PROMPTS)
    if name == "cobsat":
        resolve_cobsat(config)
    for key, choices in CHOICES.get(name, {}).items():
        check_choice(f"config.{name}.{key}", config[name][key], choices)
    check_seeds(config)
    check_choice("config.only", config.only, ("", "generate", "judge", "score"))
    _check_numbers(config)
    return config.lock()


def _check_address(key: str, spec: str) -> None:
    """UserError, which does not repeat it, for a server's address with a user or a query."""
    name, _, target = spec.partition(":")
    address = target.partition("#")[0]
    if name == "server" and ("?" in target or not _ADDRESS.fullmatch(address)):
        raise UserError(
            f"the address in {key} may have a host, a port and a path, but neither a user nor a "
            "query, since it is recorded; put a key into the environment variable MMGEN_API_KEY."
        )


def _set_missing(config: ConfigDict, path: str, value: Any) -> None:
    group, last = path.split(".")
    if config[group][last] is None:
        config[group][last] = value


def _check_numbers(config: ConfigDict) -> None:
    for path in ("decoding.max_tokens", "backend.concurrency", "backend.timeout", "limit"):
        value = get(config, path)
        if value is not None and value <= 0:
            raise UserError(f"config.{path} is {value}; it must be positive.")
    if config.decoding.temperature < 0 or not 0 < config.decoding.top_p <= 1:
        raise UserError(
            f"config.decoding has temperature {config.decoding.temperature} and top_p "
            f"{config.decoding.top_p}; they must be at least 0, and in (0, 1]."
        )
    shard(config)


def shard(config: ConfigDict) -> tuple[int, int]:
    """(which, of how many) parts of the requests to ask; (0, 1) asks all.

    Raises:
      UserError: `config.shard` is no "which/of".
    """
    text = config.shard or "0/1"
    which, _, count = text.partition("/")
    if not (which.isdigit() and count.isdigit() and int(which) < int(count)):
        raise UserError(f"config.shard is {text!r}; write 0/4 for the first of four parts.")
    return int(which), int(count)
