"""Files of feature stores: a folder that appears whole, and arrays that grow row by row."""

import contextlib
import os
import pathlib
import shutil
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Self

import numpy as np

from mmgen.errors import UserError

BAD_ARRAY = (
    OSError,
    ValueError,
    EOFError,
    # numpy reads the header of a .npy file as Python.
    SyntaxError,
    tokenize.TokenError,
    # An archive of another version, or one that claims to be encrypted.
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a damaged .npy or .npz file raises."""


@contextlib.contextmanager
def new_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder that becomes `path` if the block succeeds and vanishes if it fails.

    Raises:
      UserError: `path` exists, or it cannot be written.
    """
    if path.exists():
        raise UserError(f"{path} exists already: remove it or choose another folder")
    partial = path.parent / f".{path.name}.partial-{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        partial.rename(path)
    except OSError as error:
        raise UserError(f"cannot write the feature store {path}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class NpyWriter:
    """A .npy file of rows whose number is not known before the last one.

    A context manager; the header is completed when it is left without an exception.

    Args:
      path: the file.
      shape: of a row.
      dtype: of every row.
    """

    def __init__(self, path: pathlib.Path, shape: tuple[int, ...], dtype: np.dtype):
        self._shape, self._dtype, self._rows = tuple(shape), np.dtype(dtype), 0
        self._file: IO[bytes] = path.open("wb")
        self._write_header()
        self._start = self._file.tell()

    def _write_header(self) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._rows, *self._shape),
        }
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, rows: np.ndarray) -> None:
        """Write rows, an array [k, *shape] of the file's dtype."""
        self._file.write(np.ascontiguousarray(rows).data)
        self._rows += len(rows)

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Complete the header, and close."""
        try:
            if kind is None:
                # numpy leaves room in the header for the first axis to grow.
                self._file.seek(0)
                self._write_header()
                if self._file.tell() != self._start:
                    raise RuntimeError("the .npy header changed its length")
        finally:
            self._file.close()
