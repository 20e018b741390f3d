"""Distillation pulls the model's answers to those of its earlier self."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmgen.algorithms.lwf import distillation, make_lwf
from mmgen.errors import UserError

RATE, INTERVAL = 0.5, 2


def without_dropout(task):
    return task._replace(
        loss=lambda params, batch, key: task.loss(params, batch),
        logits=lambda params, batch, key: task.logits(params, batch),
    )


def test_teacher_is_the_last_snapshot(toy):
    """Four steps against the definition: no teacher, none, one, the same one."""
    optimizer = optax.sgd(RATE)
    lwf = make_lwf(without_dropout(toy.task), optimizer, weight=2.0, interval=INTERVAL)
    state, step = toy.state(lwf, optimizer), jax.jit(lwf.step)

    @jax.jit
    def objective(params, teacher, weight, batch):
        (total, count), aux = toy.task.loss(params, batch)
        p = jax.nn.softmax(toy.task.logits(teacher, batch))
        kl = jnp.sum(p * (jnp.log(p) - jax.nn.log_softmax(aux["logits"])), -1)
        pull = weight * jnp.sum(kl * batch["target_mask"]) / batch["target_mask"].sum()
        return total / count + pull, pull

    definition = jax.jit(jax.grad(objective, has_aux=True))
    params = teacher = toy.params
    for t in range(4):
        feed = toy.feed([3 * t, 3 * t + 1, -1])
        state, scalars = step(state, feed, jax.random.key(t))
        weight = 2.0 if t >= INTERVAL else 0.0
        grads, pull = definition(params, teacher, weight, feed.stream)
        np.testing.assert_allclose(scalars["penalty"], pull, rtol=1e-3, atol=1e-6)
        params = {name: params[name] - RATE * grads[name] for name in params}
        if t == INTERVAL - 1:
            teacher = params
        for name, value in params.items():
            np.testing.assert_allclose(state.params[name], value, rtol=1e-4, atol=1e-5)


def test_distillation_of_equal_answers_is_zero(toy):
    batch = toy.batch([1, 2, -1])
    logits = jax.random.normal(jax.random.key(0), (3, toy.masked, toy.vocabulary))
    kl = jax.jit(distillation)
    assert abs(kl(logits, logits + 5.0, batch)) < 1e-6
    other = logits.at[2].add(jax.random.normal(jax.random.key(1), logits.shape[1:]))
    assert abs(kl(logits, other, batch)) < 1e-6, "padding"
    assert kl(logits, 2 * logits, batch) > 0.01


def test_costs_two_forward_and_one_backward_pass(toy):
    assert toy.passes(make_lwf, toy.feed([1, 2])) == ([2, 2], 1)


def test_bad_settings_are_refused(toy):
    with pytest.raises(UserError, match=r"algorithm\.interval is -3"):
        make_lwf(toy.task, toy.optimizer(), interval=-3)
