"""Reading a generated answer: the number of a sentence, or yes or no.

    robust     the one number that is named, wherever it stands; several, none, or another one
               ("12") make the answer unusable
    follow_up  what the text begins with, as Rinaldi et al. 2025 count it: "12" is 1, and
               "sicuramente no" is yes (it begins with "si")

An answer that cannot be read is unusable, which is wrong and counted apart.
"""

import re
import unicodedata
from collections.abc import Sequence

from mmgen.prompting.thoughts import without_thinking

_NAMED = re.compile(
    r"\b(?:intrus[oa]|frase|numero|risposta|intruder|sentence|number|answer)\W{0,4}"
    r"(?:(?:è|is|la|il|the|quella|frase|numero|sentence|number)\W{1,4}){0,3}([1-4])\b"
)
_ORDINALS = {
    word: place
    for words in ("prima seconda terza quarta", "first second third fourth")
    for place, word in enumerate(words.split(), start=1)
}
_YES = {"sì": True, "yes": True, "no": False}
_YES_FIRST = _YES | {"si": True}
""" "si" is also a pronoun ("si muovono"), so it counts as a first word only."""


def read_number(text: str, sentences: Sequence[str], mode: str) -> int | None:
    """Number of the sentence that an answer names, 1 to 4; None if it is unusable.

    Args:
      text: the answer.
      sentences: as they were shown, for answers that repeat one of them.
      mode: "robust" or "follow_up".
    """
    if mode == "follow_up":
        first = _plain(text)[:1]
        return int(first) if first in ("1", "2", "3", "4") else None
    text = without_thinking(text).lower()
    for found in (
        _NAMED.findall(text),
        re.findall(r"\b\d+\b", text),
        [str(_ORDINALS[word]) for word in re.findall(r"\w+", text) if word in _ORDINALS],
    ):
        if found:
            numbers = set(found)
            return int(found[0]) if numbers <= {"1", "2", "3", "4"} and len(numbers) == 1 else None
    repeated = [n for n, sentence in enumerate(sentences, start=1) if sentence.lower() in text]
    return repeated[0] if len(repeated) == 1 else None


def read_yes_no(text: str, mode: str) -> bool | None:
    """Yes or no; None if the answer is unusable. See `read_number` for the modes."""
    if mode == "follow_up":
        plain = _plain(text)
        yes, no = plain.startswith(("si", "yes")), plain.startswith("no")
        return yes if yes or no else None
    words = re.findall(r"\w+", without_thinking(text).lower())
    if words and words[0] in _YES_FIRST:
        return _YES_FIRST[words[0]]
    said = {_YES[word] for word in words if word in _YES}
    return said.pop() if len(said) == 1 else None


def _plain(text: str) -> str:
    """Lower case, without accents and leading white space."""
    split = unicodedata.normalize("NFD", text.strip().lower())
    return "".join(letter for letter in split if not unicodedata.combining(letter))
