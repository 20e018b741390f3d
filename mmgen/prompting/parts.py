"""Putting the parts of a turn together."""

from collections.abc import Sequence

from mmgen.prompting.requests import Part, Text


def stripped(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts without white space at their end."""
    *rest, last = parts
    return (*rest, Text(last.text.rstrip()) if isinstance(last, Text) else last)


def merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring texts as one; empty ones are left out."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Text) and found and isinstance(found[-1], Text):
            found[-1] = Text(found[-1].text + part.text)
        elif not isinstance(part, Text) or part.text:
            found.append(part)
    return tuple(found)
