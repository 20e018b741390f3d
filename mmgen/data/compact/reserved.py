"""Words that no narration may hold: they mean something else in an input or a vocabulary."""

SPECIALS = ("[PAD]", "[BOS]", "[EOS]", "[UNK]", "[SEP]")
"""First words of every vocabulary, in the order of their ids."""

SEPARATOR = " . "
"""Between the utterances of an input."""

RESERVED = (*SPECIALS, SEPARATOR.strip())
"""All of them."""
