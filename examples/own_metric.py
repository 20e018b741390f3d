"""A metric of your own: how often a whole span is right, and how often at least its last word.

python -m mmgen.main --config=configs/visCOLL_er10k.py --config.metrics=examples.own_metric:measure
"""

import numpy as np


def measure(table, context):
    """Maps the predictions of a split to named numbers.

    `table` is a mmgen.evaluation.predictions.PredictionTable: arrays [items, masked tokens];
    `context` is evals/context.json: names of tasks, the vocabulary, facts about the stream.
    """
    del context
    right = (table.prediction == table.target) | ~table.mask
    last = table.mask.sum(axis=1) - 1
    return {
        "span_accuracy": float(right.all(axis=1).mean()),
        "last_word_accuracy": float(right[np.arange(len(table)), last].mean()),
    }
