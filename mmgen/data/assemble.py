"""Rows of a split -> a batch of the masked-span task, in whole-array operations.

Layout of the text: [IMG] [TXT] pieces [SEP] [PAD] ...; every piece of the span is [MASK], and its
true id is the target (viscoll.md section 1.5; there is no 80/10/10 rule).
"""

import numpy as np
from jaxtyping import Bool, Int

from mmgen.data.buckets import Bucket
from mmgen.data.columns import Split
from mmgen.data.features import FeatureStore
from mmgen.data.schema import IGNORE_ID, ROOM_FIELDS, Batch
from mmgen.data.tokenizer import Vocabulary
from mmgen.errors import UserError

LEADING = 2
"""[IMG] and [TXT]: a piece's position in the batch is its position in the caption plus this."""

SPECIALS = 3
"""[IMG], [TXT] and [SEP]."""

TEXT_ONLY = ("", "zero", "drop")
"""Multimodal; empty regions; no regions. See `assemble`."""


def text_lengths(split: Split) -> Int[np.ndarray, " n"]:
    """Text positions of every row, special tokens included."""
    return np.diff(split.columns["token_start"]) + SPECIALS


def object_counts(
    split: Split, store: FeatureStore | None, text_only: str = ""
) -> Int[np.ndarray, " n"]:
    """Object slots that every row fills; 0 without a store and under "drop"."""
    if store is None or text_only == "drop":
        return np.zeros(len(split), np.int32)
    return store.counts[split.columns["image"]]


def check_inputs(
    split: Split,
    store: FeatureStore | None,
    *,
    window: int,
    max_span: int,
    feature_dim: int,
    text_only: str,
) -> None:
    """Check once what `assemble` relies on for every row of a split.

    Args:
      window: text positions of the largest batch; captions are cut there, spans must not be.

    Raises:
      UserError: an unknown `text_only`, a multimodal run without features, features of another
        width or without some image; a span that is empty, longer than `max_span`, or outside its
        caption or the window. Split and row are named.
    """
    if text_only not in TEXT_ONLY:
        raise UserError(f"config.text_only is {text_only!r}; give '', 'zero' or 'drop'.")
    if store is None:
        _check_no_store(text_only)
    else:
        _check_store(split, store, feature_dim)
    start, stop = np.asarray(split.columns["span"]).T
    length = np.diff(split.columns["token_start"])
    for bad, fault in (
        ((start < 0) | (start >= stop) | (stop > length), "is outside its caption"),
        (stop - start > max_span, f"is longer than {max_span} tokens"),
        (stop + LEADING > window, f"leaves the text window of {window} positions"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            raise UserError(
                f"split {split.name}, row {row} (caption {split.columns['caption'][row]}): the "
                f"span [{start[row]}, {stop[row]}) {fault}; mend the source and build again, or "
                "give larger config.buckets.text"
            )


def _check_no_store(text_only: str) -> None:
    if not text_only:
        raise UserError(
            "This data set has no image features, so only text-only runs are possible: add "
            ":text_only to the config, or import features with python -m mmgen.data.importers."
        )


def _check_store(split: Split, store: FeatureStore, feature_dim: int) -> None:
    if store.dim != feature_dim:
        raise UserError(
            f"the features in {store.path} have {store.dim} numbers, the data set says "
            f"{feature_dim}: import or build them again"
        )
    image = np.asarray(split.columns["image"])
    bad = (image < 0) | (image >= len(store))
    if bad.any():
        row = int(np.argmax(bad))
        raise UserError(
            f"split {split.name}, row {row}: image {split.columns['image_id'][row]} is not among "
            f"the {len(store):,} images of {store.path}: build the data set again"
        )


def assemble(
    split: Split,
    store: FeatureStore | None,
    vocabulary: Vocabulary,
    rows: Int[np.ndarray, " b"],
    bucket: Bucket,
    *,
    max_span: int,
    feature_dim: int,
    text_only: str = "",
) -> Batch:
    """The batch of `rows`: numpy arrays of `schema.MASKED_SPAN_FIELDS`.

    A bucket with room to pack adds those of `schema.ROOM_FIELDS`.

    Captions are cut at the bucket's text, as the release cuts them at 64 positions (the cut piece
    may be [SEP]); images at the bucket's objects. Features travel in the dtype of the store.

    Args:
      split: the columns.
      store: the features, or None.
      vocabulary: for the special tokens.
      rows: row numbers, `IGNORE_ID` for a padded example: all its fields but `ids` are zero.
      bucket: padded shape.
      max_span: axis `m`.
      feature_dim: width of the zeros that stand for features where there is no store.
      text_only: "" reads everything. "zero" keeps `object_mask` and makes `features`, `boxes` and
        `image_feature` zero: as many objects, nothing to see. "drop" has no object at all, in one
        empty slot; so has "zero" without a store.

    Raises:
      UserError: a multimodal batch without a store.
    """
    rows = np.asarray(rows)
    mask = rows != IGNORE_ID
    known = np.where(mask, rows, 0)
    batch: Batch = {"ids": rows.astype(np.int32), "mask": mask}
    batch |= _text_fields(split, vocabulary, known, mask, bucket.text, max_span)
    images = np.where(mask, split.columns["image"][known], IGNORE_ID)
    batch |= _vision_fields(store, images, bucket.objects, feature_dim, text_only)
    if bucket.room is not None:
        shapes = zip(ROOM_FIELDS, bucket.room, strict=True)
        batch |= {name: np.zeros((len(rows), room), np.bool_) for name, room in shapes}
    return batch


def _text_fields(
    split: Split,
    vocabulary: Vocabulary,
    known: Int[np.ndarray, " b"],
    mask: Bool[np.ndarray, " b"],
    text: int,
    max_span: int,
) -> Batch:
    # Plain views: indexing np.memmap itself costs as much as a small gather.
    pieces = np.asarray(split.columns["tokens"])
    token_start = np.asarray(split.columns["token_start"])
    span = np.asarray(split.columns["span"])[known] + LEADING
    start = token_start[known, None]
    length = np.where(mask[:, None], token_start[known + 1, None] - start, -SPECIALS)

    position = np.arange(text)
    is_piece = (position >= LEADING) & (position < length + LEADING)
    in_span = is_piece & (position >= span[:, :1]) & (position < span[:, 1:])
    tokens = np.where(is_piece, pieces[np.where(is_piece, start + position - LEADING, 0)], 0)
    tokens[in_span] = vocabulary.mask
    tokens[mask, 0] = vocabulary.img
    tokens[mask, 1] = vocabulary.txt
    tokens[position == length + LEADING] = vocabulary.sep

    target_position = span[:, :1] + np.arange(max_span)
    target_mask = (target_position < np.minimum(span[:, 1:], text)) & mask[:, None]
    targets = pieces[np.where(target_mask, start + target_position - LEADING, 0)]
    return {
        "tokens": tokens,
        "text_mask": position < length + SPECIALS,
        "span_positions": np.where(target_mask, target_position, 0).astype(np.int32),
        "targets": np.where(target_mask, targets, 0),
        "target_mask": target_mask,
    }


def _vision_fields(
    store: FeatureStore | None,
    images: Int[np.ndarray, " b"],
    objects: int,
    feature_dim: int,
    text_only: str,
) -> Batch:
    if not text_only:
        if store is None:
            _check_no_store(text_only)
        else:
            return store.gather(images, objects)._asdict()
    dtype = np.dtype(np.float16) if store is None else store.dtype
    if store is None or text_only == "drop":
        object_mask = np.zeros((len(images), 1), np.bool_)
    else:
        object_mask = store.object_mask(images, objects)
    return {
        "features": np.zeros((*object_mask.shape, feature_dim), dtype),
        "boxes": np.zeros((*object_mask.shape, 4), np.float32),
        "object_mask": object_mask,
        "image_feature": np.zeros((len(images), feature_dim), dtype),
    }
