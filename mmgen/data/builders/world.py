"""Built-in worlds behind the command that builds every other data set."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from mmgen.data.builders.request import BuildRequest
from mmgen.errors import UserError


def build_world(request: BuildRequest) -> pathlib.Path:
    """Build the masked-span world `request.name`; see `build_with`."""
    from mmgen.data.locate import WORLDS

    kind, build = WORLDS[request.name]
    return build_with(request, kind, build)


def build_kitchen(request: BuildRequest) -> pathlib.Path:
    """Build CompAct's world; see `build_with`."""
    from mmgen.data.worlds.kitchen_world import KitchenWorldSettings, build_kitchen_world

    return build_with(request, KitchenWorldSettings, build_kitchen_world)


def build_with(request: BuildRequest, kind: type, build: Callable[..., None]) -> pathlib.Path:
    """Build a world; returns its folder, where runs look for it.

    Args:
      request: what was asked for.
      kind: frozen dataclass of the world's settings, `data_seed` among them.
      build: `(root, settings, *, force)`.

    Raises:
      UserError: an argument that only fits files was given, or an unknown setting.
    """
    from mmgen.data.locate import world_folder

    for option in ("raw", "train_from", "features", "tokenizer", "pairs"):
        if getattr(request, option) is not None:
            raise UserError(
                f"--{option.replace('_', '-')} has no meaning for the built-in {request.name}"
            )
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    del defaults["data_seed"]
    chosen: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in request.settings.items()
    }
    settings = kind(
        data_seed=request.data_seed, **request._replace(settings=chosen).chosen(defaults)
    )
    root = world_folder(request.out, request.name, settings)
    build(root, settings, force=request.force)
    return root
