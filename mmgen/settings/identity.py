"""Which run a workdir belongs to: the keys that decide its numbers."""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from ml_collections import ConfigDict

from mmgen.settings.command_line import flat_keys
from mmgen.settings.kinds import kind_of, load


def identity(
    config: ConfigDict, info: Mapping[str, Any], unused: Collection[str] = ()
) -> dict[str, Any]:
    """Dotted key -> value of every identity key of a resolved config, and the data fingerprint.

    Args:
      config: of any kind.
      info: manifest of the data set; its `fingerprint` counts.
      unused: top-level groups of keys that decide nothing in this run.
    """
    left_out = {*load(kind_of(config).operational), *unused}
    keys = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in flat_keys(config).items()
        if _group(key) not in left_out
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
    groups = load(kind_of(config).operational)
    return {key: value for key, value in flat_keys(config).items() if _group(key) in groups}


def short_digest(keys: Mapping[str, Any]) -> str:
    """Six hex digits that tell the identities of runs of one name apart."""
    text = json.dumps(keys, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def default_workdir(config: ConfigDict, info: Mapping[str, Any]) -> str:
    """`runs/<config>/<dataset>-<profile>-s<seed>-<hash6>`."""
    digest = short_digest(identity(config, info))
    return f"runs/{config.name}/{info['name']}-{config.profile}-s{config.seed}-{digest}"


def _group(key: str) -> str:
    return key.split(".", 1)[0]
