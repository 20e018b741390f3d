"""CompAct's models and batches small enough for a test."""

import numpy as np

from mmgen.data.compact.vocabulary import EOS, SEP, SPECIALS
from mmgen.models.crossmodal import make_crossmodal

ROWS, CLASSES = 20, 7
SHAPES = {"vision": (6,), "objects": (2, 6), "tags": (5,), "audio": (4,)}
SIZES = {
    "vocabulary_rows": ROWS,
    "modalities": SHAPES,
    "hidden": 8,
    "layers": 2,
    "heads": 2,
    "mlp": 12,
    "cross_layers": 2,
    "cross_mlp": 12,
    "fused_layers": 1,
    "classifier": 6,
}
INPUTS = {
    "l": (),
    "vl": (("vision", "objects"),),
    "avl": (("vision", "objects"), ("audio",)),
}


def tiny_crossmodal(name="avl", **settings):
    return make_crossmodal(**{**SIZES, "inputs": INPUTS[name], **settings})


def tiny_compact_batch(rows=4, words=2, target=3, seed=0):
    """Inputs of `words` words a clip and targets of 1 to `target` words; some clips are absent."""
    rng = np.random.default_rng(seed)
    first = len(SPECIALS)
    text = rng.integers(first, ROWS, (rows, 3 * words + 2)).astype(np.int32)
    text[:, [words, 2 * words + 1]] = SEP
    text[0, -1] = 0
    goal = rng.integers(first, ROWS, (rows, target + 1)).astype(np.int32)
    length = rng.integers(1, target + 1, rows)
    length[0] = target
    place = np.arange(target + 1)
    goal[place == length[:, None]] = EOS
    goal[place > length[:, None]] = 0
    batch = {
        "ids": np.arange(rows, dtype=np.int32),
        "mask": np.ones(rows, np.bool_),
        "text": text,
        "target": goal,
        "label": rng.integers(0, CLASSES, rows).astype(np.int32),
    }
    for name, shape in SHAPES.items():
        present = rng.random((rows, 3)) < 0.7
        features = rng.normal(size=(rows, 3, *shape)).astype(np.float32)
        present_wide = present.reshape(rows, 3, *[1] * len(shape))
        batch |= {name: features * present_wide, f"{name}_present": present}
    return batch
