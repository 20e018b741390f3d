"""Writes a config as a config file: what it changes of the defaults, and nothing else."""

import json

from ml_collections import ConfigDict

from mmgen.settings.command_line import flat_keys
from mmgen.settings.defaults import OPERATIONAL, default_config

_FILE = '''"""{heading}.

python -m mmgen.main --config=THIS_FILE
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
{assignments}
    return apply_arguments(config, argument)
'''


def winner_source(config: ConfigDict, heading: str) -> str:
    """A config file that gives `config`, but for its operational keys; it stands on its own.

    Args:
      config: recorded choices, not yet resolved.
      heading: first line of the docstring, without its full stop.
    """
    default = flat_keys(default_config())
    changed = {
        key: value
        for key, value in flat_keys(config).items()
        if value != default.get(key) and key.split(".", 1)[0] not in OPERATIONAL
    }
    assignments = {"name": f"{config.name}_tuned", **changed}
    lines = [f"    config.{key} = {_literal(value)}" for key, value in assignments.items()]
    return _FILE.format(heading=heading, assignments="\n".join(lines))


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
