"""What every encoder is made of: one contraction, dense layers, norms, softmax, word tables.

Parameters, sums, norms and softmax are float32 whatever the compute dtype; only the operands of
matrix products are cast to it.
"""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, DTypeLike, Float, Int

from mmgen.core.cpu import has_bfloat16_tiles

LAYER_NORM_EPS = 1e-12
INIT_STD = 0.02
"""Of BERT, whose width is 768."""
zeros_init = nn.initializers.zeros
OUT_OF_CACHE = 1 << 20
"""Elements that no core's cache holds: 4 MB in float32."""


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 3))
def contract(spec: str, left: Array, right: Array, dtype: jnp.dtype) -> Float[Array, "..."]:
    """`einsum(spec, left, right)` with operands rounded to `dtype` and a float32 result.

    Every matrix product of the models goes through here. Without the custom derivative the
    backward products of a bfloat16 model would take a float32 cotangent and run in float32;
    here they run in `dtype` too, and gradients of float32 parameters are never rounded to it.

    Args:
      spec: a two-operand einsum in which every index stands in two of the three terms.
    """
    wide = multiplied_as(dtype)
    left, right = (operand.astype(dtype).astype(wide) for operand in (left, right))
    return jnp.einsum(spec, left, right, preferred_element_type=jnp.float32)


def multiplied_as(dtype: DTypeLike) -> np.dtype:
    """The type in which this machine multiplies operands that were rounded to `dtype`.

    A CPU without AMX multiplies bfloat16 slower than float32, and for some such products XLA has no
    code there ("Unsupported element type for DotThunk", jaxlib 0.10.2). It gets float32.
    """
    narrow = jnp.dtype(dtype) == jnp.bfloat16
    if narrow and jax.default_backend() == "cpu" and not has_bfloat16_tiles():
        return np.dtype(np.float32)
    return jnp.dtype(dtype)


def _contract_forward(
    spec: str, left: Array, right: Array, dtype: jnp.dtype
) -> tuple[Array, tuple[Array, Array]]:
    return contract(spec, left, right, dtype), (left, right)


def _contract_backward(
    spec: str, dtype: jnp.dtype, operands: tuple[Array, Array], cotangent: Array
) -> tuple[Array, Array]:
    left, right = operands
    terms, out = spec.split("->")
    left_term, right_term = terms.split(",")
    to_left = contract(f"{out},{right_term}->{left_term}", cotangent, right, dtype)
    if left_term[-1] == right_term[0] and _is_better_transposed(left, right, cotangent):
        flipped = contract(f"{out},{left_term}->{right_term[::-1]}", cotangent, left, dtype)
        # The barrier keeps XLA from turning the product around again.
        to_right = jax.lax.optimization_barrier(flipped).T
    else:
        to_right = contract(f"{left_term},{out}->{right_term}", left, cotangent, dtype)
    return to_left.astype(left.dtype), to_right.astype(right.dtype)


def _is_better_transposed(left: Array, right: Array, cotangent: Array) -> bool:
    """Is the gradient of `right` [k, f] cheaper to compute as its transpose, on a CPU?

    There XLA transposes the first operand of a product that sums over its rows, slowly where it
    leaves the cache: `left`, or if turned around the cotangent and then the result. At 2,176 rows,
    1,536 by 384, two cores took 28 ms for the one and 17 for the other.
    """
    if right.ndim != 2 or jax.default_backend() != "cpu":
        return False
    return left.size > max(OUT_OF_CACHE, cotangent.size + right.size)


contract.defvjp(_contract_forward, _contract_backward)


class Dense(nn.Module):
    """`x @ kernel + bias`, float32 out.

    Attributes:
      features: width of the output.
      dtype: of the product's operands.
      uniform: draw weights and bias from U(+-1/sqrt(fan in)), the default of `torch.nn.Linear`,
        instead of N(0, init_std) and zeros.
      init_std: standard deviation of the first weights.
    """

    features: int
    dtype: jnp.dtype = jnp.float32
    uniform: bool = False
    init_std: float = INIT_STD

    @nn.compact
    def __call__(self, x: Float[Array, "b n k"]) -> Float[Array, "b n features"]:
        """The product plus bias."""
        fan_in = x.shape[-1]
        kernel_init, bias_init = nn.initializers.normal(self.init_std), zeros_init
        if self.uniform:
            kernel_init = bias_init = _symmetric_uniform(1 / math.sqrt(fan_in))
        kernel = self.param("kernel", kernel_init, (fan_in, self.features))
        bias = self.param("bias", bias_init, (self.features,))
        return contract("bnk,kf->bnf", x, kernel, self.dtype) + bias


def _symmetric_uniform(bound: float) -> nn.initializers.Initializer:
    def init(key: Array, shape: tuple[int, ...], dtype: jnp.dtype = jnp.float32) -> Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


class LayerNorm(nn.Module):
    """Layer norm over the last axis in float32, eps 1e-12 inside the root.

    Attributes:
      scale_init: value the gain starts with; 0 lets nothing but the (zero) bias through at first.
    """

    scale_init: float = 1.0

    @nn.compact
    def __call__(self, x: Float[Array, "... k"]) -> Float[Array, "... k"]:
        """The normalised rows, float32."""
        scale = self.param("scale", nn.initializers.constant(self.scale_init), x.shape[-1:])
        bias = self.param("bias", zeros_init, x.shape[-1:])
        return normalise(x.astype(jnp.float32)) * scale + bias


# The derivatives below are written out for what they keep from the forward pass: one array where
# automatic differentiation keeps two or three, which costs a CPU a tenth of its step.


@jax.custom_vjp
def normalise(x: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """Rows of mean 0 and variance 1."""
    return _normalise_forward(x)[0]


def _normalise_forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    centred = x - x.mean(-1, keepdims=True)
    inverse = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + LAYER_NORM_EPS)
    unit = centred * inverse
    return unit, (unit, inverse)


def _normalise_backward(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array]:
    unit, inverse = kept
    mean = cotangent.mean(-1, keepdims=True)
    along = (cotangent * unit).mean(-1, keepdims=True)
    return (inverse * (cotangent - mean - unit * along),)


normalise.defvjp(_normalise_forward, _normalise_backward)


@jax.custom_vjp
def gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The erf form of GELU, as in BERT."""
    return x * _normal_cdf(x)


def _normal_cdf(x: Array) -> Array:
    return 0.5 * (1.0 + jax.lax.erf(x * math.sqrt(0.5)))


def _gelu_forward(x: Array) -> tuple[Array, Array]:
    return gelu(x), x


def _gelu_backward(x: Array, cotangent: Array) -> tuple[Array]:
    density = jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return (cotangent * (_normal_cdf(x) + x * density),)


gelu.defvjp(_gelu_forward, _gelu_backward)


@jax.custom_vjp
def masked_softmax(
    scores: Float[Array, "b h q k"], mask: Bool[Array, "b k"] | Bool[Array, "#b #q k"]
) -> Float[Array, "b h q k"]:
    """Softmax over the keys that `mask` admits; all zeros where it admits none.

    Equals the released mask of -10000 added to the scores: exp(-10000) is 0 in float32.

    Args:
      mask: of keys, one for all queries or, with three axes, one for each.
    """
    mask = mask[:, None, None, :] if mask.ndim == 2 else mask[:, None]
    top = jnp.max(scores, -1, keepdims=True, where=mask, initial=jnp.finfo(scores.dtype).min)
    weights = jnp.where(mask, jnp.exp(scores - top), 0.0)
    total = weights.sum(-1, keepdims=True)
    return weights / jnp.maximum(total, jnp.finfo(scores.dtype).tiny)


def _masked_softmax_forward(scores: Array, mask: Array) -> tuple[Array, Array]:
    probabilities = masked_softmax(scores, mask)
    return probabilities, probabilities


def _masked_softmax_backward(probabilities: Array, cotangent: Array) -> tuple[Array, None]:
    inner = (probabilities * cotangent).sum(-1, keepdims=True)
    return probabilities * (cotangent - inner), None


masked_softmax.defvjp(_masked_softmax_forward, _masked_softmax_backward)


@jax.custom_vjp
def look_up(
    table: Float[Array, "v k"], tokens: Int[Array, "b t"]
) -> tuple[Float[Array, "b t k"], Float[Array, "v k"]]:
    """`(table[tokens], table)`; the second is for the tied decoder.

    The decoder's gradient is dense in any case. Handing it the table through here lets the rows'
    gradient be added into it, instead of into a zero table that is then added to it.
    """
    return table[tokens], table


def _look_up_forward(table: Array, tokens: Array) -> tuple[tuple[Array, Array], Array]:
    return (table[tokens], table), tokens


def _look_up_backward(tokens: Array, cotangents: tuple[Array, Array]) -> tuple[Array, None]:
    to_rows, to_table = cotangents
    return to_table.at[tokens].add(to_rows), None


look_up.defvjp(_look_up_forward, _look_up_backward)


def take_positions(x: Float[Array, "b t k"], positions: Int[Array, "b m"]) -> Float[Array, "b m k"]:
    """`x[i, positions[i]]` for every example `i`."""
    return jnp.take_along_axis(x, positions[:, :, None], axis=1)
