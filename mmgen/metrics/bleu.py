"""Sentence BLEU on token ids: the COCO caption toolkit's, and sacrebleu's under its own name.

The toolkit's numbers (`tylin/coco-caption pycocoevalcap/bleu/bleu_scorer.py compute_score`, the
copy in `INK-USC/VisCOLL coco_evaluator/bleu/bleu_scorer.py:180-222`) rest on two constants that are
added to every n-gram count. They decide what a short span scores: a one-token span has no bigram,
so its BLEU-2 is sqrt(1 * TINY / SMALL) = 0.001 even when it is right, and the mean has a ceiling.
"""

import numpy as np
from jaxtyping import Float, Int

SMALL = 1e-9
"""Added to the number of n-grams of the hypothesis and to the reference's length."""

TINY = 1e-15
"""Added to the number of matched n-grams and to the hypothesis's length."""

_CHUNK = 8192


def sentence_bleu(
    prediction: Int[np.ndarray, "n p"],
    target: Int[np.ndarray, "n t"],
    prediction_length: Int[np.ndarray, " n"],
    target_length: Int[np.ndarray, " n"],
    max_order: int = 2,
) -> Float[np.ndarray, "n k"]:
    """Sentence BLEU-1 ... BLEU-`max_order` of each row, float64[n, max_order] in [0, 1].

    Equal to the COCO caption toolkit's with one reference per hypothesis. Ids beyond a row's length
    are ignored.
    """
    parts = [
        _bleu_chunk(
            prediction[i : i + _CHUNK],
            target[i : i + _CHUNK],
            prediction_length[i : i + _CHUNK],
            target_length[i : i + _CHUNK],
            max_order,
        )
        for i in range(0, len(prediction), _CHUNK)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, max_order))


def bleu_ceiling(length: Int[np.ndarray, " n"], order: int = 2) -> Float[np.ndarray, " n"]:
    """The BLEU of a perfect prediction of each length: 1, or almost 0 where no n-gram fits."""
    width = int(length.max(initial=1))
    perfect = np.broadcast_to(np.arange(width), (len(length), width))
    return sentence_bleu(perfect, perfect, length, length, order)[:, order - 1]


def sacrebleu_sentence(
    prediction: Int[np.ndarray, "n p"],
    target: Int[np.ndarray, "n t"],
    prediction_length: Int[np.ndarray, " n"],
    target_length: Int[np.ndarray, " n"],
    max_order: int = 2,
) -> Float[np.ndarray, "n k"]:
    """sacrebleu's sentence BLEU-1 ... BLEU-`max_order` (exp smoothing, effective order), in [0, 1].

    Tokens are compared by id, so no tokenizer of sacrebleu's takes part. Equal rows are scored
    once: spans repeat.
    """
    from sacrebleu.metrics import BLEU

    scorers = [
        BLEU(max_ngram_order=k, effective_order=True, tokenize="none", force=True)
        for k in range(1, max_order + 1)
    ]
    known: dict[tuple[str, str], list[float]] = {}
    scores = np.zeros((len(prediction), max_order))
    for row in range(len(prediction)):
        hypothesis = " ".join(map(str, prediction[row, : prediction_length[row]].tolist()))
        reference = " ".join(map(str, target[row, : target_length[row]].tolist()))
        key = (hypothesis, reference)
        if key not in known:
            known[key] = [s.sentence_score(hypothesis, [reference]).score / 100 for s in scorers]
        scores[row] = known[key]
    return scores


def _bleu_chunk(
    prediction: np.ndarray,
    target: np.ndarray,
    prediction_length: np.ndarray,
    target_length: np.ndarray,
    max_order: int,
) -> np.ndarray:
    hypothesis, reference = _renumber(prediction.astype(np.int64), target.astype(np.int64))
    ours, true = hypothesis, reference
    base = int(max(hypothesis.max(initial=0), reference.max(initial=0))) + 1
    length = prediction_length.astype(np.float64)
    product = np.ones(len(prediction))
    scores = np.empty((len(prediction), max_order))
    for order in range(1, max_order + 1):
        if order > 1:
            ours, true = _renumber(
                _extend(ours, hypothesis, order, base), _extend(true, reference, order, base)
            )
        correct = _clipped_matches(
            ours,
            _inside(ours, prediction_length, order),
            true,
            _inside(true, target_length, order),
        )
        product *= (correct + TINY) / (np.maximum(0, length - order + 1) + SMALL)
        scores[:, order - 1] = product ** (1 / order)
    # The toolkit's ratio is just under 1 for equal lengths, which costs a right answer about 1e-9.
    ratio = (length + TINY) / (target_length + SMALL)
    penalty = np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0)
    return scores * penalty[:, None]


def _renumber(ours: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same n-grams numbered from 0, so that the next order still fits an int64."""
    both = np.concatenate([ours.ravel(), true.ravel()])
    dense = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return dense[: ours.size].reshape(ours.shape), dense[ours.size :].reshape(true.shape)


def _extend(grams: np.ndarray, tokens: np.ndarray, order: int, base: int) -> np.ndarray:
    """N-grams of `order` from those of `order - 1` and the token (below `base`) after each."""
    following = tokens[:, order - 1 :]
    return grams[:, : following.shape[1]] * base + following


def _inside(grams: np.ndarray, length: np.ndarray, order: int) -> np.ndarray:
    """Which n-grams lie wholly inside their row."""
    return np.arange(grams.shape[1])[None, :] + order <= length[:, None]


def _clipped_matches(
    ours: np.ndarray, ours_inside: np.ndarray, true: np.ndarray, true_inside: np.ndarray
) -> np.ndarray:
    """Matched n-grams per row, each counted at most as often as the reference has it."""
    in_reference = np.sum(
        (ours[:, :, None] == true[:, None, :]) & true_inside[:, None, :], axis=2, dtype=np.int64
    )
    same = (ours[:, :, None] == ours[:, None, :]) & ours_inside[:, None, :]
    occurrence = np.sum(np.tril(same), axis=2, dtype=np.int64)
    return np.sum(ours_inside & (occurrence <= in_reference), axis=1).astype(np.float64)
