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
        source = _member(file, path, features) if features else file
        if ids:
            names = _read_ids(_member(file, path, ids), path, ids)
            if not _is_data(source) or not source.shape or len(source) != len(names):
                raise UserError(
                    f"{path}: {features or 'the file'} is not a data set with the {len(names):,} "
                    f"rows that {ids} names"
                )
            yield from ((name, _read(source, path, row)) for row, name in enumerate(names))
            return
        if _is_data(source):
            raise UserError(
                f"{path}: {features} holds rows; name the data set of their clips: --ids"
            )
        for name in sorted((_text(name, path) for name in source), key=clip_order):
            clip = _member(source, path, name)
            if not _is_data(clip):
                raise UserError(
                    f"{path}: {name} is a group, not the feature of a clip: name the group with "
                    "--features"
                )
            value = _read(clip, path)
            yield name, value if value.size else None


def _member(group: Any, path: pathlib.Path, name: str) -> Any:
    try:
        return group[name]
    except (KeyError, OSError, ValueError) as error:
        fault = f"{name!r} is a link that leads nowhere: leave it out or mend it"
        if name not in group:
            fault = f"has no {name!r}, only {', '.join(sorted(map(str, group)))}"
        raise UserError(f"{path} {fault}") from error


def _is_data(member: Any) -> bool:
    return hasattr(member, "shape")


def _read(data: Any, path: pathlib.Path, at: Any = ()) -> np.ndarray:
    try:
        return np.asarray(data[at])
    except (OSError, RuntimeError, ValueError) as error:
        # Later it would pass for a failure to write.
        raise UserError(
            f"{path}: the data set {data.name} cannot be read ({error}): get the file again"
        ) from error


def _read_ids(data: Any, path: pathlib.Path, ids: str) -> list[str]:
    if not _is_data(data) or len(data.shape or ()) != 1:
        raise UserError(f"{path}: {ids} is no list of narration ids: name one with --ids")
    return [_text(name, path) for name in _read(data, path).tolist()]


def _text(name: Any, path: pathlib.Path) -> str:
    try:
        return name.decode() if isinstance(name, bytes) else str(name)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the narration id {name!r} is no UTF-8: rename it") from error
