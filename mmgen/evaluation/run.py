"""Running a model over the rows of a split, without padding waste, on any mesh."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from mmgen.algorithms.base import Feed
from mmgen.core.mesh import batch_shards, local_rows, put_feed
from mmgen.data.assemble import assemble, check_inputs, object_counts, text_lengths
from mmgen.data.buckets import Bucket, bucket_of
from mmgen.data.columns import Split
from mmgen.data.schema import IGNORE_ID
from mmgen.data.tables import Tables, gather_batch
from mmgen.evaluation.predictions import Record, make_records

PyTree = Any


class EvalBatch(NamedTuple):
    """Rows of one evaluation batch, `IGNORE_ID` beyond the last one, and their padded shape."""

    rows: Int[np.ndarray, " b"]
    bucket: Bucket


def plan_batches(
    rows: Int[np.ndarray, " n"],
    lengths: Int[np.ndarray, " n"],
    counts: Int[np.ndarray, " n"],
    buckets: Sequence[Bucket],
    batch_size: int,
) -> list[EvalBatch]:
    """Batches of rows of like size; at most one of them, the last, is padded with `IGNORE_ID`.

    Args:
      rows: row numbers.
      lengths: their text positions, special tokens included.
      counts: their objects.
      buckets: from smallest to largest; the last holds every row.
    """
    order = np.lexsort((rows, counts, lengths))
    batches = []
    for start in range(0, len(rows), batch_size):
        chosen = order[start : start + batch_size]
        padded = np.full(batch_size, IGNORE_ID, dtype=np.int32)
        padded[: len(chosen)] = rows[chosen]
        batches.append(EvalBatch(padded, bucket_of(lengths[chosen], counts[chosen], buckets)))
    return batches


def evaluate_split(
    predict: Callable[[PyTree, dict[str, Any]], dict[str, jax.Array]],
    params: PyTree,
    split: Split,
    store: Any,
    vocabulary: Any,
    rows: Int[np.ndarray, " n"],
    *,
    batch_size: int,
    buckets: Sequence[Bucket],
    mesh: jax.sharding.Mesh,
    max_span: int,
    feature_dim: int,
    text_only: str = "",
    tables: Tables | None = None,
) -> Iterator[list[Record]]:
    """Records of `rows`, batch by batch, in the order of evaluation (not of `rows`).

    Every process must iterate to the end, for the model runs on all of them together; all of them
    get all records. One program is compiled per bucket, once per process and `predict`.

    Args:
      predict: `Task.predict`: (params, batch) -> {"nll": [b, m], "prediction": [b, m], ...}.
      store: the feature store, None without features.
      vocabulary: the data set's vocabulary.
      batch_size: rows of a global batch; raised to a multiple of the devices that share it.
      buckets: padded shapes, from smallest to largest; the last holds every row.
      max_span, feature_dim, text_only: as in `mmgen.data.assemble.assemble`.
      tables: the split in device memory, from which batches are then gathered there.

    Raises:
      UserError: what `check_inputs` finds in the split, or a loss that is not finite.
    """
    inputs: dict[str, Any] = {
        "max_span": max_span,
        "feature_dim": feature_dim,
        "text_only": text_only,
    }
    check_inputs(split, store, window=buckets[-1].text, **inputs)
    shards = batch_shards(mesh)
    batch_size = -(-batch_size // shards) * shards
    mine = local_rows(batch_size, mesh)
    if tables is None:
        compiled = _compiled(predict)
    else:
        compiled = functools.partial(_gathering(predict, vocabulary, max_span), tables)
    # What is beyond the largest bucket is cut, see `assemble`.
    lengths = np.minimum(text_lengths(split), buckets[-1].text)[rows]
    counts = np.minimum(object_counts(split, store, text_only), buckets[-1].objects)[rows]
    pending = None
    for batch in plan_batches(rows, lengths, counts, buckets, batch_size):
        if tables is None:
            local = assemble(split, store, vocabulary, batch.rows[mine], batch.bucket, **inputs)
        else:
            local = {"ids": batch.rows[mine]}
        # The device works on this batch while the host turns the previous one into records.
        feed = put_feed(Feed(stream=local), mesh, rows=(batch_size,))
        output = compiled(params, feed.stream, bucket=batch.bucket)
        if pending is not None:
            yield _records(split, pending)
        pending = output
    if pending is not None:
        yield _records(split, pending)


def to_host(tree: PyTree) -> PyTree:
    """Global arrays as numpy arrays, whole, on every process."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    from jax.experimental import multihost_utils

    with jax.transfer_guard("allow"):
        return multihost_utils.process_allgather(tree, tiled=True)


@functools.lru_cache(maxsize=8)
def _compiled(predict: Callable[..., dict[str, jax.Array]]) -> Callable[..., dict[str, jax.Array]]:
    """`predict` under jit, with the row numbers beside its results."""

    def run(params: PyTree, batch: dict[str, Any], bucket: Bucket) -> dict[str, jax.Array]:
        del bucket
        return _results(predict(params, batch), batch)

    return jax.jit(run, static_argnames="bucket")


@functools.lru_cache(maxsize=8)
def _gathering(
    predict: Callable[..., dict[str, jax.Array]], vocabulary: Any, max_span: int
) -> Callable[..., dict[str, jax.Array]]:
    """The same for a batch that holds its row numbers alone; the rest is gathered from tables."""

    def run(
        tables: Tables, params: PyTree, batch: dict[str, Any], bucket: Bucket
    ) -> dict[str, jax.Array]:
        whole = gather_batch(tables, batch["ids"], bucket, vocabulary=vocabulary, max_span=max_span)
        return _results(predict(params, whole), batch)

    return jax.jit(run, static_argnames="bucket")


def _results(output: dict[str, jax.Array], batch: dict[str, Any]) -> dict[str, jax.Array]:
    return {"ids": batch["ids"], "nll": output["nll"], "prediction": output["prediction"]}


def _records(split: Split, output: dict[str, jax.Array]) -> list[Record]:
    result = to_host(output)
    real = result["ids"] != IGNORE_ID
    return make_records(split, result["ids"][real], result["nll"][real], result["prediction"][real])
