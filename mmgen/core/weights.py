"""The parameters of another run, read from its newest checkpoint without touching its folder."""

import hashlib
from typing import Any, NamedTuple

import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from mmgen.core.digest import named_leaves, tree_marks
from mmgen.errors import UserError

PyTree = Any


class Weights(NamedTuple):
    """Parameters of a checkpoint.

    Attributes:
      params: the parameters.
      step: the iteration after which they were saved.
      digest: hex SHA-256 over their names, dtypes, shapes and checksums.
    """

    params: PyTree
    step: int
    digest: str


def check_weights(directory: epath.PathLike, abstract_params: PyTree) -> None:
    """Raises `read_weights`'s UserError, where it would for lack of a fitting checkpoint."""
    folder = _newest(directory)
    _compare(folder, _described(folder), {"params": abstract_params})


def read_weights(directory: epath.PathLike, abstract_params: PyTree) -> Weights:
    """The parameters of the newest finished checkpoint in `directory`.

    Optimizer, memory and whatever else the checkpoint holds are left where they are, so that the
    run may have been trained by another algorithm, and may still be going on.

    Args:
      abstract_params: `ShapeDtypeStruct`s with the shardings to restore to.

    Raises:
      UserError: there is no checkpoint, it is of another model, or it is damaged.
    """
    folder = _newest(directory)
    item = {"params": abstract_params}
    expected = _described(folder)
    _compare(folder, expected, item)
    arguments = ocp.args.PyTreeRestore(
        item,
        restore_args=ocp.checkpoint_utils.construct_restore_args(item),
        partial_restore=True,
    )
    restored = _reading(folder / "state", ocp.PyTreeCheckpointHandler(), arguments)
    for path, mark in tree_marks(restored).items():
        if mark.checksum != expected[path][2]:
            raise _damaged(folder, f"the checksum of {path} is wrong")
    digest = hashlib.sha256(repr(sorted(expected.items())).encode()).hexdigest()
    return Weights(restored["params"], int(folder.name), digest)


def _newest(directory: epath.PathLike) -> epath.Path:
    directory = epath.Path(directory)
    steps = ocp.utils.checkpoint_steps(directory) if directory.exists() else []
    if not steps:
        raise UserError(f"{directory.parent} holds no checkpoint; train that run first.")
    return directory / str(max(steps))


def _described(folder: epath.Path) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Path -> dtype, shape and checksum of the parameters, as `Checkpointer` wrote them."""
    about = _reading(folder / "about", ocp.JsonCheckpointHandler(), ocp.args.JsonRestore())
    try:
        return {
            path: (dtype, tuple(shape), int(checksum))
            for path, (dtype, shape, checksum) in about["arrays"].items()
            if path.startswith("params/")
        }
    except (TypeError, KeyError, ValueError) as error:
        raise _damaged(folder, f"its description is unreadable: {error!r}") from error


def _compare(folder: epath.Path, expected: dict[str, Any], item: PyTree) -> None:
    """Refuses another model before Orbax casts or pads it without a word."""
    wanted = {k: (str(leaf.dtype), tuple(leaf.shape)) for k, leaf in named_leaves(item).items()}
    for path in sorted({*wanted, *expected}):
        there, here = expected.get(path, ())[:2], wanted.get(path, ())
        if there != here:
            raise UserError(
                f"{folder} is of another model: {path} is {_shown(there)} there and "
                f"{_shown(here)} here; give a run of the same model and the same feature width."
            )


def _reading(folder: epath.Path, handler: Any, arguments: Any) -> Any:
    try:
        with ocp.Checkpointer(handler) as reader:
            return reader.restore(folder, args=arguments)
    except Exception as error:
        # Whatever Orbax and TensorStore say of a damaged file; there is no common class.
        logging.debug("restoring %s failed", folder, exc_info=True)
        raise _damaged(folder, str(error).strip().split("\n")[0][:200]) from error


def _damaged(folder: epath.Path, reason: str) -> UserError:
    return UserError(
        f"the checkpoint {folder} cannot be read ({reason}); go on with that run, or give another."
    )


def _shown(array: tuple[Any, ...]) -> str:
    return f"{array[0]}{list(array[1])}" if array else "absent"
