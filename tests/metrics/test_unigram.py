"""The unigram baselines are proper distributions and use position and length."""

import gzip
import json

import numpy as np
import pytest

from mmgen.metrics import bleu, ppl, unigram

TARGET = np.array([[1, 5, 0], [1, 5, 0], [1, 6, 0], [5, 0, 0], [2, 3, 4]])
MASK = np.array([[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=bool)
SIZE = 8


def fitted():
    return unigram.fit_span_unigram(TARGET, MASK, SIZE)


def test_every_cell_sums_to_one():
    model = fitted()
    every = np.arange(SIZE)[:, None]
    for length in (1, 2, 3, 5):
        mask = np.ones((SIZE, length), dtype=bool)
        total = np.exp(-unigram.span_unigram_nll(model, np.tile(every, length), mask)).sum(axis=0)
        np.testing.assert_allclose(total, 1.0)
    np.testing.assert_allclose(np.exp(-unigram.unigram_nll(model, every)).sum(), 1.0)


def test_position_and_length_decide_the_prediction(monkeypatch):
    monkeypatch.setattr(unigram, "BACKOFF_WEIGHT", 0.1)
    model = fitted()
    assert unigram.span_unigram_prediction(model, MASK)[0, :2].tolist() == [1, 5]
    assert unigram.span_unigram_prediction(model, MASK)[3, 0] == 5
    assert unigram.span_unigram_prediction(model, MASK)[4].tolist() == [2, 3, 4]


def test_a_longer_span_than_any_in_training_backs_off_to_the_unigram():
    model = fitted()
    target, mask = np.array([[1, 5, 1, 5, 6]]), np.ones((1, 5), dtype=bool)
    np.testing.assert_allclose(
        unigram.span_unigram_nll(model, target, mask), unigram.unigram_nll(model, target)
    )


def test_unseen_tokens_keep_a_probability():
    assert np.isfinite(unigram.unigram_nll(fitted(), np.array([[7]]))).all()


def test_baselines_of_the_real_captions(real_data):
    """COCO test, fitted on COCO dev: the figures that the published vanilla run does not reach."""
    tokenizers = pytest.importorskip("tokenizers")
    from mmgen.data.tokenizer import BERT_PACKAGE

    package = pytest.importorskip(BERT_PACKAGE)
    vocabulary = package.__path__[0] + "/model/vocab.txt"
    tokenizer = tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=True)

    def spans(name, images):
        known = set(json.loads((real_data / "viscoll" / images).read_text()).values())
        with gzip.open(real_data / "viscoll" / name, "rt") as lines:
            rows = [json.loads(line) for line in lines]
        rows = [row for row in rows if row["annotation"]["image_id"] in known]
        captions = tokenizer.encode_batch(
            [row["annotation"]["caption"] for row in rows], add_special_tokens=False
        )
        length = np.array([row["mask"][1] - row["mask"][0] + 1 for row in rows])
        mask = np.arange(length.max())[None, :] < length[:, None]
        target = np.zeros(mask.shape, dtype=np.int64)
        target[mask] = [
            token
            for row, caption in zip(rows, captions, strict=True)
            for token in caption.ids[row["mask"][0] : row["mask"][1] + 1]
        ]
        return target, mask

    model = unigram.fit_span_unigram(*spans("coco_dev.jsonl.gz", "coco_train_map.json"), 30_600)
    target, mask = spans("coco_test.jsonl.gz", "coco_val_map.json")
    length = mask.sum(axis=1)
    assert len(target) == 28_720
    plain = ppl.log_perplexity(unigram.unigram_nll(model, target), mask).value
    by_position = ppl.log_perplexity(unigram.span_unigram_nll(model, target, mask), mask).value
    assert plain == pytest.approx(4.85, abs=0.01)
    assert by_position == pytest.approx(4.13, abs=0.01)
    predicted = unigram.span_unigram_prediction(model, mask)
    bleus = bleu.sentence_bleu(predicted, target, length, length).mean(axis=0)
    assert bleus == pytest.approx([0.294, 0.067], abs=1e-3)
    assert bleu.bleu_ceiling(length).mean() == pytest.approx(0.891, abs=1e-3)
