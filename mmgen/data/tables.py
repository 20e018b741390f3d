"""A whole split in device memory: batches are gathered inside the compiled step.

The counterpart of `mmgen.data.assemble` for residency "device": the same fields with the same
values at the same bucket. Captions and regions stay ragged, so device memory holds no padding.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mmgen.data.assemble import LEADING, SPECIALS
from mmgen.data.buckets import Bucket
from mmgen.data.columns import Split
from mmgen.data.features import FeatureStore
from mmgen.data.schema import IGNORE_ID, ROOM_FIELDS, Batch
from mmgen.data.tokenizer import Vocabulary
from mmgen.errors import UserError

INT32_END = 2**31

OF_ALL_SPLITS = ("offsets", "features", "boxes", "whole_image")
"""Tables of the images, which are the same for every split of a data set."""


class Tables(NamedTuple):
    """Arrays of one split, numpy on the host or jax on the device.

    Attributes:
      tokens: int32[total], token ids of every caption, back to back, without special tokens.
      token_start: int32[n+1], first token of each row's caption.
      span: int32[n, 2], half-open span over the row's own tokens.
      image: int32[n], row of the image.
      offsets: int32[images+1], first region of each image; int32[1] where there is no object.
      features: [regions, d] float16, bfloat16 or float32; [0, d] stands for zeros.
      boxes: float32[regions, 4]; [0, 4] stands for zeros.
      whole_image: [images, d]; [0, d] stands for zeros.
    """

    tokens: Int[Any, " total"]
    token_start: Int[Any, " n+1"]
    span: Int[Any, "n 2"]
    image: Int[Any, " n"]
    offsets: Int[Any, " images+1"]
    features: Float[Any, "regions d"]
    boxes: Float[Any, "regions 4"]
    whole_image: Float[Any, "images d"]


def build_tables(
    split: Split, store: FeatureStore | None, *, feature_dim: int, text_only: str = ""
) -> Tables:
    """The tables of a split, numpy arrays, memory-mapped where the split's and store's are.

    Args:
      split, store, feature_dim, text_only: as for `assemble.assemble`, checked by
        `assemble.check_inputs`.

    Raises:
      UserError: the split has more tokens or regions than an int32 can number.
    """
    columns = split.columns
    _check_size(split.name, "tokens", len(columns["tokens"]))
    no_object = store is None or text_only == "drop"
    offsets = np.zeros(1, np.int64) if store is None or no_object else store.offsets
    _check_size(split.name, "regions", int(offsets[-1]))
    return Tables(
        tokens=columns["tokens"],
        token_start=columns["token_start"].astype(np.int32),
        span=columns["span"],
        image=columns["image"],
        offsets=offsets.astype(np.int32),
        **_vision_tables(store, feature_dim, text_only),
    )


def _vision_tables(
    store: FeatureStore | None, feature_dim: int, text_only: str
) -> dict[str, np.ndarray]:
    if store is not None and not text_only:
        return {
            "features": store.features,
            "boxes": store.boxes,
            "whole_image": store.whole_image,
        }
    dtype = np.dtype(np.float16) if store is None else store.dtype
    return {
        "features": np.zeros((0, feature_dim), dtype),
        "boxes": np.zeros((0, 4), np.float32),
        "whole_image": np.zeros((0, feature_dim), dtype),
    }


def _check_size(split: str, what: str, count: int) -> None:
    if count >= INT32_END:
        raise UserError(
            f"split {split} has {count:,} {what}, more than residency 'device' can number; set "
            "config.residency='host'."
        )


def gather_batch(
    tables: Tables,
    rows: Int[Array, " b"],
    bucket: Bucket,
    *,
    vocabulary: Vocabulary,
    max_span: int,
) -> Batch:
    """The batch of `rows`, traceable: what `assemble.assemble` gives for them at `bucket`.

    Args:
      rows: int32[b], row numbers of the split, `IGNORE_ID` for a padded example.
      bucket: padded shape.
      vocabulary: for the special tokens.
      max_span: axis `m`.
    """
    mask = rows != IGNORE_ID
    known = jnp.where(mask, rows, 0)
    batch = {
        "ids": rows,
        "mask": mask,
        **_text_fields(tables, vocabulary, known, mask, bucket.text, max_span),
        **_vision_fields(tables, known, mask, bucket.objects),
    }
    if bucket.room is not None:
        shapes = zip(ROOM_FIELDS, bucket.room, strict=True)
        batch |= {name: jnp.zeros((len(rows), room), jnp.bool_) for name, room in shapes}
    return batch


def _text_fields(
    tables: Tables,
    vocabulary: Vocabulary,
    known: Int[Array, " b"],
    mask: Bool[Array, " b"],
    text: int,
    max_span: int,
) -> Batch:
    begin = tables.token_start[known]
    length = jnp.where(mask, tables.token_start[known + 1] - begin, -SPECIALS)[:, None]
    span = tables.span[known] + LEADING

    def pieces(position: Int[Array, "b p"], wanted: Bool[Array, "b p"]) -> Int[Array, "b p"]:
        """Caption tokens at positions of the text, 0 where none is wanted."""
        source = jnp.where(wanted, begin[:, None] + position - LEADING, 0)
        return jnp.where(wanted, tables.tokens[source], 0)

    position = jnp.arange(text)[None, :]
    is_piece = (position >= LEADING) & (position < length + LEADING)
    in_span = is_piece & (position >= span[:, :1]) & (position < span[:, 1:])
    tokens = jnp.where(in_span, vocabulary.mask, pieces(position, is_piece))
    tokens = jnp.where(position == length + LEADING, vocabulary.sep, tokens)
    for at, special in enumerate((vocabulary.img, vocabulary.txt)):
        tokens = jnp.where((position == at) & mask[:, None], special, tokens)

    target = span[:, :1] + jnp.arange(max_span)
    target_mask = (target < jnp.minimum(span[:, 1:], text)) & mask[:, None]
    return {
        "tokens": tokens,
        "text_mask": position < length + SPECIALS,
        "span_positions": jnp.where(target_mask, target, 0),
        "targets": pieces(target, target_mask),
        "target_mask": target_mask,
    }


def _vision_fields(
    tables: Tables, known: Int[Array, " b"], mask: Bool[Array, " b"], objects: int
) -> Batch:
    image = tables.image[known]
    if tables.offsets.shape[0] == 1:
        first, objects = jnp.zeros_like(image), 1
        count = first
    else:
        first = tables.offsets[image]
        count = jnp.where(mask, tables.offsets[image + 1] - first, 0)
    slot = jnp.arange(objects)[None, :]
    object_mask = slot < count[:, None]
    region = jnp.where(object_mask, first[:, None] + slot, 0)
    return {
        "features": _take(tables.features, region, object_mask),
        "boxes": _take(tables.boxes, region, object_mask),
        "object_mask": object_mask,
        "image_feature": _take(tables.whole_image, image, mask),
    }


def _take(
    table: Float[Array, "n d"], index: Int[Array, "..."], wanted: Bool[Array, "..."]
) -> Float[Array, "... d"]:
    """Rows of a table, zeros where none is wanted, and everywhere if the table is empty."""
    if table.shape[0] == 0:
        return jnp.zeros((*index.shape, table.shape[1]), table.dtype)
    return jnp.where(wanted[..., None], table[index], 0)
