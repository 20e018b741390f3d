"""Lengths of training given in iterations, epochs or examples."""

import math

from ml_collections import ConfigDict

from mmgen.errors import UserError


def total_steps(total: ConfigDict, num_examples: int, batch_size: int) -> int:
    """Iterations of a run; the last batch of an epoch may be partial and is not dropped.

    Args:
      total: the config group with `steps`, `epochs`, `examples`, at most one of them given; none
        is one epoch.
      num_examples: examples of one pass over the stream.
      batch_size: examples of an iteration, over all hosts.

    Raises:
      UserError: more than one is given, or the length is not positive and finite.
    """
    given = {k: total[k] for k in ("steps", "epochs", "examples") if total[k] is not None}
    if len(given) > 1:
        names = ", ".join(f"config.total.{k}" for k in given)
        raise UserError(f"{names} are all given; keep one of them.")
    kind, value = next(iter(given.items()), ("epochs", 1.0))
    if not math.isfinite(value):
        raise UserError(f"config.total.{kind} is {value}; it must be finite.")
    if kind == "steps":
        steps = value
    else:
        examples = value if kind == "examples" else value * num_examples
        # The tolerance keeps 0.1 epochs of 1,000 examples at 100, not 101.
        steps = math.ceil(round(examples / batch_size, 9))
    if steps <= 0:
        raise UserError(f"config.total.{kind}={value} gives no iteration; make it larger.")
    return int(steps)
