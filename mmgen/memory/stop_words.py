"""English function words, which balanced memories leave out of their distributions."""

from collections.abc import Sequence

FUNCTION_WORDS = frozenset(
    # Determiners and pronouns.
    "a an the this that these those some any each every all both no such same other another "
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his "
    "himself she her hers herself it its itself they them their theirs themselves who whom whose "
    "which what few more most own "
    # Auxiliary verbs and what contractions leave of them.
    "am is are was were be been being have has had having do does did doing can could will would "
    "shall should may might must s t d ll m re ve don won isn aren wasn weren hasn haven hadn "
    "doesn didn couldn wouldn shouldn mustn mightn needn shan ain "
    # Prepositions, conjunctions and adverbs without content of their own.
    "and but or nor if because as until while of at by for with about against between into "
    "through during before after above below to from up down in out on off over under again "
    "further then once here there when where why how not only so than too very just now".split()
)
"""The release takes NLTK's list, which is another data set; this one is of the same kind."""


def function_word_ids(vocabulary: Sequence[str]) -> tuple[int, ...]:
    """Ids (line numbers) of the function words in a vocabulary."""
    return tuple(i for i, token in enumerate(vocabulary) if token in FUNCTION_WORDS)
