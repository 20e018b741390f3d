"""Optimizers do what their formulas say, and only what they are allowed to move moves."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmgen.core.optim import learning_rate_scale, make_optimizer, with_learning_rate_scale
from mmgen.errors import UserError

PARAMS = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]]), "b": jnp.array([0.1, -0.2])}


def gradients(step):
    """Some gradients, different at every step."""
    return jax.tree.map(lambda p: jnp.cos(p * (step + 1)), PARAMS)


def trained(optimizer, steps=5, params=PARAMS):
    """Parameters after some updates."""
    state = optimizer.init(params)
    for step in range(steps):
        updates, state = optimizer.update(gradients(step), state, params)
        params = optax.apply_updates(params, updates)
    return params


def assert_close(left, right):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7), left, right)


def test_adamw_is_the_standard_one():
    ours = make_optimizer("adamw", 0.01, 0.8, 0.99, 1e-6, weight_decay=0.1)
    assert_close(trained(ours), trained(optax.adamw(0.01, 0.8, 0.99, 1e-6, weight_decay=0.1)))


def test_adam_release_is_the_formula_of_pytorch_transformers():
    lr, beta1, beta2, eps, decay = 0.01, 0.9, 0.999, 1e-4, 0.1
    ours = trained(make_optimizer("adam_release", lr, beta1, beta2, eps, decay))
    expected = {}
    for name, p in PARAMS.items():
        p, m, v = np.asarray(p, np.float64), 0.0, 0.0
        for step in range(5):
            g = np.asarray(gradients(step)[name], np.float64)
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            p = p - lr * m / (np.sqrt(v) + eps)
            p = p - lr * decay * p
        expected[name] = p
    assert_close(ours, expected)


def test_first_step_of_adam_release_is_three_times_the_learning_rate():
    moved = trained(make_optimizer("adam_release", 1e-3, eps=1e-12), steps=1)
    step = np.abs(np.asarray(moved["w"] - PARAMS["w"]))
    np.testing.assert_allclose(step, 1e-3 * 0.1 / np.sqrt(0.001), rtol=1e-3)


def test_a_clipped_gradient_has_the_norm_asked_for():
    # Adam without memory of the past and with a huge eps is plain descent on g / eps.
    optimizer = make_optimizer("adam_release", 1.0, 0.0, 0.0, eps=1e6, clip_norm=0.5)
    updates, _ = optimizer.update(gradients(0), optimizer.init(PARAMS), PARAMS)
    np.testing.assert_allclose(optax.global_norm(updates) * 1e6, 0.5, rtol=1e-4)


@pytest.mark.parametrize("name", ["adamw", "adam_release"])
def test_frozen_rows_never_move_even_under_weight_decay(name):
    def frozen(params):
        return {"w": jnp.array([[1.0], [0.0]]), "b": 1.0}

    moved = trained(make_optimizer(name, 0.1, weight_decay=0.5, frozen=frozen))
    np.testing.assert_array_equal(moved["w"][1], PARAMS["w"][1])
    assert np.all(moved["w"][0] != PARAMS["w"][0])
    assert np.all(moved["b"] != PARAMS["b"])


def test_an_update_under_vmap_equals_one_at_a_time():
    optimizer = make_optimizer("adam_release", 0.01, weight_decay=0.1, clip_norm=1.0)
    state = optimizer.init(PARAMS)
    stacked = jax.tree.map(lambda *g: jnp.stack(g), *(gradients(i) for i in range(3)))
    together = jax.vmap(lambda g: optimizer.update(g, state, PARAMS)[0])(stacked)
    for i in range(3):
        alone = optimizer.update(gradients(i), state, PARAMS)[0]
        assert_close(jax.tree.map(lambda u, i=i: u[i], together), alone)


def test_halving_the_scale_halves_the_step_and_compiles_nothing():
    optimizer = make_optimizer("adamw", 0.01)
    traces = []

    @jax.jit
    def update(grads, state):
        traces.append(1)
        return optimizer.update(grads, state, PARAMS)[0]

    state = jax.jit(optimizer.init)(PARAMS)
    whole = update(gradients(0), state)
    scaled = with_learning_rate_scale(state, 0.5)
    assert learning_rate_scale(state) == 1.0
    assert learning_rate_scale(scaled) == 0.5
    assert_close(update(gradients(0), scaled), jax.tree.map(lambda u: u / 2, whole))
    assert len(traces) == 1


def test_a_schedule_counts_updates():
    optimizer = make_optimizer("adamw", lambda count: jnp.where(count < 2, 0.0, 0.1))
    assert_close(trained(optimizer, steps=2), PARAMS)
    assert np.all(trained(optimizer, steps=3)["b"] != PARAMS["b"])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"name": "sgd"}, "optimizer.name"),
        ({"beta1": 1.0}, "optimizer.beta1"),
        ({"eps": -1.0}, "optimizer.eps"),
        ({"clip_norm": float("nan")}, "optimizer.clip_norm"),
    ],
)
def test_a_wrong_setting_is_named(settings, named):
    with pytest.raises(UserError, match=named):
        make_optimizer(**{"name": "adamw", "learning_rate": 0.1, **settings})
