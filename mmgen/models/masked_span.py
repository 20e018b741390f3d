"""The models of masked-span runs by the name that `config.model.factory` gives."""

from collections.abc import Callable
from typing import Any

from mmgen.models.lxmert import make_lxmert
from mmgen.models.vlbert import make_vlbert

MODELS: dict[str, Callable[..., Any]] = {"vlbert": make_vlbert, "lxmert": make_lxmert}
