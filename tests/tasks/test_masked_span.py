"""The masked-span task: which positions count, how they are weighted, and that it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models.tiny_models import (
    ROWS,
    padded,
    quick_jit,
    tiny_batch,
    tiny_vlbert,
    with_padded_rows,
)

from mmgen.core.rng import stream_key
from mmgen.tasks.masked_span import cross_entropy, make_masked_span_task

KEY = stream_key(0, "test")


class Scores:
    """A model whose parameters are a score per table row: what the task adds is visible."""

    def apply(self, variables, batch, key):
        shape = (*batch["targets"].shape, ROWS)
        return jnp.broadcast_to(variables["params"], shape) + batch["features"][:, :1, :1]


@pytest.fixture(scope="module")
def scores():
    return jnp.asarray(np.random.default_rng(0).normal(size=ROWS), jnp.float32)


def by_hand(scores, batch):
    """Per example the losses of its masked tokens."""
    log_softmax = np.asarray(jax.nn.log_softmax(scores))
    return [
        -log_softmax[targets[mask]]
        for targets, mask in zip(batch["targets"], batch["target_mask"], strict=True)
    ]


def test_token_weighting_is_the_mean_over_masked_tokens(scores):
    batch = tiny_batch()
    (total, count), aux = make_masked_span_task(Scores()).loss(scores, batch, None)
    tokens = np.concatenate(by_hand(scores, batch))
    assert count == len(tokens)
    assert total == pytest.approx(tokens.sum(), rel=1e-5)
    np.testing.assert_allclose(aux["nll"][batch["target_mask"]], tokens, rtol=1e-5)
    assert not aux["nll"][~batch["target_mask"]].any()


def test_example_weighting_is_the_mean_of_means(scores):
    batch = tiny_batch()
    (total, count), _ = make_masked_span_task(Scores(), "example").loss(scores, batch, None)
    assert count == len(batch["ids"])
    assert total == pytest.approx(sum(nll.mean() for nll in by_hand(scores, batch)), rel=1e-5)


@pytest.mark.parametrize("weighting", ["token", "example"])
def test_padded_rows_and_slots_change_nothing(scores, weighting):
    task = make_masked_span_task(Scores(), weighting)
    batch = tiny_batch()
    more = padded(with_padded_rows(batch, 3), masked=2)

    def total_of(scores, batch):
        (total, count), aux = task.loss(scores, batch, None)
        return total, (count, aux["nll"])

    run = quick_jit(jax.value_and_grad(total_of, has_aux=True))
    (total, (count, _)), gradient = run(scores, batch)
    (more_total, (more_count, more_nll)), more_gradient = run(scores, more)
    assert (count, total) == (more_count, pytest.approx(float(more_total), rel=1e-6))
    assert not more_nll[4:].any()
    np.testing.assert_allclose(gradient, more_gradient, atol=1e-5)


def test_padded_rows_reach_no_gradient_of_a_model():
    task = make_masked_span_task(tiny_vlbert(layers=1))
    batch = tiny_batch()
    params = quick_jit(task.init)(KEY, batch)
    gradient = quick_jit(jax.grad(lambda params, batch: task.loss(params, batch, None)[0][0]))
    alone = gradient(params, batch)
    together = gradient(params, with_padded_rows(batch, 2))
    for value, reference in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(value, reference, rtol=0, atol=1e-5)


def test_a_batch_of_padding_has_count_zero(scores):
    batch = tiny_batch()
    batch["mask"][:] = False
    for weighting in ("token", "example"):
        (total, count), _ = make_masked_span_task(Scores(), weighting).loss(scores, batch, None)
        assert (total, count) == (0, 0)


def test_predict_gives_the_best_row_and_marks_positions_without_target(scores):
    batch = tiny_batch()
    batch["mask"][0] = False
    predicted = make_masked_span_task(Scores()).predict(scores, batch)
    target = batch["target_mask"] & batch["mask"][:, None]
    assert (predicted["prediction"][target] == int(scores.argmax())).all()
    assert (predicted["prediction"][~target] == -1).all()
    np.testing.assert_allclose(
        predicted["nll"], make_masked_span_task(Scores()).loss(scores, batch, None)[1]["nll"]
    )


def test_cross_entropy_has_the_values_and_gradients_of_log_softmax():
    logits = 5 * jnp.asarray(np.random.default_rng(1).normal(size=(2, 3, 7)), jnp.float32)
    targets = jnp.array([[0, 6, 2], [3, 3, 1]])

    def plain(logits):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)[..., 0]

    weights = jnp.arange(6.0).reshape(2, 3)

    def value_and_gradient(function):
        weighted = jax.grad(lambda x: (function(x) * weights).sum())
        return quick_jit(lambda x: (function(x), weighted(x)))(logits)

    ours = value_and_gradient(lambda x: cross_entropy(x, targets))
    for mine, reference in zip(ours, value_and_gradient(plain), strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6)


def test_one_batch_is_learned_by_heart():
    task = make_masked_span_task(tiny_vlbert(layers=2))
    batch = tiny_batch()
    params = quick_jit(task.init)(KEY, batch)
    optimizer = optax.adam(1e-2)

    @quick_jit
    def train(params):
        def step(carry, _):
            params, opt_state = carry

            def mean(params):
                (total, count), _ = task.loss(params, batch, None)
                return total / count

            loss, grads = jax.value_and_grad(mean)(params)
            updates, opt_state = optimizer.update(grads, opt_state)
            return (optax.apply_updates(params, updates), opt_state), loss

        return jax.lax.scan(step, (params, optimizer.init(params)), length=60)

    (params, _), losses = train(params)
    assert losses[0] > 3
    assert losses[-1] < 0.05
    prediction = quick_jit(task.predict)(params, batch)["prediction"]
    target = batch["target_mask"]
    np.testing.assert_array_equal(prediction[target], batch["targets"][target])
