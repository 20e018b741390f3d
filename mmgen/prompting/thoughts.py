"""What a reasoning model thinks aloud is no part of its answer."""

import re

_THOUGHT = re.compile(r"\A.*</think>|<think>.*\Z", re.DOTALL)


def without_thinking(text: str) -> str:
    """What follows the last thought; chat templates may have opened it, so its beginning may lack.

    A thought without an end leaves nothing after it.
    """
    return _THOUGHT.sub("", text)
