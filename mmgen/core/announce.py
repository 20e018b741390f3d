"""Sentences for the person at the terminal."""

import sys

import jax


def announce(sentence: str) -> None:
    """Print one sentence to stderr, once per run: only its first process speaks."""
    if jax.process_index() == 0:
        # The escape clears what is left of a progress bar on this line.
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{clear}mmgen: {sentence}", file=sys.stderr, flush=True)
