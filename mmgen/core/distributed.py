"""Joining the other processes of a run, only when asked to."""

import os

from mmgen.errors import UserError

VARIABLES = ("MMGEN_COORDINATOR", "MMGEN_NUM_PROCESSES", "MMGEN_PROCESS_ID")
AUTO = "auto"


def initialize() -> None:
    """Calls `jax.distributed.initialize` if the environment describes several processes.

    `MMGEN_COORDINATOR` (host:port of process 0), `MMGEN_NUM_PROCESSES` and `MMGEN_PROCESS_ID` go
    together. `MMGEN_COORDINATOR=auto` leaves all three to jax, which reads them where `srun`, a
    Cloud TPU or GKE with TPUs has put them. Without it a cluster's variables are not looked at: a
    run inside an interactive allocation is a run of one process.

    Raises:
      UserError: some of the variables are missing, a number is none, or "auto" finds no cluster.
    """
    given = [name for name in VARIABLES if os.environ.get(name)]
    if not given:
        return
    if os.environ.get("MMGEN_COORDINATOR") == AUTO:
        _join_cluster()
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
    if not 0 <= index < count:
        raise UserError(
            f"MMGEN_PROCESS_ID is {index}; with MMGEN_NUM_PROCESSES={count} processes are numbered "
            f"from 0 to {count - 1}."
        )
    import jax

    jax.distributed.initialize(os.environ["MMGEN_COORDINATOR"], count, index)


def _join_cluster() -> None:
    import jax

    try:
        jax.distributed.initialize()
    except ValueError as error:
        # What jax says when it recognises nothing is that an argument is missing.
        raise UserError(
            f"MMGEN_COORDINATOR=auto, but jax recognises no cluster here ({error}); start the "
            "process by srun or on a Cloud TPU, or set all of MMGEN_COORDINATOR=host:port, "
            "MMGEN_NUM_PROCESSES and MMGEN_PROCESS_ID."
        ) from None
