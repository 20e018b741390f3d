""" "Did you mean": one sentence for a name that is not known."""

import difflib
from collections.abc import Iterable

from mmgen.errors import UserError


def closest(name: str, known: Iterable[str]) -> str:
    """`" (did you mean 'x'?)"` for the nearest known name, or an empty string."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not near:
        # A key is often right but for its group: `learning_rate` for `optimizer.learning_rate`.
        last = name.rsplit(".", 1)[-1]
        near = [k for k in known if k.rsplit(".", 1)[-1] == last][:1]
    return f" (did you mean '{near[0]}'?)" if near else ""


def check_choice(where: str, value: object, choices: Iterable[object]) -> None:
    """Raises `UserError` unless `value` is one of `choices`; `where` names the key."""
    choices = list(choices)
    if value not in choices:
        hint = closest(str(value), [str(c) for c in choices])
        names = ", ".join(repr(c) for c in choices)
        raise UserError(f"{where} is {value!r}, which is not one of {names}{hint}.")
