"""Tables and figures from the files of finished runs, and from nothing else."""

from typing import Any


def load(*paths: str) -> list[dict[str, Any]]:
    """One row per finished run below `paths` and metric, e.g. for `pandas.DataFrame(load("runs"))`.

    Raises:
      UserError: there is no finished run; those that are not finished are named.
    """
    from mmgen.errors import UserError
    from mmgen.report import aggregate, kinds

    runs, missing = aggregate.load(paths)
    if not runs:
        reasons = "; ".join(f"{entry.path}: {entry.reason}" for entry in missing)
        raise UserError(f"no finished run: {reasons}")
    return kinds.tidy(runs)
