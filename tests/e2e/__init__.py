"""Whole runs of the command line, on the smallest world."""
