"""The two forms of a narration: plain, and with words of several parts joined by "_" (A.3.2).

"pick up chopping board" is joined to "pick_up chopping_board": the clip's own verb and nouns, where
their words stand side by side. "put pan in drainer" stays, though its verb is put-in. The last word
of a noun may be in the plural: "onion:spring" joins "spring onions" (Fig. 3 of the paper).
"""

from collections.abc import Iterable, Sequence

from mmgen.data.compact.epic_csv import Clip
from mmgen.data.compact.reserved import SEPARATOR

JOINER = "_"


def joined_verb(verb: str) -> str:
    """ "pick-up" as one token: "pick_up"."""
    return verb.replace("-", JOINER)


def joined_noun(noun: str) -> str:
    """ "board:chopping", head first, as one token: "chopping_board"."""
    return JOINER.join(noun_words(noun))


def noun_words(noun: str) -> list[str]:
    """Words of a noun in the order in which they are spoken."""
    head, *modifiers = noun.split(":")
    return [*modifiers, head]


def joined_narration(clip: Clip) -> str:
    """The narration with the clip's verb and nouns joined, every occurrence."""
    words = clip.narration.split()
    phrases = [(clip.verb.split("-"), False)]
    phrases += [(noun_words(noun), True) for noun in clip.all_nouns]
    for phrase, plural in sorted(phrases, key=lambda p: -len(p[0])):
        if len(phrase) > 1:
            words = list(_join(words, phrase, plural))
    return " ".join(words)


def source(clips: Sequence[Clip]) -> str:
    """The joined utterances of some clips as one text."""
    return SEPARATOR.join(map(joined_narration, clips))


def _join(words: Sequence[str], phrase: Sequence[str], plural: bool) -> Iterable[str]:
    position = 0
    while position < len(words):
        found = words[position : position + len(phrase)]
        if _equal(found, phrase, plural):
            yield JOINER.join(found)
            position += len(phrase)
        else:
            yield words[position]
            position += 1


def _equal(found: Sequence[str], phrase: Sequence[str], plural: bool) -> bool:
    if len(found) != len(phrase) or list(found[:-1]) != list(phrase[:-1]):
        return False
    return found[-1] == phrase[-1] or (plural and found[-1] in plurals(phrase[-1]))


def plurals(word: str) -> set[str]:
    """What the plural of a noun may look like."""
    forms = {word + "s", word + "es"}
    for ending, plural in (("y", "ies"), ("f", "ves"), ("fe", "ves")):
        if word.endswith(ending):
            forms.add(word.removesuffix(ending) + plural)
    return forms
