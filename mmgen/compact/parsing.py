"""The verb and noun of a predicted narration, which nobody has annotated.

A narration that train has is looked up: it means what its annotation says. Any other is parsed: the
first word that begins a verb of the class lists, with those particles of its longest form that
follow ("take lid off" is take-off, "open washing_up_liquid" only open), then the first noun,
longest match first. On the test narrations of EPIC-KITCHENS this is right for 97.7 to 99.1 %, by
the split (`gold_ca` of every run says it for its own); the longest match alone was for 89 %.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mmgen.compact.forms import plain
from mmgen.data.compact.text import joined_noun, joined_verb, noun_words, plurals

NO_CLASS = -1

CONTIGUOUS = "of"
"""A particle that must follow its verb: in "put can of beans" it belongs to the noun."""

ALONE = -1
"""No joined word."""

VOWELS = "aeiou"


class Parsed(NamedTuple):
    """What a narration says.

    Attributes:
      verb, noun: joined strings; "" where there is none.
      verb_class, noun_class: `NO_CLASS` where there is none.
    """

    verb: str
    noun: str
    verb_class: int
    noun_class: int

    @property
    def complete(self) -> bool:
        """Were both found?"""
        return self.verb_class != NO_CLASS and self.noun_class != NO_CLASS


class _Pattern(NamedTuple):
    """Words that mean a verb or noun; of equally long ones the one of lower `rank` is taken."""

    words: tuple[str, ...]
    rank: int
    name: str
    number: int


class Parser:
    """Finds verb and noun; remembers what it has parsed.

    Args:
      verbs, nouns: strings of the class lists ("pick-up", "board:chopping") -> class.
      narrations: plain narration of train -> its annotation.
    """

    def __init__(
        self,
        verbs: Mapping[str, int],
        nouns: Mapping[str, int],
        narrations: Mapping[str, Parsed],
    ):
        self._verbs = _by_head(_verb_patterns(verbs))
        self._nouns = _by_head(_noun_patterns(nouns))
        self._known = dict(narrations)
        self._parsed: dict[str, Parsed] = {}

    def __call__(self, text: str) -> Parsed:
        """The verb and noun of a narration in either form."""
        narration = plain(text)
        if narration in self._known:
            return self._known[narration]
        # Texts of one narration differ in what is joined.
        if text not in self._parsed:
            self._parsed[text] = self.parse(text)
        return self._parsed[text]

    def parse(self, text: str) -> Parsed:
        """The same without the look-up."""
        tokens = [plain(token).split() for token in text.split()]
        words = [word for token in tokens for word in token]
        joined = [
            number if len(token) > 1 else ALONE
            for number, token in enumerate(tokens)
            for _ in token
        ]
        verb, places = self._find_verb(words, joined)
        noun = self._find_noun(words, places) if verb else None
        return Parsed(
            verb.name if verb else "",
            noun.name if noun else "",
            verb.number if verb else NO_CLASS,
            noun.number if noun else NO_CLASS,
        )

    def _find_verb(
        self, words: Sequence[str], joined: Sequence[int]
    ) -> tuple[_Pattern | None, tuple[int, ...]]:
        for start, word in enumerate(words):
            found = [
                (pattern, places)
                for pattern in self._verbs.get(word, ())
                if (places := _places(pattern.words, words, start, joined))
            ]
            if found:
                return max(found, key=lambda f: (len(f[1]), f[1][0] - f[1][-1]))
        return None, ()

    def _find_noun(self, words: Sequence[str], verb: Sequence[int]) -> _Pattern | None:
        for start in range(verb[0] + 1, len(words)):
            found = [
                pattern
                for pattern in self._nouns.get(words[start], ())
                if tuple(words[start : start + len(pattern.words)]) == pattern.words
                and not set(verb) & set(range(start, start + len(pattern.words)))
            ]
            if found:
                return max(found, key=lambda p: (len(p.words), -p.rank))
        return None


def _verb_patterns(verbs: Mapping[str, int]) -> Iterator[_Pattern]:
    for verb, number in verbs.items():
        head, *particles = verb.split("-")
        for form in (head, *_gerunds(head)):
            yield _Pattern((form, *particles), 0, joined_verb(verb), number)


def _noun_patterns(nouns: Mapping[str, int]) -> Iterator[_Pattern]:
    for noun, number in nouns.items():
        *modifiers, last = noun_words(noun)
        yield _Pattern((*modifiers, last), 0, joined_noun(noun), number)
        # "clothes" is a noun of its own before it is the plural of "clothe".
        for form in sorted(plurals(last)):
            yield _Pattern((*modifiers, form), 1, joined_noun(noun), number)


def _by_head(patterns: Iterator[_Pattern]) -> dict[str, list[_Pattern]]:
    found: dict[str, list[_Pattern]] = defaultdict(list)
    for pattern in patterns:
        found[pattern.words[0]].append(pattern)
    return dict(found)


def _places(
    pattern: Sequence[str], words: Sequence[str], start: int, joined: Sequence[int]
) -> tuple[int, ...]:
    """Where a verb's words stand from `start` on, other words between them; () for nowhere.

    Args:
      joined: which joined word each of the words is a part of, or `ALONE`. One that the verb does
        not begin in has none of its particles: "washing_up_liquid".
    """
    free = [
        word if joined[place] in (ALONE, joined[start]) else None
        for place, word in enumerate(words)
    ]
    places = [start]
    for particle in pattern[1:]:
        following = places[-1] + 1
        if particle not in free[following:]:
            return ()
        places.append(free.index(particle, following))
    if CONTIGUOUS in pattern and places[-1] - start >= len(pattern):
        return ()
    return tuple(places)


def _gerunds(verb: str) -> set[str]:
    forms = {verb + "ing"}
    if verb.endswith("e"):
        forms.add(verb[:-1] + "ing")
    if len(verb) > 2 and verb[-1] not in VOWELS + "wy" and verb[-2] in VOWELS:
        forms.add(verb + verb[-1] + "ing")
    return forms
