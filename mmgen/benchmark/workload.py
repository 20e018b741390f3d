"""Random data with the sizes and length distributions of COCO-shift, and nothing else of it.

What decides the speed of a step: how long captions are, how many objects images have, how many
tokens are masked, how often an image and a token come again. The distributions follow the released
dev split (viscoll.md section 1.1) and COCO's annotations: captions of 12.1 pieces on average with
.3 % beyond 28, 7.3 objects per image with 1 % beyond 40, spans of 2.5 tokens.
"""

import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, Int

from mmgen.core.rng import numpy_generator, stream_key
from mmgen.data.assemble import SPECIALS
from mmgen.data.buckets import Bucket
from mmgen.data.columns import Split
from mmgen.data.features import FeatureStore
from mmgen.data.streams import shift_stream
from mmgen.data.tables import Tables, build_tables
from mmgen.data.tokenizer import SPECIALS as SPECIAL_TOKENS
from mmgen.data.tokenizer import Vocabulary

COCO_IMAGES = 117_266
COCO_INSTANCES = 638_903
COCO_TASKS = 58
COCO_PIECES = 30_522
COCO_MAX_SPAN = 8
FEATURE_DIM = 2048
WORD_ROWS = 30_600

PUBLISHED_STREAM = 639_592
PUBLISHED_BIN_WIDTH = 1_000
PUBLISHED_SPREAD_FLOOR = 3_000

MOST_OBJECTS = 93
LONGEST_CAPTION = 62
SPAN_SHARES = (0.109, 0.441, 0.324, 0.096, 0.02, 0.006, 0.003, 0.001)
"""Share of spans of 1, 2, ... tokens in the released test split, rounded."""
DEVICE_ROWS = 65_536
"""Rows of features that are drawn at a time."""


class Workload(NamedTuple):
    """A train split without its features.

    Attributes:
      split: the columns.
      vocabulary: as many tokens as the published one, all of them meaningless.
      counts: int64[images], objects of each image.
      feature_dim: width of a region feature.
    """

    split: Split
    vocabulary: Vocabulary
    counts: Int[np.ndarray, " images"]
    feature_dim: int

    def stream(self) -> Int[np.ndarray, " n"]:
        """Rows in the order of a shifting stream, its constants scaled to the number of rows."""
        scale = len(self.split) / PUBLISHED_STREAM
        return shift_stream(
            self.split.columns["task"],
            seed=0,
            bin_width=max(1, round(PUBLISHED_BIN_WIDTH * scale)),
            spread_floor=round(PUBLISHED_SPREAD_FLOOR * scale),
        )

    def with_full_row(self, bucket: Bucket) -> "Workload":
        """The same but for row 0, which fills every text position and object slot of `bucket`.

        Raises:
          ValueError: the caption of row 0 is longer than that.
        """
        tokens, start = self.split.columns["tokens"], self.split.columns["token_start"]
        pieces = bucket.text - SPECIALS
        if start[1] > pieces:
            raise ValueError(f"row 0 has {start[1]} pieces, more than fit in {bucket}")
        full = np.resize(tokens[: start[1]], pieces)
        counts = self.counts.copy()
        counts[self.split.columns["image"][0]] = bucket.objects
        columns = {
            **self.split.columns,
            "tokens": np.concatenate([full, tokens[start[1] :]]),
            "token_start": np.concatenate([start[:1], start[1:] + pieces - start[1]]),
        }
        return self._replace(split=Split(self.split.name, columns), counts=counts)


def make_workload(
    images: int = COCO_IMAGES,
    instances: int = COCO_INSTANCES,
    *,
    feature_dim: int = FEATURE_DIM,
    pieces: int = COCO_PIECES,
    word_rows: int = WORD_ROWS,
    longest: int = LONGEST_CAPTION,
    most_objects: int = MOST_OBJECTS,
    seed: int = 0,
) -> Workload:
    """Random columns; the defaults are those of the published training stream.

    Args:
      longest, most_objects: pieces of a caption and objects of an image at most.
      pieces: tokens that captions are drawn from, log-uniformly (Zipf's law).
      word_rows: rows of the model's word table.
    """
    rng = numpy_generator(seed, "benchmark/workload")
    bulk = 6 + rng.lognormal(np.log(5.3), 0.42, instances)
    tail = rng.uniform(28, LONGEST_CAPTION, instances)
    lengths = np.where(rng.random(instances) < 0.003, tail, bulk).round().astype(np.int64)
    lengths = np.clip(lengths, 7, longest)
    spans = 1 + rng.choice(len(SPAN_SHARES), instances, p=SPAN_SHARES)
    begin = np.floor(rng.random(instances) * (lengths - np.minimum(spans, lengths) + 1))
    token_start = np.concatenate([[0], np.cumsum(lengths)])
    rank = np.floor(pieces ** rng.random(token_start[-1])).astype(np.int32)
    shares = 1 / (np.arange(COCO_TASKS) + 6.0)
    shares[0] = 0.47 * shares[1:].sum()  # "person" is a third of the instances
    counts = np.clip(rng.lognormal(np.log(4.8), 0.92, images).round(), 1, most_objects)
    columns = {
        "tokens": len(SPECIAL_TOKENS) + np.minimum(rank, pieces - 1),
        "token_start": token_start,
        "span": np.stack([begin, begin + spans], axis=1).astype(np.int32),
        "task": rng.choice(COCO_TASKS, instances, p=shares / shares.sum()).astype(np.int32),
        "image": np.sort(rng.integers(0, images, instances)).astype(np.int32),
        "caption": np.arange(instances),
    }
    return Workload(
        split=Split("train", columns),
        vocabulary=Vocabulary((*SPECIAL_TOKENS, *map(str, range(pieces))), False, word_rows),
        counts=counts.astype(np.int64),
        feature_dim=feature_dim,
    )


def host_store(workload: Workload, seed: int = 0) -> FeatureStore:
    """Random float16 features in host memory: images x objects x width x 2 bytes."""
    rng = numpy_generator(seed, "benchmark/features")
    regions, images = int(workload.counts.sum()), len(workload.counts)

    def draw(rows: int) -> Float[np.ndarray, "rows d"]:
        return rng.standard_normal((rows, workload.feature_dim), np.float32).astype(np.float16)

    boxes = np.sort(rng.random((regions, 2, 2), np.float32), axis=1).reshape(regions, 4)
    return _store(workload, draw(regions), boxes, draw(images))


def hollow_store(workload: Workload) -> FeatureStore:
    """A store that knows how many objects each image has, and reads zeros; takes no memory."""
    regions, images = int(workload.counts.sum()), len(workload.counts)

    def zeros(rows: int, width: int, dtype: DTypeLike) -> Float[np.ndarray, "rows width"]:
        return np.broadcast_to(np.zeros((1, width), dtype), (rows, width))

    return _store(
        workload,
        zeros(regions, workload.feature_dim, np.float16),
        zeros(regions, 4, np.float32),
        zeros(images, workload.feature_dim, np.float16),
    )


def _store(
    workload: Workload, features: np.ndarray, boxes: np.ndarray, whole_image: np.ndarray
) -> FeatureStore:
    arrays = {
        "features": features,
        "boxes": boxes,
        "offsets": np.concatenate([[0], np.cumsum(workload.counts)]),
        "whole_image": whole_image,
        "image_ids": np.arange(len(workload.counts)),
    }
    return FeatureStore(pathlib.Path("benchmark"), {}, arrays)


def device_tables(workload: Workload, dtype: DTypeLike, seed: int = 0) -> Tables:
    """The workload's tables on the default device, features drawn there: nothing is copied."""
    tables = build_tables(workload.split, hollow_store(workload), feature_dim=workload.feature_dim)
    regions, images = len(tables.features), len(tables.whole_image)
    placed = jax.device_put(tables._replace(features=(), boxes=(), whole_image=()))
    return placed._replace(
        features=_draw_features(stream_key(seed, "benchmark/regions"), regions, workload, dtype),
        boxes=jnp.tile(jnp.array([0.1, 0.2, 0.7, 0.9], jnp.float32), (regions, 1)),
        whole_image=_draw_features(stream_key(seed, "benchmark/images"), images, workload, dtype),
    )


def _draw_features(key: Array, rows: int, workload: Workload, dtype: DTypeLike) -> Array:
    """[rows, d], drawn in parts: the words behind them take twice the memory or more."""
    width, part = workload.feature_dim, min(rows, DEVICE_ROWS)

    @jax.jit
    def draw() -> Array:
        def fill(index: Array, table: Array) -> Array:
            values = jax.random.normal(jax.random.fold_in(key, index), (part, width), dtype)
            # The last part is moved back so that it ends with the table.
            start = jnp.minimum(index * part, rows - part)
            return jax.lax.dynamic_update_slice(table, values, (start, 0))

        return jax.lax.fori_loop(0, -(-rows // part), fill, jnp.zeros((rows, width), dtype))

    return draw()
