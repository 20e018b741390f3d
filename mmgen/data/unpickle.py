"""Reading pickles that others wrote, without running anything they name."""

import pathlib
import pickle
from typing import Any

from mmgen.errors import UserError


class _GlobalRefused(Exception):
    """A pickle names a class or function."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds lists, dicts, tuples, sets, strings, bytes and numbers, and nothing else.

    Without a global a pickle has nothing to call: REDUCE, NEWOBJ and INST all need one.
    """

    def find_class(self, module: str, name: str) -> Any:
        raise _GlobalRefused(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to a persistent object")


def load_plain_pickle(path: pathlib.Path) -> Any:
    """The plain Python value in the pickle `path`.

    Raises:
      UserError: the file is missing, truncated, no pickle, or names a class or function; such a
        name is given and never looked up.
    """
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except _GlobalRefused as error:
        raise UserError(
            f"{path} is refused: it names {error}, and a released stream holds plain lists and "
            "dicts only; do not trust this file, get it again from its source"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except EOFError as error:
        raise UserError(f"{path} is truncated: get it again from its source") from error
    except Exception as error:
        # A damaged pickle can end in nearly any exception of the C unpickler.
        reason = str(error) or type(error).__name__
        raise UserError(
            f"{path} is truncated or no pickle ({reason}): get it again from its source"
        ) from error
