"""Named tensors in files, read part by part: what `weights.py` builds parameters from."""

import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import ml_dtypes  # noqa: F401  (teaches numpy bfloat16, which safetensors then returns)
import numpy as np
import safetensors

from mmgen.errors import UserError
from mmgen.models.lm.config import read_json

Index = tuple[slice, ...]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class Tensors(NamedTuple):
    """Tensors by name, in files.

    Attributes:
      where: folder or file, for errors.
      files: what they are read from, for checksums.
      shapes: of every tensor.
      read: `(name, a slice per axis) -> that part`; UserError if it cannot be read.
    """

    where: str
    files: tuple[pathlib.Path, ...]
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str, Index], np.ndarray]

    def renamed(self, prefix: str, to: str = "") -> "Tensors":
        """Those whose name starts with `prefix`, which is replaced by `to`."""
        back = {
            to + name.removeprefix(prefix): name for name in self.shapes if name.startswith(prefix)
        }
        return self._replace(
            shapes={new: self.shapes[old] for new, old in back.items()},
            read=lambda name, index: self.read(back[name], index),
        )


def open_safetensors(folder: pathlib.Path) -> Tensors:
    """The tensors of a folder as Hugging Face publishes it, in one file or in shards.

    Raises:
      UserError: there are no safetensors, a shard is missing, or a file is damaged.
    """
    files = _files(folder)
    handles, shapes = {}, {}
    for file in files:
        try:
            opened = safetensors.safe_open(file, framework="numpy")
        except (OSError, safetensors.SafetensorError) as error:
            raise UserError(
                f"{file} is not a whole safetensors file ({error}); get it again."
            ) from None
        for name in opened.keys():  # noqa: SIM118  (a handle, not a dict)
            handles[name] = (opened, file)
            shapes[name] = tuple(opened.get_slice(name).get_shape())

    def read(name: str, index: Index) -> np.ndarray:
        opened, file = handles[name]
        try:
            return opened.get_slice(name)[index]
        except (TypeError, ValueError, safetensors.SafetensorError) as error:
            raise UserError(f"tensor {name} of {file} cannot be read ({error}).") from None

    return Tensors(str(folder), files, shapes, read)


def _files(folder: pathlib.Path) -> tuple[pathlib.Path, ...]:
    if (folder / INDEX).is_file():
        names = sorted(set(read_json(folder / INDEX).get("weight_map", {}).values()))
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise UserError(
                f"{folder} lacks {len(missing)} of {len(names)} weight files, {missing[0]} first; "
                "get them from whom published the model."
            )
        return tuple(folder / name for name in names)
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    pickled = any(folder.glob("*.bin")) or any(folder.glob("*.pth"))
    raise UserError(
        f"{folder} holds neither {SINGLE} nor {INDEX}"
        + (
            ", only pickled weights, which are not read: convert them to safetensors."
            if pickled
            else "; give a folder as Hugging Face publishes models, or a .gguf file."
        )
    )
