"""Names, shapes and dtypes of a batch, said once.

A batch is a plain dict of arrays with a leading example axis `b`. Letters of the axes, used alike
everywhere: `b` examples, `t` text positions, `m` masked positions, `o` objects, `d` features.
"""

from typing import Any

import numpy as np

Batch = dict[str, Any]

IGNORE_ID = -1
"""The row number of a padded example; such a row has `mask == False` and never changes a number."""

MASKED_SPAN_FIELDS: dict[str, tuple[str, type]] = {
    # Row number in the split (= TFDS key = example id), IGNORE_ID on padded rows.
    "ids": ("b", np.int32),
    # Is this row an example?
    "mask": ("b", np.bool_),
    # [IMG] [TXT] pieces [SEP], the span replaced by [MASK]; [PAD] (0) beyond.
    "tokens": ("b t", np.int32),
    # tokens is not padding.
    "text_mask": ("b t", np.bool_),
    # Indices into t of the span's tokens; 0 where target_mask is False.
    "span_positions": ("b m", np.int32),
    # True token ids at those positions; 0 where target_mask is False.
    "targets": ("b m", np.int32),
    # Is this a masked token? At least one True in every row with mask == True.
    "target_mask": ("b m", np.bool_),
    # Region features; zero on padded slots, and everywhere in text-only runs.
    "features": ("b o d", np.float32),
    # x1, y1, x2, y2 scaled to [0, 1].
    "boxes": ("b o 4", np.float32),
    # Is this slot an object of the image?
    "object_mask": ("b o", np.bool_),
    # The explicit whole-image row of the feature store (box slot 0 of the released layout).
    "image_feature": ("b d", np.float32),
}
"""Fields of a batch of the masked-span task: name -> (axes, numpy dtype).

`features` and `image_feature` travel in the dtype of the feature store (float16 or float32) and
are cast by the model.
"""

ROOM_FIELDS: dict[str, tuple[str, type]] = {
    "text_room": ("b rt", np.bool_),
    "object_room": ("b ro", np.bool_),
    "target_room": ("b rm", np.bool_),
}
"""Fields of a batch that is to be packed (`mmgen.models.packing`). Only their shapes are read: per
example, `rt` text positions, `ro` objects and `rm` masked positions exist on average and at most.
"""
