"""Benchmarks that ask a model: generate, judge, score, each of them re-runnable alone."""
