"""Building a folder of files so that a half-written one is never mistaken for a finished one."""

import errno
import fcntl
import json
import os
import pathlib
import shutil
from types import TracebackType
from typing import Any, Self

from mmgen.errors import UserError

MANIFEST = "dataset.json"
PREPARED = "prepared"
"""Folder where data sets are built and looked for unless another is given."""


def read_manifest(root: pathlib.Path, kind: str, build: str) -> dict[str, Any]:
    """The manifest of a finished data set.

    Args:
      root: the data set's folder.
      kind: what its manifest must say.
      build: what follows `python -m mmgen.data.build` to make one.

    Raises:
      UserError: `root` holds no finished data set, or one of another kind.
    """
    manifest = root / MANIFEST
    if not manifest.is_file():
        raise UserError(
            f"{root} holds no finished data set ({MANIFEST} is missing): "
            f"build it with python -m mmgen.data.build {build} --out {root.parent}"
        )
    try:
        info = json.loads(manifest.read_text(encoding="utf-8"))
        found = info["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{manifest} is damaged ({error!r}): build the data set again") from error
    if found != kind:
        raise UserError(f"{manifest} is of kind {found!r}, expected {kind!r}")
    return info


class FolderWriter:
    """Builds a folder under a hidden name beside it and renames it at the very end.

    A context manager: leaving it without an exception calls `complete`, writes the manifest last
    and renames; leaving it with one removes what was written. A process killed in between leaves
    only the hidden folder, which the next build of that name clears.

    Args:
      root: the folder to build.
      force: replace a finished one.

    Attributes:
      root: the folder to build.
      folder: where its files are written meanwhile.

    Raises:
      UserError: `root` is finished already or is not ours, another process builds it, or the disk
        is full.
    """

    root: pathlib.Path
    folder: pathlib.Path

    def __init__(self, root: str | pathlib.Path, *, force: bool = False):
        self.root = pathlib.Path(root).absolute()
        self.folder = self.root.parent / f".{self.root.name}.partial"
        self._force = force
        self._lock = -1

    def complete(self) -> dict[str, Any]:
        """Checks what was written; the manifest to write, its JSON being the last file."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Take the hidden folder."""
        finished = (self.root / MANIFEST).is_file()
        if finished and not self._force:
            raise UserError(f"{self.root} is built already: give --force to build it again")
        if not finished and self.root.exists() and any(self.root.iterdir()):
            raise UserError(f"{self.root} exists and is no data set: move it away or choose --out")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder, os.O_RDONLY)
        except OSError as error:
            raise UserError(f"cannot write {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise UserError(f"another process is building {self.root}: wait for it") from error
        for entry in self.folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finish, or remove everything."""
        try:
            if error is None:
                self._finish()
        except OSError as failure:
            error = failure
            raise _disk_error(self.root, failure) from failure
        except BaseException as failure:
            error = failure
            raise
        finally:
            if error is not None:
                shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise _disk_error(self.root, error) from error

    def _finish(self) -> None:
        text = json.dumps(self.complete(), indent=1, ensure_ascii=False)
        with (self.folder / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        old = self.root.parent / f".{self.root.name}.old"
        shutil.rmtree(old, ignore_errors=True)
        if self.root.exists():
            self.root.rename(old)
        self.folder.rename(self.root)
        shutil.rmtree(old, ignore_errors=True)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _disk_error(root: pathlib.Path, error: OSError) -> UserError:
    reason = error.strerror or str(error)
    return UserError(
        f"cannot write the data set {root}: {reason}; nothing was left behind, free some space "
        "or choose another --out"
    )
