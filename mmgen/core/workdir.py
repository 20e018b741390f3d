"""The folder of a run: whole-object writes, one owner at a time, one run for ever.

    config.json  metrics.jsonl  tb/  checkpoints/  evals/<split>/<step>.jsonl
    summary.json  report.md  DONE

All reading and writing goes through `etils.epath`, so that a bucket works like a local folder.
"""

import contextlib
import errno
import fcntl
import importlib.util
import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import jax
from absl import logging
from etils import epath

from mmgen.errors import UserError

CONFIG = "config.json"
DONE = "DONE"
LOCK = ".lock"
TEMPORARY = ".mmgen-tmp-"
TRACES = ("metrics.jsonl", "checkpoints", "evals", "summary.json", DONE)
"""What only a run leaves behind; a folder that has one of these and no config.json is not ours."""
BUCKETS = {
    "gs": ("gcsfs", "pip install -e '.[gcs]'"),
    "s3": ("s3fs", "pip install s3fs"),
    "az": ("adlfs", "pip install adlfs"),
}
"""Beginnings of addresses in buckets: the package that opens them, and how to get it."""

LASTING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOSPC, errno.EDQUOT)
"""Errors of a bucket that come again with the same command."""


class Workdir:
    """A run's folder, local or in a bucket; made on the first write.

    Attributes:
      root: the folder, absolute if it is local.
      is_local: False for an address like `gs://bucket/run`, which has no locks and no renames, but
        whose objects appear whole or not at all.
    """

    def __init__(self, path: epath.PathLike):
        """Opens nothing, but learns whether it could.

        Raises:
          UserError: an address whose kind is unknown, or needs a package that is not installed.
        """
        _check_scheme(os.fspath(path))
        self.root = epath.Path(path).expanduser()
        self.is_local = "://" not in os.fspath(self.root)
        if self.is_local:
            self.root = self.root.absolute()
        self._lock_depth = 0

    def file(self, name: str) -> epath.Path:
        """The path of `name` inside the folder."""
        return self.root / name

    def write_text(self, name: str, text: str) -> None:
        """Write `text` as a whole object; see `write_lines` for errors."""
        self._write(name, (text.encode(),))

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write `data` as a whole object; see `write_lines` for errors."""
        self._write(name, (data,))

    def write_json(self, name: str, value: Any) -> None:
        """Write `value` as indented JSON, keys in their order; see `write_lines` for errors."""
        self.write_text(name, json.dumps(value, indent=2) + "\n")

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        """Write lines (without their ends) as a whole object, streaming.

        Readers see the old object or the new one, never a part, whatever is killed when.

        Raises:
          UserError: the disk is full, or the folder may not be written.
        """
        self._write(name, (line.encode() + b"\n" for line in lines))

    def read_json(self, name: str) -> Any:
        """The JSON object `name`.

        Raises:
          UserError: it is missing, or not JSON.
        """
        path = self.file(name)
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            raise UserError(
                f"{path} is missing; give the --workdir of a run that was started."
            ) from None
        except ValueError as error:
            raise UserError(
                f"{path} is not JSON ({error}); restore it, or delete the folder and start anew."
            ) from None

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder as long as the context lasts; may be nested; ends with the process.

        Only local folders can be locked. Of several processes of one run the first one locks.

        Raises:
          UserError: another process holds it.
        """
        if not self.is_local or jax.process_index() != 0 or self._lock_depth:
            self._lock_depth += 1
            try:
                yield
            finally:
                self._lock_depth -= 1
            return
        with self._flock():
            self._lock_depth = 1
            try:
                yield
            finally:
                self._lock_depth = 0

    def claim(self, identity: dict[str, Any], operational: dict[str, Any] | None = None) -> None:
        """Make this the folder of the run with these identity keys, for ever.

        Writes `{"identity": ..., "operational": ...}` to config.json. The operational part is
        replaced each time. Of several processes of one run the first one claims.

        Raises:
          UserError: the folder belongs to another run; names the keys that differ, dotted.
        """
        if jax.process_index() != 0:
            return
        identity = json.loads(json.dumps(identity))
        if self.file(CONFIG).exists():
            owner = self.read_json(CONFIG)
            if not isinstance(owner, dict) or not isinstance(owner.get("identity"), dict):
                raise UserError(
                    f"{self.file(CONFIG)} has no identity keys; give another --workdir, or delete "
                    "this one."
                )
            self._refuse_other(owner["identity"], identity)
        else:
            found = [name for name in TRACES if self.file(name).exists()]
            if found:
                raise UserError(
                    f"{self.root} holds {', '.join(found)} but no {CONFIG}, so it cannot be told "
                    "whose run it is; give another --workdir, or delete this one."
                )
        self.write_json(CONFIG, {"identity": identity, "operational": operational or {}})

    def mark_done(self) -> None:
        """Say that the run is finished and everything is written."""
        self.write_text(DONE, "")

    @property
    def is_done(self) -> bool:
        """Has `mark_done` been called?"""
        return self.file(DONE).exists()

    def _refuse_other(self, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
        differing = [
            f"{key} ({their_value} there, {our_value} now)"
            for key, their_value, our_value in differences(theirs, ours)
        ]
        if differing:
            raise UserError(
                f"{self.root} belongs to another run: {', '.join(differing)} "
                f"{'differs' if len(differing) == 1 else 'differ'}; give another --workdir, or "
                "delete this one."
            )

    @contextlib.contextmanager
    def _flock(self) -> Iterator[None]:
        path = self.file(LOCK)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            handle = open(path, "a+")  # noqa: SIM115 (closed by the `with` below)
        except OSError as error:
            raise write_error(error, path) from error
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                owner = handle.read().strip()
                raise UserError(
                    f"another process{f' ({owner})' if owner else ''} is using {self.root}; wait "
                    "until it ends, stop it, or give another --workdir."
                ) from None
            except OSError as error:
                # Some network file systems have no locks; refusing to run on them helps nobody.
                logging.warning("%s cannot be locked (%s).", path, error)
            handle.truncate(0)
            handle.write(f"process {os.getpid()}\n")
            handle.flush()
            self._remove_leftovers()
            yield

    def _remove_leftovers(self) -> None:
        """Delete what a killed owner had not finished writing; only ever called under the lock."""
        # Not epath, which refuses to search folders in folders, for the sake of buckets.
        for path in pathlib.Path(self.root).rglob(f".*{TEMPORARY}*"):
            path.unlink(missing_ok=True)

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        path = self.file(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.is_local:
                _replace_whole(os.fspath(path), chunks)
            else:
                path.write_bytes(b"".join(chunks))
        except OSError as error:
            if not self.is_local and error.errno not in LASTING:
                # A connection that broke, say: no mistake of the user's, and worth another start.
                raise
            raise write_error(error, path) from error


def _check_scheme(path: str) -> None:
    """Say at once what epath would say at the first read or write, as a traceback."""
    scheme, colon, _ = path.partition("://")
    if not colon:
        return
    if scheme not in BUCKETS:
        raise UserError(
            f"{path} is no place to write to; give a local folder or an address that begins with "
            f"{', '.join(f'{name}://' for name in BUCKETS)}."
        )
    # epath prefers TensorFlow, which brings its own file systems.
    if importlib.util.find_spec("tensorflow") is not None:
        return
    import fsspec

    package, command = BUCKETS[scheme]
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError:
        raise UserError(
            f"{path} needs the package {package}: run `{command}` in the checkout of mmgen, or "
            "give a local folder."
        ) from None


def _replace_whole(path: str, chunks: Iterable[bytes]) -> None:
    """Write beside `path` and rename; on any failure the old file stays and nothing else does."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}{TEMPORARY}{os.getpid()}")
    try:
        with open(temporary, "wb") as handle:
            for chunk in chunks:
                handle.write(chunk)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def differences(left: Any, right: Any, key: str = "") -> list[tuple[str, str, str]]:
    """Where two JSON values differ: (dotted key, left as JSON, right as JSON), sorted."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = []
        for name in sorted({*left, *right}):
            dotted = f"{key}.{name}" if key else name
            if name not in left or name not in right:
                found.append((dotted, _shown(left, name), _shown(right, name)))
            else:
                found.extend(differences(left[name], right[name], dotted))
        return found
    return [] if left == right else [(key, json.dumps(left), json.dumps(right))]


def _shown(value: dict[str, Any], name: str) -> str:
    return json.dumps(value[name]) if name in value else "absent"


def is_disk_full(error: BaseException | None) -> bool:
    """Was this, or what caused it, a full disk or a spent quota? Knows TensorStore's wording."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(error) or "quota exceeded" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def write_error(error: BaseException, path: epath.PathLike) -> UserError:
    """The sentence for a failed write of `path`."""
    if is_disk_full(error):
        return UserError(
            f"the disk is full: {path} could not be written; free space there and repeat the same "
            "command, which goes on from the last checkpoint."
        )
    reason = getattr(error, "strerror", None) or error
    return UserError(
        f"{path} could not be written ({reason}); mend that, or give another --workdir."
    )
