"""HDF5 files: one data set per clip, or all clips as rows of one data set beside their names."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from mmgen.data.compact.clip_features import ClipItem
from mmgen.data.compact.importers.files import clip_order
from mmgen.data.importers.hdf5 import open_hdf5
from mmgen.errors import UserError


def read_hdf5(
    path: pathlib.Path, features: str | None = None, ids: str | None = None
) -> Iterator[ClipItem]:
    """Clips of an HDF5 file.

    Args:
      path: the file.
      features: data set [clips, ...] with the rows, or group of one data set per narration id;
        None is the file itself as such a group.
      ids: data set of narration ids, as many as rows; needed with a data set of rows.

    Raises:
      UserError: the file or a name is wrong, rows and ids do not fit, or h5py is not installed.
    """
    with open_hdf5(path) as file:
        source = _find(file, path, features) if features else file
        if ids:
            names = [_text(name) for name in _find(file, path, ids)[()]]
            if not hasattr(source, "shape") or len(source) != len(names):
                raise UserError(
                    f"{path}: {features or 'the file'} is not a data set with the {len(names):,} "
                    f"rows that {ids} names"
                )
            yield from ((name, np.asarray(source[row])) for row, name in enumerate(names))
            return
        if hasattr(source, "shape"):
            raise UserError(
                f"{path}: {features} holds rows; name the data set of their clips: --ids"
            )
        for name in sorted(source, key=clip_order):
            if not hasattr(source[name], "shape"):
                raise UserError(
                    f"{path}: {name} is a group, not the feature of a clip: name the group with "
                    "--features"
                )
            value = np.asarray(source[name][()])
            yield name, value if value.size else None


def _find(file: Any, path: pathlib.Path, name: str) -> Any:
    if name not in file:
        raise UserError(f"{path} has no {name!r}, only {', '.join(sorted(file))}")
    return file[name]


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
