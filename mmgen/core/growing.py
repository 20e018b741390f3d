"""A file that only grows, in a run's folder: at once on a disk, rewritten whole in a bucket."""

import io

from mmgen.core.workdir import Workdir, write_error


class GrowingFile:
    """Appends to `name`; made on the first append, what is there already stays in front."""

    def __init__(self, workdir: Workdir, name: str):
        self._workdir = workdir
        self._name = name
        self._handle: io.FileIO | None = None
        self._whole: bytes | None = None
        self._is_flushed = True

    def append(self, data: bytes) -> None:
        """Add bytes. A local file has them on return, an object in a bucket after `flush`.

        Raises:
          UserError: the disk is full, or the folder may not be written.
        """
        path = self._workdir.file(self._name)
        if not self._workdir.is_local:
            if self._whole is None:
                self._whole = path.read_bytes() if path.exists() else b""
            self._whole += data
            self._is_flushed = False
            return
        try:
            if self._handle is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._handle = open(path, "ab", buffering=0)  # noqa: SIM115 (see close)
            rest = memoryview(data)
            while rest:  # a disk that is almost full takes a part, and refuses the next one
                rest = rest[self._handle.write(rest) :]
        except OSError as error:
            raise write_error(error, path) from error

    def flush(self) -> None:
        """Everything appended is in the file. Raises UserError like `append`."""
        if self._whole is not None and not self._is_flushed:
            self._workdir.write_bytes(self._name, self._whole)
            self._is_flushed = True

    def close(self) -> None:
        """Flush and let go of the file."""
        self.flush()
        if self._handle is not None:
            self._handle.close()
            self._handle = None
