"""The written-out derivatives and the contraction against their plain definitions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from models.tiny_models import quick_jit

from mmgen.models import layers
from mmgen.models.layers import contract, gelu, look_up, masked_softmax, normalise


def random(shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def assert_same_function(ours, plain, *args):
    """Same values and same gradients of a random weighting of them."""
    weights = random(ours(*args).shape, seed=9)

    def value_and_gradient(function):
        weighted = jax.grad(lambda *args: (function(*args) * weights).sum())
        return quick_jit(lambda *args: (function(*args), weighted(*args)))(*args)

    for mine, reference in zip(value_and_gradient(ours), value_and_gradient(plain), strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-5)


def test_gelu_is_the_erf_form():
    assert_same_function(gelu, lambda x: jax.nn.gelu(x, approximate=False), 3 * random((50,)))


def test_normalise_is_mean_zero_variance_one():
    def plain(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)

    assert_same_function(normalise, plain, 5 + 3 * random((4, 7)))


def test_masked_softmax_equals_the_released_additive_mask():
    mask = jnp.array([[True, True, False, True], [False, True, True, False]])

    def plain(scores):
        return jax.nn.softmax(jnp.where(mask[:, None, None], scores, scores - 10_000.0), -1)

    assert_same_function(lambda x: masked_softmax(x, mask), plain, random((2, 3, 5, 4)))


def test_masked_softmax_without_any_key_is_zero_with_zero_gradient():
    mask = jnp.zeros((1, 4), bool)
    value, gradient = jax.value_and_grad(lambda x: masked_softmax(x, mask).sum())(
        random((1, 1, 2, 4))
    )
    assert value == 0
    assert not gradient.any()


def test_look_up_adds_both_gradients_of_the_table():
    tokens = jnp.array([[1, 3, 1], [0, 3, 3]])
    weights = random((2, 3, 4), seed=1)

    def tied(table):
        rows, table = look_up(table, tokens)
        return (rows * weights).sum() + (table**2).sum()

    def plain(table):
        return (table[tokens] * weights).sum() + (table**2).sum()

    table = random((5, 4))
    np.testing.assert_allclose(jax.grad(tied)(table), jax.grad(plain)(table), rtol=1e-6)


@pytest.mark.parametrize("spec", ["bnk,kf->bnf", "bmk,vk->bmv"])
def test_contract_is_einsum_with_its_gradients(spec):
    left = random((2, 3, 4))
    right = random((4, 5) if spec.startswith("bnk") else (5, 4), seed=1)
    assert_same_function(
        lambda x: contract(spec, left, x, jnp.float32), lambda x: jnp.einsum(spec, left, x), right
    )
    assert_same_function(
        lambda x: contract(spec, x, right, jnp.float32), lambda x: jnp.einsum(spec, x, right), left
    )


def test_a_gradient_that_is_computed_as_its_transpose_is_the_same(monkeypatch):
    monkeypatch.setattr(layers, "OUT_OF_CACHE", 0)
    spec, left, right = "bnk,kf->bnf", random((8, 6, 9)), random((9, 2), seed=1)

    def weights_gradient(right):
        return jax.grad(lambda right: contract(spec, left, right, jnp.float32).sum())(right)

    assert "optimization_barrier" in str(jax.make_jaxpr(weights_gradient)(right))
    assert_same_function(
        lambda x: contract(spec, left, x, jnp.float32), lambda x: jnp.einsum(spec, left, x), right
    )
    mapped = jax.vmap(weights_gradient)(jnp.stack([right, 2 * right]))
    np.testing.assert_allclose(mapped[1], weights_gradient(2 * right), rtol=1e-6)


def products(jaxpr):
    """Types of the operands and of the result of every matrix product."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            operands = [variable.aval.dtype for variable in equation.invars]
            found.append((operands, equation.outvars[0].aval.dtype))
        for inner in jaxprs_in_params(equation.params):
            found += products(inner)
    return found


@pytest.mark.parametrize("tiles", [True, False])
def test_bfloat16_products_have_bfloat16_operands_where_the_cpu_can(monkeypatch, tiles):
    monkeypatch.setattr(layers, "has_bfloat16_tiles", lambda: tiles)

    def loss(left, right):
        return contract("bnk,kf->bnf", left, right, jnp.bfloat16).sum()

    both = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(random((2, 3, 4)), random((4, 5)))
    found = products(both.jaxpr)
    assert len(found) >= 2
    expected = jnp.bfloat16 if tiles else jnp.float32
    for operands, result in found:
        assert operands == [expected, expected]
        assert result == jnp.float32


def test_bfloat16_operands_are_rounded_however_they_are_multiplied(monkeypatch):
    left, right = random((2, 3, 4)), random((4, 5))
    rounded = [np.asarray(x.astype(jnp.bfloat16), np.float64) for x in (left, right)]
    for tiles in (True, False):
        monkeypatch.setattr(layers, "has_bfloat16_tiles", lambda tiles=tiles: tiles)
        found = contract("bnk,kf->bnf", left, right, jnp.bfloat16)
        np.testing.assert_allclose(found, np.einsum("bnk,kf->bnf", *rounded), rtol=1e-5, atol=1e-6)


def test_gradients_of_bfloat16_attention_are_near_those_of_float32_on_this_machine():
    """Some of its products XLA cannot compute in bfloat16 on a CPU without AMX."""
    inputs = [random((8, 16, 4, 32), key) for key in range(3)]

    @functools.partial(jax.jit, static_argnums=0)
    def gradients(dtype, *inputs):
        def loss(query, keys, values):
            scores = contract("bqhd,bshd->bhqs", query, keys, dtype)
            weights = masked_softmax(scores, jnp.ones((8, 16), bool))
            return jnp.square(contract("bhqs,bshd->bqhd", weights, values, dtype)).sum()

        return jax.grad(loss, argnums=(0, 1, 2))(*inputs)

    for half, full in zip(
        gradients(jnp.bfloat16, *inputs), gradients(jnp.float32, *inputs), strict=True
    ):
        error = np.abs(half - full).max() / np.abs(full).max()
        assert 0 < error < 0.05
