"""Post-norm BERT layers: attention, feed-forward, and a stack of layers under `nn.scan`.

Each block ends with dropout, the residual and a layer norm, as in BERT (and so in the released
VLBERT and LXMERT of INK-USC/VisCOLL, `nets/LXMERT/lxrt/modeling.py`).
"""

import math
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from mmgen.models.dropout import Noise, at_site, dropout, site_blocks
from mmgen.models.layers import (
    Dense,
    LayerNorm,
    contract,
    gelu,
    masked_softmax,
    normal_init,
    zeros_init,
)

ATTENTION_SITES = 2
LAYER_SITES = ATTENTION_SITES + 1
"""Places that drop: attention weights and output; an encoder layer has the feed-forward's too."""


class Attention(nn.Module):
    """Multi-head attention from `queries` to `context`, with its output layer and residual.

    One parameter holds the three projections, so that self-attention is one product.

    Attributes:
      heads: number of heads; the width must be a multiple of it.
      dropout: rate, on attention weights and on the output.
      dtype: of the products' operands and of the result.
    """

    heads: int
    dropout: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(
        self,
        queries: Float[Array, "b q k"],
        context: Float[Array, "b s k"] | None,
        mask: Bool[Array, "b s"],
        noise: Noise | None,
    ) -> Float[Array, "b q k"]:
        """Attends; `context=None` is self-attention, `mask` says which keys exist."""
        hidden = queries.shape[-1]
        # Columns ordered (head, projection, dim): a tensor axis splits them between heads.
        kernel = self.param("qkv_kernel", normal_init, (hidden, 3 * hidden))
        bias = self.param("qkv_bias", zeros_init, (3 * hidden,))
        if context is None:
            query, keys, values = self._project(queries, kernel, bias, slice(0, 3))
        else:
            (query,) = self._project(queries, kernel, bias, slice(0, 1))
            keys, values = self._project(context, kernel, bias, slice(1, 3))
        weights_noise, output_noise = site_blocks(noise, 1, 1)
        query = query * (1 / math.sqrt(hidden // self.heads))
        scores = contract("bqhd,bshd->bhqs", query, keys, self.dtype)
        weights = dropout(masked_softmax(scores, mask), self.dropout, weights_noise)
        mixed = contract("bhqs,bshd->bqhd", weights, values, self.dtype)
        output = Dense(hidden, self.dtype, name="out")(mixed.reshape(queries.shape))
        return _residual_norm(queries, output, self.dropout, output_noise, self.dtype)

    def _project(
        self,
        x: Float[Array, "b n k"],
        kernel: Float[Array, "k f"],
        bias: Float[Array, " f"],
        which: slice,
    ) -> list[Float[Array, "b n h d"]]:
        """Those of queries, keys and values (0, 1, 2) that `which` names, in one product."""
        if which != slice(0, 3):
            split = (self.heads, 3, -1)
            kernel = kernel.reshape(len(kernel), *split)[:, :, which].reshape(len(kernel), -1)
            bias = bias.reshape(split)[:, which].reshape(-1)
        parts = which.stop - which.start
        flat = contract("bnk,kf->bnf", x, kernel, self.dtype) + bias
        flat = flat.astype(self.dtype).reshape(*x.shape[:2], self.heads, parts, -1)
        return [flat[:, :, :, i] for i in range(parts)]


class FeedForward(nn.Module):
    """Dense, GELU, dense, residual, norm."""

    width: int
    dropout: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Float[Array, "b n k"], noise: Noise | None) -> Float[Array, "b n k"]:
        """The block's output, in `dtype`."""
        wide = gelu(Dense(self.width, self.dtype, name="up")(x)).astype(self.dtype)
        output = Dense(x.shape[-1], self.dtype, name="down")(wide)
        return _residual_norm(x, output, self.dropout, noise, self.dtype)


def _residual_norm(
    x: Array, output: Array, rate: float, noise: Noise | None, dtype: jnp.dtype
) -> Array:
    """Called inside the block's `__call__`, so the norm is the block's own parameter `norm`."""
    return LayerNorm(name="norm")(x + dropout(output, rate, noise)).astype(dtype)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward.

    Attributes: see `Attention`; `mlp` is the inner width of the feed-forward.
    """

    heads: int
    mlp: int
    dropout: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "b n k"],
        mask: Bool[Array, "b n"],
        noise: Noise | None,
        queries: Float[Array, "b q k"] | None = None,
    ) -> Float[Array, "b q k"]:
        """The layer's output at every position, or at `queries`, rows of `x`, alone.

        Nothing above a last layer reads the other positions, so there it costs a fraction.
        """
        attention_noise, mlp_noise = site_blocks(noise, ATTENTION_SITES, 1)
        attention = Attention(self.heads, self.dropout, self.dtype, name="attention")
        if queries is None:
            hidden = attention(x, None, mask, attention_noise)
        else:
            hidden = attention(queries, x, mask, attention_noise)
        return FeedForward(self.mlp, self.dropout, self.dtype, name="mlp")(hidden, mlp_noise)


class EncoderStack(nn.Module):
    """`depth` encoder layers under one scan, parameters stacked along a leading axis.

    Attributes: see `EncoderLayer`; `unroll` is how many layers a scan iteration holds: 1 compiles
    in seconds, `depth` leaves no loop.
    """

    depth: int
    heads: int
    mlp: int
    dropout: float
    dtype: jnp.dtype
    unroll: int = 1

    @nn.compact
    def __call__(
        self, x: Float[Array, "b n k"], mask: Bool[Array, "b n"], noise: Noise | None
    ) -> Float[Array, "b n k"]:
        """The output of the last of the layers."""
        if self.depth == 0:
            return x
        layer = EncoderLayer(self.heads, self.mlp, self.dropout, self.dtype, name="layers")
        return scan_layers(layer, (x,), (mask,), noise, LAYER_SITES, self.depth, self.unroll)[0]


def scan_layers(
    layer: nn.Module,
    carry: tuple[Array, ...],
    constants: tuple[Any, ...],
    noise: Noise | None,
    sites: int,
    depth: int,
    unroll: int,
) -> tuple[Array, ...]:
    """Applies `depth` copies of `layer(*carry, *constants, noise) -> carry`, `sites` sites each."""

    def body(
        module: nn.Module, carry: tuple[Array, ...], index: Array
    ) -> tuple[tuple[Array, ...], None]:
        output = module(*carry, *constants, at_site(noise, index * sites))
        return (output if isinstance(output, tuple) else (output,)), None

    scan = nn.scan(
        body,
        variable_axes={"params": 0},
        split_rngs={"params": True},
        length=depth,
        unroll=unroll,
    )
    return scan(layer, carry, jnp.arange(depth, dtype=jnp.uint32))[0]
