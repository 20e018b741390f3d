"""A whole split in device memory: batches are gathered inside the compiled step.

The counterpart of `mmgen.data.pipeline.assemble` for residency "device": same fields, same values
at the same bucket. Features stay ragged, so that device memory holds boxes and no padding.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mmgen.data.schema import Batch


class Tables(NamedTuple):
    """Arrays of one split at one bucket, numpy on the host or jax on the device.

    Attributes:
      tokens: int32[n, t], [IMG] [TXT] pieces [SEP] [PAD]..., nothing masked yet.
      span: int32[n, 2], half-open positions of the masked span within `tokens`.
      image: int32[n], row of the image.
      offsets: int32[images + 1], first region of each image.
      features: [regions, d] float16, bfloat16 or float32.
      boxes: float32[regions, 4].
      whole_image: [images, d].
    """

    tokens: Int[Any, "n t"]
    span: Int[Any, "n 2"]
    image: Int[Any, " n"]
    offsets: Int[Any, " images+1"]
    features: Float[Any, "regions d"]
    boxes: Float[Any, "regions 4"]
    whole_image: Float[Any, "images d"]


def text_tables(
    tokens: Int[np.ndarray, " total"],
    token_start: Int[np.ndarray, " n+1"],
    span: Int[np.ndarray, "n 2"],
    *,
    width: int,
    img: int,
    txt: int,
    sep: int,
    pad: int = 0,
) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, "n 2"]]:
    """Padded token table and shifted spans from ragged columns.

    Args:
      width: text positions of the bucket, specials included; longer captions are cut at their end.
      img, txt, sep, pad: ids of the special tokens.
    """
    lengths = np.diff(token_start)
    column = np.arange(width)[None, :]
    # Position p of a row is caption token p - 2, then [SEP], then padding.
    source = token_start[:-1, None] + column - 2
    inside = (column >= 2) & (column < lengths[:, None] + 2)
    table = np.where(inside, tokens[np.clip(source, 0, len(tokens) - 1)], pad).astype(np.int32)
    table[:, 0], table[:, 1] = img, txt
    row, end = np.arange(len(lengths)), lengths + 2
    fits = end < width
    table[row[fits], end[fits]] = sep
    return table, (span + 2).astype(np.int32)


def gather_batch(
    tables: Tables, rows: Int[Array, " b"], *, objects: int, max_span: int, mask_id: int
) -> Batch:
    """The batch of `rows`, traceable; negative rows are padding with `mask == False`.

    Args:
      rows: int32[b], row numbers of the split.
      objects: object slots of the bucket.
      max_span: masked positions of the batch.
      mask_id: id of [MASK].
    """
    valid = rows >= 0
    row = jnp.maximum(rows, 0)
    tokens = jnp.where(valid[:, None], tables.tokens[row], 0)
    start, stop = tables.span[row, 0], tables.span[row, 1]
    position = jnp.arange(tokens.shape[1])[None, :]
    in_span = (position >= start[:, None]) & (position < stop[:, None]) & valid[:, None]
    place = start[:, None] + jnp.arange(max_span)[None, :]
    target_mask = (place < stop[:, None]) & valid[:, None]
    place = jnp.where(target_mask, place, 0)
    targets = jnp.where(target_mask, jnp.take_along_axis(tokens, place, axis=1), 0)

    image = tables.image[row]
    first = tables.offsets[image]
    count = jnp.where(valid, tables.offsets[image + 1] - first, 0)
    slot = jnp.arange(objects)[None, :]
    object_mask = slot < count[:, None]
    region = jnp.where(object_mask, first[:, None] + slot, 0)
    keep = object_mask[:, :, None]
    return {
        "ids": jnp.where(valid, rows, -1),
        "mask": valid,
        "tokens": jnp.where(in_span, mask_id, tokens),
        "text_mask": tokens != 0,
        "span_positions": place,
        "targets": targets,
        "target_mask": target_mask,
        "features": jnp.where(keep, tables.features[region], 0),
        "boxes": jnp.where(keep, tables.boxes[region], 0.0),
        "object_mask": object_mask,
        "image_feature": jnp.where(valid[:, None], tables.whole_image[image], 0),
    }
