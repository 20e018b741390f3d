"""A model over a split: every row once, the same numbers for every batch size, no padding waste."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmgen.core.mesh import make_mesh
from mmgen.core.resident import put_data
from mmgen.data.buckets import Bucket
from mmgen.data.schema import IGNORE_ID
from mmgen.data.tables import build_tables
from mmgen.errors import UserError
from mmgen.evaluation.run import evaluate_split, plan_batches

BUCKETS = (Bucket(6, 1), Bucket(16, 1))
PARAMS = {"scale": jnp.float32(0.5)}


def make_predict():
    """A model whose loss depends on the true tokens and on the visible text, and its traces."""
    traces = []

    def predict(params, batch):
        traces.append(batch["tokens"].shape)
        text = jnp.sum(batch["tokens"] * batch["text_mask"], axis=1, keepdims=True)
        nll = params["scale"] * batch["targets"] + text / 1024
        return {"nll": nll, "prediction": batch["targets"] + 1, "unused": text}

    return predict, traces


def evaluate(dataset, predict, rows, batch_size=4, buckets=BUCKETS, tables=None):
    batches = evaluate_split(
        predict,
        PARAMS,
        dataset.split("test"),
        None,
        dataset.vocabulary,
        rows,
        batch_size=batch_size,
        buckets=buckets,
        mesh=make_mesh(data=1),
        max_span=4,
        feature_dim=8,
        text_only="drop",
        tables=tables,
    )
    return sorted((record for batch in batches for record in batch), key=lambda r: r["id"])


def test_every_row_is_evaluated_once_with_its_own_numbers(dataset):
    predict, _ = make_predict()
    records = evaluate(dataset, predict, np.array([5, 0, 3, 1]))
    assert [record["id"] for record in records] == [0, 1, 3, 5]
    for record in records:
        assert record["prediction"] == [token + 1 for token in record["target"]]
        assert len(record["nll"]) == len(record["target"])


@pytest.mark.parametrize("batch_size", [1, 3, 6, 64])
@pytest.mark.parametrize("buckets", [BUCKETS, BUCKETS[1:]])
def test_numbers_do_not_depend_on_batches_or_padding(dataset, batch_size, buckets):
    predict, _ = make_predict()
    expected = evaluate(dataset, predict, np.arange(6))
    assert evaluate(dataset, predict, np.arange(6), batch_size, buckets) == expected


def test_one_program_per_bucket_and_none_at_the_next_evaluation(dataset):
    predict, traces = make_predict()
    for _ in range(3):
        evaluate(dataset, predict, np.arange(6), batch_size=2)
    assert sorted(traces) == [(2, 6), (2, 16)]


@pytest.mark.parametrize("batch_size", [3, 64])
def test_batches_gathered_on_the_device_give_the_same(dataset, batch_size):
    tables = build_tables(dataset.split("test"), None, feature_dim=8, text_only="drop")
    tables = put_data(tables, make_mesh(data=1))
    predict, traces = make_predict()
    expected = evaluate(dataset, predict, np.arange(6), batch_size)
    for _ in range(2):
        found = evaluate(dataset, predict, np.arange(6), batch_size, tables=tables)
        assert found == expected
    # The programs are others, but as many.
    assert len(traces) == 2 * len(set(traces))


def test_results_are_fetched_under_the_loops_transfer_guard(dataset):
    predict, _ = make_predict()
    evaluate(dataset, predict, np.arange(6))
    with jax.transfer_guard("disallow"):
        assert len(evaluate(dataset, predict, np.arange(6))) == 6


def test_a_loss_that_is_not_finite_stops_the_evaluation(dataset):
    def broken(params, batch):
        output = make_predict()[0](params, batch)
        return output | {"nll": jnp.where(batch["ids"][:, None] == 2, jnp.nan, output["nll"])}

    with pytest.raises(UserError, match=r"rows \[2\]"):
        evaluate(dataset, broken, np.arange(6))


def test_only_the_last_batch_is_padded_and_short_rows_share_small_buckets():
    rng = np.random.default_rng(0)
    rows = rng.permutation(1000)[:700]
    lengths, counts = rng.integers(5, 40, 700), rng.integers(1, 9, 700)
    buckets = (Bucket(16, 8), Bucket(40, 8))
    batches = plan_batches(rows, lengths, counts, buckets, 64)
    seen = np.concatenate([batch.rows for batch in batches])
    assert sorted(seen[seen != IGNORE_ID]) == sorted(rows)
    assert all((batch.rows != IGNORE_ID).all() for batch in batches[:-1])
    size = dict(zip(rows.tolist(), lengths.tolist(), strict=True))
    needed = sum(max(size[row] for row in b.rows.tolist() if row >= 0) > 16 for b in batches)
    assert sum(batch.bucket == buckets[1] for batch in batches) == needed < len(batches)


def test_no_rows_need_no_program(dataset):
    predict, traces = make_predict()
    assert evaluate(dataset, predict, np.zeros(0, dtype=int)) == []
    assert traces == []
