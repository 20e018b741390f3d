"""Metrics as pure functions of arrays, recomputable from records; means are (sum, count).

Nothing here reads a file, a model or a configuration, but for the encoder of `bertscore`;
`mmgen.evaluation.scores` and `mmgen.compact.scores` name the results.
"""
