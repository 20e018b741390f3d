"""Configuration: defaults, `file.py:arg` arguments, resolution and validation."""
