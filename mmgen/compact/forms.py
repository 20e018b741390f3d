"""The two forms of a text, each made from the other: words of several parts joined, and plain.

"pick_up chopping_board" and "pick up chopping board" are one text. Trained models write the joined
form, language models the plain one, and BLEU counts their tokens differently.
"""

from collections.abc import Collection

from mmgen.data.compact.text import JOINER

FORMS = ("joined", "plain")


def plain(text: str) -> str:
    """The text with its joined words apart."""
    return text.replace(JOINER, " ")


class Joiner:
    """Joins the phrases that it knows, longest first, from left to right.

    Args:
      phrases: joined words, "chopping_board" for instance.
    """

    def __init__(self, phrases: Collection[str]):
        self._phrases = frozenset(phrases)
        self._longest = max((phrase.count(JOINER) + 1 for phrase in phrases), default=1)

    def __call__(self, text: str) -> str:
        """The text with its phrases joined; joined words stay as they are."""
        words = text.split()
        joined: list[str] = []
        start = 0
        while start < len(words):
            for size in range(min(self._longest, len(words) - start), 0, -1):
                phrase = JOINER.join(words[start : start + size])
                if size == 1 or phrase in self._phrases:
                    joined.append(phrase)
                    start += size
                    break
        return " ".join(joined)
