"""Parts of one's own, named by import path: `package.module:function`."""

import importlib
from collections.abc import Callable
from typing import Any

from mmgen.errors import UserError


def is_plug_in(name: str) -> bool:
    """Is this an import path, and no name that mmgen knows?"""
    return ":" in name


def plug_in(where: str, path: str) -> Callable[..., Any]:
    """The function at `package.module:function`.

    Args:
      where: the key or argument that names it.

    Raises:
      UserError: it cannot be imported.
    """
    module, _, function = path.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{where}={path!r} cannot be imported: {error}.") from None
