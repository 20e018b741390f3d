"""What a config file says of a step that is to be timed: its algorithm, model and sizes."""

import importlib
import inspect
from collections.abc import Sequence
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

OF_MODEL = ("size", "dropout", "dtype")
"""Keys of `config.model` that the bench is told, besides the factory."""


def step_of(config_file: str) -> dict[str, Any]:
    """What a config says of its step.

    That is `algorithm`, its `settings`, `model`, `size`, `dropout`, `dtype`, `batch_size`,
    `packing` and, if it has a memory, its `capacity`.

    Args:
      config_file: `FILE[:arguments]`, as of `mmgen.main`.

    Raises:
      UserError: no such config, or one whose step the bench does not make.
    """
    # Not needed without a config, and not there where an accelerator is checked.
    from mmgen.settings.command_line import parse_config
    from mmgen.settings.defaults import default_config
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
            _refuse(config_file, key, repr(value), known)
    # When and on what a run is evaluated is no part of its step, and may not fit this data set.
    config.evaluation = default_config().evaluation
    plain = default_config()
    plain.model.update({key: config.model[key] for key in ("factory", *OF_MODEL)})
    config, plain = resolve(config, PUBLISHED), resolve(plain, PUBLISHED)
    for part in ("model", "loss"):
        for key, value in config[part].items():
            if value != plain[part][key]:
                _refuse(config_file, f"{part}.{key}", value, [str(plain[part][key])])
    if config.text_only:
        _refuse(config_file, "text_only", True, ["False"])
    make = getattr(importlib.import_module(f"mmgen.algorithms.{algorithm}"), f"make_{algorithm}")
    accepted = inspect.signature(make).parameters
    settings = {
        key: value
        for key, value in config.algorithm.to_dict().items()
        if key in accepted and value is not None
    }
    step = {
        "algorithm": algorithm,
        "settings": settings,
        "model": model,
        "batch_size": config.batch_size,
        "packing": config.packing,
        **{key: config.model[key] for key in OF_MODEL},
    }
    return step | ({"capacity": config.memory.capacity} if config.memory.capacity else {})


def _refuse(config_file: str, key: str, value: Any, known: Sequence[str]) -> None:
    raise UserError(
        f"--config={config_file} has config.{key}={value}, and the bench times "
        f"{', '.join(known)} only."
    )
