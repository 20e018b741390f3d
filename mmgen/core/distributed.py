"""Joining the other processes of a run, only when asked to."""

import os

from mmgen.errors import UserError

VARIABLES = ("MMGEN_COORDINATOR", "MMGEN_NUM_PROCESSES", "MMGEN_PROCESS_ID")


def initialize() -> None:
    """Calls `jax.distributed.initialize` if the environment describes several processes.

    `MMGEN_COORDINATOR` (host:port), `MMGEN_NUM_PROCESSES` and `MMGEN_PROCESS_ID` go together;
    `MMGEN_COORDINATOR=auto` leaves all three to jax, which knows Cloud TPU and Slurm.

    Raises:
      UserError: some of the variables are missing, or a number is none.
    """
    given = [name for name in VARIABLES if os.environ.get(name)]
    if not given:
        return
    import jax

    if os.environ.get("MMGEN_COORDINATOR") == "auto":
        jax.distributed.initialize()
        return
    missing = [name for name in VARIABLES if name not in given]
    if missing:
        raise UserError(
            f"{', '.join(given)} is set but {', '.join(missing)} is not; a run of several "
            "processes needs all three (launch/processes.sh sets them)."
        )
    try:
        count, index = (int(os.environ[name]) for name in VARIABLES[1:])
    except ValueError:
        raise UserError("MMGEN_NUM_PROCESSES and MMGEN_PROCESS_ID must be whole numbers.") from None
    jax.distributed.initialize(os.environ["MMGEN_COORDINATOR"], count, index)
