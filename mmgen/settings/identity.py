"""Which run a workdir belongs to: the keys that decide its numbers."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from mmgen.settings.command_line import flat_keys
from mmgen.settings.defaults import OPERATIONAL
from mmgen.settings.kinds import kind_of, load


def identity(config: ConfigDict, info: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of every identity key of a resolved config, and the data fingerprint."""
    keys = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in flat_keys(config).items()
        if key.split(".", 1)[0] not in OPERATIONAL
    }
    return {**keys, "dataset.fingerprint": info["fingerprint"]}


def recorded_config(record: Mapping[str, Any]) -> ConfigDict:
    """The resolved, locked config of a workdir's `config.json`.

    Args:
      record: `{"identity": {dotted key: value}, "operational": {...}}`, see `Workdir.claim`.
    """
    config = load(kind_of(record["identity"]).defaults)()
    for path, value in {**record["identity"], **record["operational"]}.items():
        if path == "dataset.fingerprint":
            continue
        *groups, last = path.split(".")
        node = config
        for group in groups:
            node = node[group]
        node[last] = tuple(value) if isinstance(value, list) else value
    return config.copy_and_resolve_references().lock()


def operational(config: ConfigDict) -> dict[str, Any]:
    """Dotted key -> value of the keys that do not decide numbers."""
    return {k: v for k, v in flat_keys(config).items() if k.split(".", 1)[0] in OPERATIONAL}


def default_workdir(config: ConfigDict, info: Mapping[str, Any]) -> str:
    """`runs/<config>/<dataset>-<profile>-s<seed>-<hash6>`."""
    text = json.dumps(identity(config, info), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"runs/{config.name}/{info['name']}-{config.profile}-s{config.seed}-{digest}"
