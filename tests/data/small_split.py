"""A split of random captions with a store of random features, and its batches written out."""

import numpy as np
import pytest

from mmgen.data.assemble import assemble
from mmgen.data.buckets import Bucket
from mmgen.data.columns import Split, masked_span_columns
from mmgen.data.features import FeatureStore, write_feature_store
from mmgen.data.schema import IGNORE_ID
from mmgen.data.tokenizer import world_vocabulary

DIM, ROWS, MAX_SPAN, IMAGES = 6, 60, 3, 9
VOCABULARY = world_vocabulary([f"word{i}" for i in range(40)])
LARGE = Bucket(text=20, objects=5)


@pytest.fixture(scope="module")
def split() -> Split:
    rng = np.random.default_rng(0)
    tokens = [rng.integers(7, 47, rng.integers(4, 15)).tolist() for _ in range(ROWS)]
    start = [int(rng.integers(0, len(t) - 2)) for t in tokens]
    stop = [min(len(t), s + int(rng.integers(1, 4))) for t, s in zip(tokens, start, strict=True)]
    columns = masked_span_columns(
        tokens,
        span=np.stack([start, stop], 1),
        task=rng.integers(0, 4, ROWS),
        image=rng.integers(0, IMAGES, ROWS),
        caption=np.arange(1000, 1000 + ROWS),
        image_id=rng.integers(0, 99, ROWS),
    )
    return Split("train", columns)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    rng = np.random.default_rng(1)

    def items():
        for image in range(IMAGES):
            count = image % 6
            boxes = np.sort(rng.random((count, 2, 2), np.float32), axis=1).reshape(count, 4)
            features = rng.standard_normal((count + 1, DIM)).astype(np.float16)
            yield image, features[1:], boxes, features[0]

    path = tmp_path_factory.mktemp("store") / "features"
    origin = {"extractor": "random", "trained_on": "nothing", "box_convention": "xyxy_unit"}
    write_feature_store(path, items(), origin)
    return FeatureStore.open(path)


def make_batch(split, store, rows, bucket=LARGE, text_only=""):
    return assemble(
        split,
        store,
        VOCABULARY,
        np.array(rows),
        bucket,
        max_span=MAX_SPAN,
        feature_dim=DIM,
        text_only=text_only,
    )


def literal_text(split, row, text):
    """Tokens, positions and targets of one row, token by token."""
    start, stop = split.columns["span"][row].tolist()
    pieces = split.tokens(row).tolist()
    masked = [VOCABULARY.mask if start <= i < stop else p for i, p in enumerate(pieces)]
    sequence = [VOCABULARY.img, VOCABULARY.txt, *masked, VOCABULARY.sep][:text]
    positions = [i + 2 for i in range(start, stop) if i + 2 < text]
    return sequence, positions, [pieces[p - 2] for p in positions]


def check_row(batch, at, split, store, row, text):
    if row == IGNORE_ID:
        for name, values in batch.items():
            assert name == "ids" or not values[at].any(), name
        return
    sequence, positions, targets = literal_text(split, row, text)
    pad = text - len(sequence)
    assert batch["tokens"][at].tolist() == sequence + [0] * pad
    assert batch["text_mask"][at].tolist() == [True] * len(sequence) + [False] * pad
    rest = MAX_SPAN - len(positions)
    assert batch["span_positions"][at].tolist() == positions + [0] * rest
    assert batch["targets"][at].tolist() == targets + [0] * rest
    assert batch["target_mask"][at].tolist() == [True] * len(positions) + [False] * rest
    gathered = store.gather(split.columns["image"][row : row + 1], batch["features"].shape[1])
    for name, values in gathered._asdict().items():
        np.testing.assert_array_equal(batch[name][at], values[0])
