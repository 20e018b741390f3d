"""CLU's metric writers without TensorFlow.

`clu.metric_writers` imports TensorFlow for its summary writer, whatever one wants from it. Putting
our own in the place of that one module, before anything imports the package, makes all the rest
work (CommonLoopUtils issue 358).
"""

import sys
import types

from mmgen.errors import UserError

_LEAF = "clu.metric_writers.summary_writer"


def metric_writers() -> types.ModuleType:
    """The module `clu.metric_writers`, imported so that it does not ask for TensorFlow.

    Raises:
      UserError: clu or tensorboard is not installed.
    """
    if _LEAF not in sys.modules:
        stub = types.ModuleType(_LEAF)
        stub.SummaryWriter = _SummaryWriter  # type: ignore[attr-defined]
        sys.modules[_LEAF] = stub
    try:
        import clu.metric_writers
        import tensorboard  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(
            f"{error.name} is not installed, which writes the curves; run: "
            "pip install clu tensorboard"
        ) from None
    return clu.metric_writers


class _SummaryWriter:
    """What `clu.metric_writers.create_default_writer` finds in TensorFlow's place."""

    def __new__(cls, logdir: str):
        from mmgen.core.event_files import TensorBoardWriter
        from mmgen.core.workdir import Workdir

        return TensorBoardWriter(Workdir(logdir), ".")
