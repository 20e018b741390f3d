"""Reading the number of an option out of a judge's reply."""

import re
from collections.abc import Sequence

from mmgen.prompting.judges.base import NOTHING
from mmgen.prompting.thoughts import without_thinking
from mmgen.settings.suggest import check_choice

PARSERS = ("official", "robust")

_EXAMPLE = re.compile(r"\(\s*e\.?\s?g\.?,?\s*\d+\s*\)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])0*(\d+)(?![\w]|[.,]\d)", re.ASCII)


def parse(reply: str, options: Sequence[str], parser: str) -> int:
    """Position of the option that a reply names, `NOTHING` if it names none.

    Args:
      reply: what the judge said.
      options: the words that were shown behind the numbers, from 1 on.
      parser: "official": all digits in one, as released ("1 or 3" is 13, no option); "robust": the
        one number, or else the one option's word, that occurs.
    """
    check_choice("config.cobsat.parser", parser, PARSERS)
    return _official(reply, len(options)) if parser == "official" else _robust(reply, options)


def _official(reply: str, count: int) -> int:
    # The release also counts digits such as superscripts, and fails at them.
    digits = "".join(character for character in reply if character in "0123456789")
    return _position(digits, count)


def _robust(reply: str, options: Sequence[str]) -> int:
    reply = _EXAMPLE.sub(" ", without_thinking(reply))
    numbers = set(_NUMBER.findall(reply))
    if numbers:
        return _position(numbers.pop(), len(options)) if len(numbers) == 1 else NOTHING
    named = [
        place
        for place, word in enumerate(options)
        if re.search(rf"\b{re.escape(word)}\b", reply, re.IGNORECASE)
    ]
    return named[0] if len(named) == 1 else NOTHING


def _position(digits: str, count: int) -> int:
    # Compared as text: a reply may hold more digits than Python turns into a number.
    numbers = [str(number) for number in range(1, count + 1)]
    digits = digits.lstrip("0")
    return numbers.index(digits) if digits in numbers else NOTHING
