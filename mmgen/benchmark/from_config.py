"""What a config file says of a step that is to be timed: its algorithm, model and sizes."""

import importlib
import inspect
from typing import Any

from mmgen.benchmark.subjects import ALGORITHMS
from mmgen.errors import UserError
from mmgen.models.masked_span import MODELS

PUBLISHED = {
    "world": False,
    "paper_scale": True,
    "paper_size": 639_592,
    "vocabulary": {"rows": 30_600},
    "splits": {"train": {"examples": 639_592}},
}
"""What `resolve` asks of a data set: COCO-shift as published."""


def step_of(config_file: str) -> dict[str, Any]:
    """`algorithm`, its `settings`, `model`, `size`, `dtype` and `batch_size` of a config.

    Args:
      config_file: `FILE[:arguments]`, as of `mmgen.main`.

    Raises:
      UserError: no such config, or one whose step the bench does not make.
    """
    # Not needed without a config, and not there where an accelerator is checked.
    from mmgen.settings.command_line import parse_config
    from mmgen.settings.kinds import DEFAULT
    from mmgen.settings.resolve import resolve

    config = parse_config((f"--config={config_file}",))
    if config.kind != DEFAULT:
        raise UserError(f"--config={config_file} is of kind {config.kind}; give a VisCOLL one.")
    algorithm, model = config.algorithm.name, config.model.factory
    for key, value, known in (
        ("algorithm.name", algorithm, ALGORITHMS),
        ("model.factory", model, tuple(MODELS)),
        ("profile", config.profile, ("paper",)),
        ("memory.policy", config.memory.policy, ("none", "reservoir")),
    ):
        if value not in known:
            raise UserError(
                f"--config={config_file} has config.{key}='{value}', and the bench times "
                f"{', '.join(known)} only."
            )
    config = resolve(config, PUBLISHED)
    make = getattr(importlib.import_module(f"mmgen.algorithms.{algorithm}"), f"make_{algorithm}")
    accepted = inspect.signature(make).parameters
    settings = {
        key: value
        for key, value in config.algorithm.to_dict().items()
        if key in accepted and value is not None
    }
    return {
        "algorithm": algorithm,
        "settings": settings,
        "model": model,
        "size": config.model.size,
        "dtype": config.model.dtype,
        "batch_size": config.batch_size,
    }
