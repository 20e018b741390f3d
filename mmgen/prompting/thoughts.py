"""What a reasoning model thinks aloud is no part of its answer."""

import re


def without_thinking(text: str) -> str:
    """The text without its `<think>` parts; a thought without an end leaves nothing after it."""
    return re.sub(r"<think>.*?(?:</think>|\Z)", "", text, flags=re.DOTALL)
