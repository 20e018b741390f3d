"""Replay memory: which examples of the stream are kept, and which are drawn."""
