"""Features per clip and modality: one row a clip, and which rows are there at all.

The folder of a modality:

    features.npy    [clips, *shape] float16 or float32; zero where nothing was extracted
    present.npy     [clips] bool: False for a clip without sound, without detections, or missing
    clips.json      narration ids in the order of the rows
    manifest.json   modality, extractor, trained_on, dtype, shape, clips, absent, sha256 per file;
                    written last
"""

import contextlib
import functools
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from mmgen.data.checks import file_sha256
from mmgen.data.columns import write_array
from mmgen.data.feature_format import FEATURE_DTYPES, MANIFEST, damaged
from mmgen.data.store_files import BAD_ARRAY, NpyWriter, new_folder
from mmgen.errors import UserError

FILES = ("features.npy", "present.npy", "clips.json")
CHUNK = 4096
"""Rows that a check holds in memory at a time."""

REQUIRED = ("modality", "extractor", "trained_on")
"""Facts that the manifest must state."""

FIELDS_OF_BATCH = ("ids", "mask", "text", "target", "label")
"""Fields of a batch that are no modality: none can be called so."""

MAX_MISSING = 0.05
"""Share of a data set's clips that may be missing by default."""

ClipItem = tuple[str, np.ndarray | None]
"""Narration id and feature of a clip; None for a clip that has none."""


class ClipFeatures:
    """Opened, read-only features of one modality; `features` is memory-mapped.

    Attributes:
      path: the folder.
      manifest: the content of manifest.json.
      features: [clips, *shape].
      present: bool[clips].
      clips: narration ids.
    """

    def __init__(
        self,
        path: pathlib.Path,
        manifest: dict[str, Any],
        features: np.ndarray,
        present: Bool[np.ndarray, " clips"],
        clips: Sequence[str],
    ):
        self.path = path
        self.manifest = manifest
        self.features = features
        self.present = present
        self.clips = tuple(clips)

    @classmethod
    def open(cls, path: str | pathlib.Path, verify: bool = False) -> "ClipFeatures":
        """Open a modality's folder.

        Args:
          path: the folder.
          verify: also read every byte: checksums, finite features, zeros where none is present.

        Raises:
          UserError: no finished folder, or a file that is missing, damaged, of a wrong shape or
            dtype; with `verify` also a wrong checksum, NaN, infinity or a value of an absent clip.
        """
        root = pathlib.Path(path)
        manifest = _read_manifest(root)
        features = _load(root / "features.npy")
        present = _load(root / "present.npy")
        try:
            clips = json.loads((root / "clips.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise damaged(root / "clips.json", f"it is missing or damaged ({error})") from error
        _check_arrays(root, manifest, features, present, clips)
        opened = cls(root, manifest, features, np.array(present), clips)
        if verify:
            opened.verify()
        return opened

    def __len__(self) -> int:
        """Number of clips."""
        return len(self.clips)

    @property
    def modality(self) -> str:
        """Name of the modality."""
        return self.manifest["modality"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a clip's feature."""
        return self.features.shape[1:]

    @functools.cached_property
    def _row_of(self) -> dict[str, int]:
        return {clip: row for row, clip in enumerate(self.clips)}

    def rows(self, ids: Iterable[str]) -> Int[np.ndarray, " n"]:
        """Rows of clips by narration id, int32; -1 for an unknown one."""
        return np.fromiter((self._row_of.get(clip, -1) for clip in ids), np.int32)

    def gather(
        self, rows: Int[np.ndarray, "b k"]
    ) -> tuple[Float[np.ndarray, "b k *shape"], Bool[np.ndarray, "b k"]]:
        """Features of rows as float32 and whether they are there.

        Args:
          rows: rows of clips, -1 for none; absent ones give zeros and False.

        Raises:
          IndexError: a row beyond the last one.
        """
        rows = np.asarray(rows)
        here = (rows >= 0) & self.present[np.maximum(rows, 0)]
        taken = self.features[np.where(here, rows, 0)].astype(np.float32)
        taken[~here] = 0
        return taken, here

    def verify(self) -> None:
        """Read every byte; see `open`."""
        for name in FILES:
            if file_sha256(self.path / name) != self.manifest["sha256"][name]:
                raise damaged(self.path / name, "its checksum is not the manifest's")
        for start in range(0, len(self), CHUNK):
            rows = slice(start, start + CHUNK)
            values = np.asarray(self.features[rows]).reshape(len(self.clips[rows]), -1)
            for bad, fault in (
                (~np.isfinite(values).all(1), "has a value that is NaN or infinite"),
                (~self.present[rows] & values.any(1), "is marked absent but has a feature"),
            ):
                if bad.any():
                    clip = self.clips[start + int(np.argmax(bad))]
                    raise damaged(self.path / "features.npy", f"clip {clip} {fault}")


def require_rows(
    store: ClipFeatures, ids: Sequence[str], *, max_missing: float = MAX_MISSING
) -> Int[np.ndarray, " n"]:
    """Rows of a data set's clips; -1 for missing ones, of which there may be a few.

    Args:
      store: the features.
      ids: narration ids.
      max_missing: largest share of different clips that may be missing.

    Raises:
      UserError: more are missing, or all of them: the features are those of other videos.
    """
    rows = store.rows(ids)
    missing = list(dict.fromkeys(np.array(ids)[rows < 0].tolist()))
    total = len(set(ids))
    if len(missing) == total:
        raise UserError(
            f"{store.path} has features of other videos: none of the {total:,} clips of the data "
            f"set, such as {ids[0]}, is in it, but for example {store.clips[0]}"
        )
    if len(missing) > max_missing * total:
        raise UserError(
            f"{store.path} lacks {len(missing):,} of the {total:,} clips of the data set, more "
            f"than --max-missing={max_missing} allows, the first is {missing[0]}: extract them, "
            "or allow more"
        )
    return rows


def write_clip_features(
    path: str | pathlib.Path,
    items: Iterable[ClipItem],
    facts: dict[str, Any],
    *,
    dtype: str = "float16",
) -> dict[str, Any]:
    """Write a modality's folder and return its complete manifest; on any failure nothing stays.

    Args:
      path: folder to write; it must not exist.
      items: clips in the order of their rows, at least one with a feature.
      facts: `modality`, `extractor`, `trained_on` and any others for the manifest.
      dtype: "float16" or "float32".

    Raises:
      UserError: the folder exists, no clip has a feature, a clip comes twice, or a feature has
        another shape than the first, no numbers, NaN or infinity; or the disk is full.
      ValueError: a required fact is missing.
    """
    lacking = [key for key in REQUIRED if key not in facts]
    if lacking:
        raise ValueError(f"the manifest of clip features needs {', '.join(lacking)}")
    kind = np.dtype(dtype)
    if kind not in FEATURE_DTYPES:
        raise ValueError(f"clip features are float16 or float32, not {kind}")
    with new_folder(pathlib.Path(path)) as folder:
        clips, present, shape = _write_rows(folder / "features.npy", items, kind)
        write_array(folder / "present.npy", np.array(present, bool))
        text = json.dumps(clips, indent=0, ensure_ascii=False)
        (folder / "clips.json").write_text(text + "\n", encoding="utf-8")
        manifest = {
            **facts,
            "dtype": kind.name,
            "shape": list(shape),
            "clips": len(clips),
            "absent": present.count(False),
            "sha256": {name: file_sha256(folder / name) for name in FILES},
        }
        text = json.dumps(manifest, indent=2, sort_keys=True)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return manifest


def _write_rows(
    path: pathlib.Path, items: Iterable[ClipItem], dtype: np.dtype
) -> tuple[list[str], list[bool], tuple[int, ...]]:
    clips: dict[str, bool] = {}
    shape: tuple[int, ...] | None = None
    with contextlib.ExitStack() as stack:
        for clip, feature in items:
            if clip in clips:
                raise UserError(f"clip {clip} comes twice in the source of the features")
            clips[clip] = feature is not None
            if feature is not None:
                value = _checked(clip, np.asarray(feature), shape, dtype)
                if shape is None:
                    shape = value.shape
                    writer = stack.enter_context(NpyWriter(path, shape, dtype))
                    # Absent clips that came before the first feature.
                    writer.append(np.zeros((len(clips) - 1, *shape), dtype))
                writer.append(value[None])
            elif shape is not None:
                writer.append(np.zeros((1, *shape), dtype))
        if shape is None:
            raise UserError("the source of the features has no clip with a feature")
    return list(clips), list(clips.values()), shape


def _checked(
    clip: str, feature: np.ndarray, shape: tuple[int, ...] | None, dtype: np.dtype
) -> np.ndarray:
    if feature.dtype.kind not in "fiub" or feature.ndim == 0 or feature.size == 0:
        raise UserError(
            f"clip {clip}: its feature is {feature.dtype}{list(feature.shape)}, expected numbers"
        )
    if shape is not None and feature.shape != shape:
        raise UserError(
            f"clip {clip}: its feature has shape {list(feature.shape)}, those before it "
            f"{list(shape)}"
        )
    with np.errstate(over="ignore"):
        value = feature.astype(dtype)
    if not np.isfinite(value).all():
        raise UserError(
            f"clip {clip}: its feature is NaN, infinite or too large for {dtype}: extract it "
            "again, or store float32"
        )
    return value


def copy_clips(
    store: ClipFeatures, ids: Sequence[str], path: pathlib.Path, *, max_missing: float
) -> dict[str, Any]:
    """Write the features of some clips as a folder of their own, missing ones as absent.

    Args:
      store: the features.
      ids: narration ids, each once.
      path: folder to write.
      max_missing: as in `require_rows`.

    Returns:
      The manifest, with "missing", the clips that `store` has not.
    """
    rows = require_rows(store, ids, max_missing=max_missing)
    missing = [clip for clip, row in zip(ids, rows.tolist(), strict=True) if row < 0]

    def items() -> Iterator[ClipItem]:
        for clip, row in zip(ids, rows.tolist(), strict=True):
            here = row >= 0 and store.present[row]
            yield clip, np.asarray(store.features[row]) if here else None

    own = {"dtype", "shape", "clips", "absent", "sha256"}
    facts = {key: value for key, value in store.manifest.items() if key not in own}
    facts["missing"] = missing
    return write_clip_features(path, items(), facts, dtype=store.features.dtype.name)


def _read_manifest(root: pathlib.Path) -> dict[str, Any]:
    path = root / MANIFEST
    if not path.is_file():
        raise UserError(
            f"{root} holds no finished clip features ({MANIFEST} is missing): import them with "
            "python -m mmgen.data.compact.importers --help"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        complete = set(FILES) <= set(manifest["sha256"]) and all(
            key in manifest for key in (*REQUIRED, "dtype", "shape", "clips")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, f"it is damaged ({error!r})") from error
    if not complete:
        raise damaged(path, "it lacks a shape, a checksum or the origin of the features")
    return manifest


def _load(path: pathlib.Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except BAD_ARRAY as error:
        raise damaged(path, f"it is missing or damaged ({error})") from error


def _check_arrays(
    root: pathlib.Path,
    manifest: dict[str, Any],
    features: np.ndarray,
    present: np.ndarray,
    clips: Any,
) -> None:
    if not isinstance(clips, list) or len(clips) != manifest["clips"] or not clips:
        raise damaged(root / "clips.json", f"it is no list of {manifest['clips']} clips")
    if not all(isinstance(clip, str) for clip in clips):
        raise damaged(root / "clips.json", "a narration id in it is no text")
    if len(set(clips)) != len(clips):
        raise damaged(root / "clips.json", "it names a clip twice")
    for name, array, shape, dtype in (
        ("features", features, (len(clips), *manifest["shape"]), manifest["dtype"]),
        ("present", present, (len(clips),), "bool"),
    ):
        if array.shape != shape or array.dtype.name != dtype:
            raise damaged(
                root / f"{name}.npy",
                f"it is {array.dtype}{list(array.shape)} where the manifest says "
                f"{dtype}{list(shape)}",
            )
    if features.dtype not in FEATURE_DTYPES:
        raise damaged(root / "features.npy", f"it is {features.dtype}, not float16 or float32")
