"""Seeds of a run, of whatever kind."""

from ml_collections import ConfigDict

from mmgen.errors import UserError


def check_seeds(config: ConfigDict) -> None:
    """UserError for a negative seed, of which no generator can be made."""
    for key in ("seed", "data_seed"):
        value = config.get(key)
        if value is not None and value < 0:
            raise UserError(f"config.{key} is {value}; it must not be negative.")
