"""Unigram BLEU of a corpus: torchtext's definition, and sacrebleu's under its own name.

torchtext (`torchtext.data.metrics.bleu_score` with `max_n=1`): clipped matches over predicted
tokens, both summed over the corpus, times exp(1 - reference tokens / predicted tokens) where less
was predicted than there is in the references; 0 without a match. One reference per item.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int


def unigram_counts(
    predictions: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> Int[np.ndarray, "n 3"]:
    """Clipped matches, predicted tokens and reference tokens of every item."""
    counts = [
        (sum((Counter(ours) & Counter(true)).values()), len(ours), len(true))
        for ours, true in zip(predictions, targets, strict=True)
    ]
    return np.array(counts, np.int64).reshape(-1, 3)


def bleu1(counts: Float[np.ndarray, " 3"]) -> float:
    """Unigram BLEU in [0, 1] from summed counts (see `unigram_counts`); NaN of an empty corpus."""
    matches, predicted, reference = map(float, counts)
    if reference == 0:
        return math.nan
    if matches == 0:
        return 0.0
    return matches / predicted * math.exp(min(0.0, 1 - reference / predicted))


def sacrebleu1(predictions: Sequence[str], targets: Sequence[str]) -> float:
    """sacrebleu's corpus BLEU of order 1 on white-space tokens, in [0, 1]."""
    from sacrebleu.metrics import BLEU

    scorer = BLEU(max_ngram_order=1, tokenize="none", force=True)
    return scorer.corpus_score(list(predictions), [list(targets)]).score / 100
