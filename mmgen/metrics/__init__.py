"""Metrics as pure functions of arrays, recomputable from records; means are (sum, count).

Nothing here reads a file, a model or a configuration; `mmgen.evaluation.scores` names the results.
"""
