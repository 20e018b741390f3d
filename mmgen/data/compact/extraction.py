"""Running an extractor over clips: batches, parts on disk, and going on where a kill ended it.

While it runs, finished parts lie in a hidden folder beside the result, each written whole. The same
command finds them again; other settings, other clips (or other times of theirs) and media from
another place are refused.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from mmgen.core.announce import announce
from mmgen.data.compact.clip_features import ClipItem, write_clip_features
from mmgen.data.compact.epic_csv import Clip
from mmgen.data.store_files import BAD_ARRAY
from mmgen.errors import UserError

Read = Callable[[Clip], Any]
"""What an extractor needs of a clip (a frame, a sound, a text); None where it is missing."""


class Extractor(Protocol):
    """A model as this module uses it."""

    @property
    def facts(self) -> dict[str, Any]:
        """`extractor` and what else decides its numbers, JSON values."""

    def __call__(self, media: Sequence[Any]) -> Sequence[np.ndarray | None]:
        """Features of what was read of some clips; None for one that has none (silence, ...)."""


class Extracted(NamedTuple):
    """What became of the clips.

    Attributes:
      manifest: of the folder that was written.
      missing: narration ids of clips whose media are missing; they are not in the folder.
      resumed: clips that an earlier run had finished.
    """

    manifest: dict[str, Any]
    missing: list[str]
    resumed: int


def extract(
    clips: Sequence[Clip],
    read: Read,
    extractor: Extractor,
    out: pathlib.Path,
    facts: dict[str, Any],
    *,
    media: Mapping[str, Any] | None = None,
    batch_size: int = 16,
    part_size: int = 256,
    dtype: str = "float16",
    threads: int = 4,
) -> Extracted:
    """Write the features of clips as a folder of clip features.

    Args:
      clips: in the order of the rows.
      read: reads a clip's media; called in threads.
      extractor: the model; its results must not depend on the batch.
      out: folder to write; it must not exist.
      facts: for the manifest: `modality`, `trained_on`, and how the media were chosen.
      media: what is read and from where, JSON values; parts of other media are refused, the
        manifest has none of it. Paths count from the folder of `out` on, so that all of it together
        can be moved.
      batch_size: clips per call of the extractor.
      part_size: clips per part, which a kill costs at most.
      dtype: "float16" or "float32".
      threads: that read media.

    Raises:
      UserError: `out` exists, parts of other settings lie there, another process writes them, or a
        feature is bad; finished parts stay.
    """
    if out.exists():
        raise UserError(f"{out} exists already: remove it or choose another folder")
    if not clips:
        raise UserError("there is no clip to extract features of")
    facts = dict(extractor.facts, **facts)
    told = hashlib.sha256(json.dumps(clips).encode()).hexdigest()
    identity = dict(facts, dtype=dtype, part_size=part_size, clips=told, **_placed(media, out))
    folder = out.parent / f".{out.name}.parts"
    starts = range(0, len(clips), part_size)
    resumed = 0
    with _claimed(folder, identity), ThreadPoolExecutor(threads) as pool:
        for number, start in enumerate(starts):
            part = clips[start : start + part_size]
            path = folder / f"{number:05}.npz"
            if path.is_file():
                resumed += len(part)
                continue
            _write_part(path, _run(part, read, extractor, batch_size, pool))
            announce(f"{facts['modality']}: {start + len(part):,} of {len(clips):,} clips")
        paths = [folder / f"{number:05}.npz" for number in range(len(starts))]
        missing = [name for path in paths for name in _load(path)["missing"].tolist()]
        items = (item for path in paths for item in _items(path))
        manifest = write_clip_features(out, items, facts, dtype=dtype)
        shutil.rmtree(folder)
    return Extracted(manifest, missing, resumed)


def _placed(media: Mapping[str, Any] | None, out: pathlib.Path) -> dict[str, Any]:
    """`media` with its paths as seen from the folder of `out`, links followed."""
    here = out.parent.resolve()
    return {
        name: os.path.relpath(value.resolve(), here) if isinstance(value, pathlib.Path) else value
        for name, value in (media or {}).items()
    }


@contextlib.contextmanager
def _claimed(folder: pathlib.Path, identity: dict[str, Any]) -> Iterator[None]:
    """The folder of the parts, for this process alone and for one set of settings."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"another process extracts into {folder}: wait for it") from error
        path = folder / "run.json"
        if not path.is_file():
            _write_whole(path, lambda partial: partial.write_text(json.dumps(identity)))
        begun = json.loads(path.read_text())
        differing = [key for key in identity if begun.get(key) != identity[key]]
        if differing:
            raise UserError(
                f"{folder} holds parts that were made with another {differing[0]} "
                f"({begun.get(differing[0])!r}, now {identity[differing[0]]!r}): finish that run, "
                "or remove the folder"
            )
        yield
    finally:
        os.close(lock)


def _run(
    clips: Sequence[Clip],
    read: Read,
    extractor: Extractor,
    batch_size: int,
    pool: ThreadPoolExecutor,
) -> list[tuple[str, bool, np.ndarray | None]]:
    """Narration id, whether its media were there, and feature of each clip."""
    done = []
    for start in range(0, len(clips), batch_size):
        batch = clips[start : start + batch_size]
        media = list(pool.map(read, batch))
        here = [one is not None for one in media]
        found = iter(extractor([one for one in media if one is not None]) if any(here) else ())
        done += [
            (clip.narration_id, there, next(found) if there else None)
            for clip, there in zip(batch, here, strict=True)
        ]
    return done


def _write_part(path: pathlib.Path, done: Sequence[tuple[str, bool, np.ndarray | None]]) -> None:
    values = [np.asarray(value) for _, _, value in done if value is not None]
    shapes = {value.shape for value in values}
    if len(shapes) > 1:
        raise UserError(f"the extractor gives features of different shapes: {sorted(shapes)}")
    arrays = {
        "clips": np.array([name for name, here, _ in done if here], np.str_),
        "present": np.array([value is not None for _, here, value in done if here], bool),
        "missing": np.array([name for name, here, _ in done if not here], np.str_),
        "features": np.stack(values) if values else np.zeros(0, np.float32),
    }
    _write_whole(path, lambda partial: _save(partial, arrays))


def _save(path: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        # Its stubs take every keyword for allow_pickle.
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _write_whole(path: pathlib.Path, write: Callable[[pathlib.Path], Any]) -> None:
    partial = path.with_suffix(".partial")
    try:
        write(partial)
        partial.rename(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _load(path: pathlib.Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in ("clips", "present", "missing", "features")}
    except (*BAD_ARRAY, KeyError) as error:
        raise UserError(f"{path} is damaged ({error}): remove it and run again") from error


def _items(path: pathlib.Path) -> Iterator[ClipItem]:
    part = _load(path)
    values = iter(part["features"])
    for name, here in zip(part["clips"].tolist(), part["present"].tolist(), strict=True):
        yield name, next(values) if here else None
