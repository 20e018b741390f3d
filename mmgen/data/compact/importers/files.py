"""One .npy or .npz file per clip, named by the narration id: `P01_01_60.npy`.

An array without an entry says that the clip has none: no sound, no detection.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from mmgen.data.compact.clip_features import ClipItem
from mmgen.data.store_files import BAD_ARRAY
from mmgen.errors import UserError

ENDINGS = (".npy", ".npz")


def read_files(folder: pathlib.Path, array: str | None = None) -> Iterator[ClipItem]:
    """Clips of the files in `folder`, by narration id.

    Args:
      folder: the folder, searched to any depth.
      array: name of the array in .npz files; None takes the only one.

    Raises:
      UserError: no file, two files of a clip, or a damaged or incomplete file.
    """
    paths = sorted(
        (path for path in folder.rglob("*") if path.suffix in ENDINGS),
        key=lambda path: clip_order(path.stem),
    )
    if not paths:
        raise UserError(f"{folder} holds no .npy or .npz file")
    for path in paths:
        value = _load(path, array)
        yield path.stem, value if value.size else None


def clip_order(clip: str) -> tuple[str, int]:
    """Sort key of a narration id: video, then number."""
    video, _, number = clip.rpartition("_")
    return (video, int(number)) if number.isdecimal() else (clip, -1)


def _load(path: pathlib.Path, array: str | None) -> np.ndarray:
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if path.suffix == ".npy":
            return loaded
        with loaded as archive:
            names = archive.files
            if array in names or (array is None and len(names) == 1):
                return archive[array or names[0]]
    except BAD_ARRAY as error:
        raise UserError(f"{path} is damaged or no array file ({error})") from error
    raise UserError(
        f"{path} has the arrays {', '.join(sorted(names)) or 'none'}: name one of them with --array"
    )
