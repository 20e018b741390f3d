"""Post-norm BERT layers: attention, feed-forward, and a stack of layers under `nn.scan`.

Each block ends with dropout, the residual and a layer norm, as in BERT (and so in the released
VLBERT and LXMERT of INK-USC/VisCOLL, `nets/LXMERT/lxrt/modeling.py`).
"""

import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from mmgen.models.dropout import Noise, at_site, dropout, site_blocks
from mmgen.models.layers import (
    Dense,
    LayerNorm,
    contract,
    gelu,
    masked_softmax,
    zeros_init,
)
from mmgen.models.packing import Slots

ATTENTION_SITES = 2
LAYER_SITES = ATTENTION_SITES + 1
"""Places that drop: attention weights and output; an encoder layer has the feed-forward's too."""


class BertSizes(NamedTuple):
    """What all layers of an encoder have in common.

    Attributes:
      heads: number of heads; the width must be a multiple of it.
      mlp: inner width of the feed-forward.
      dropout: rate, on attention weights and on the outputs of the blocks.
      dtype: of the products' operands and of the result.
      init_std: standard deviation of the first weights.
    """

    heads: int
    mlp: int
    dropout: float
    dtype: jnp.dtype
    init_std: float


class Attention(nn.Module):
    """Multi-head attention from `queries` to `context`, with its output layer and residual.

    One parameter holds the three projections, so that self-attention is one product. The attention
    is written out: both models are trained with dropout on its weights, which
    `jax.nn.dot_product_attention` does not have with any implementation, and at these lengths (68
    positions, 6 heads, 64 rows: 7 MB) nothing would be gained by never storing the weights.

    Attributes: see `BertSizes`.
    """

    sizes: BertSizes

    @nn.compact
    def __call__(
        self,
        queries: Float[Array, "#b q k"],
        context: Float[Array, "#b s k"] | None,
        slots: Slots,
        noise: Noise | None,
        query_slots: Slots | None = None,
    ) -> Float[Array, "#b q k"]:
        """Attends; `context=None` is self-attention.

        Args:
          slots: of the keys.
          query_slots: of the queries, where they are another sequence; None if they are not packed.
        """
        hidden, sizes = queries.shape[-1], self.sizes
        normal = nn.initializers.normal(sizes.init_std)
        # Columns ordered (head, projection, dim): a tensor axis splits them between heads.
        kernel = self.param("qkv_kernel", normal, (hidden, 3 * hidden))
        bias = self.param("qkv_bias", zeros_init, (3 * hidden,))
        if context is None:
            query_slots = slots
            query, keys, values = self._project(queries, slots, kernel, bias, slice(0, 3))
        else:
            query_slots = query_slots or Slots(slots.mask)
            (query,) = self._project(queries, query_slots, kernel, bias, slice(0, 1))
            keys, values = self._project(context, slots, kernel, bias, slice(1, 3))
        weights_noise, output_noise = site_blocks(noise, 1, 1)
        query = query * (1 / math.sqrt(hidden // sizes.heads))
        scores = contract("bqhd,bshd->bhqs", query, keys, sizes.dtype)
        weights = dropout(masked_softmax(scores, slots.mask), sizes.dropout, weights_noise)
        mixed = contract("bhqs,bshd->bqhd", weights, values, sizes.dtype)
        mixed = query_slots.pack(mixed.reshape(*mixed.shape[:2], hidden))
        out = Dense(hidden, sizes.dtype, init_std=sizes.init_std, name="out")
        return _residual_norm(queries, out(mixed), sizes, query_slots.noise(output_noise))

    def _project(
        self,
        x: Float[Array, "#b n k"],
        slots: Slots,
        kernel: Float[Array, "k f"],
        bias: Float[Array, " f"],
        which: slice,
    ) -> list[Float[Array, "b n h d"]]:
        """Those of queries, keys and values (0, 1, 2) that `which` names, in one product.

        They stand in their slots.
        """
        if which != slice(0, 3):
            split = (self.sizes.heads, 3, -1)
            kernel = kernel.reshape(len(kernel), *split)[:, :, which].reshape(len(kernel), -1)
            bias = bias.reshape(split)[:, which].reshape(-1)
        parts = which.stop - which.start
        flat = contract("bnk,kf->bnf", x, kernel, self.sizes.dtype) + bias
        flat = slots.unpack(flat.astype(self.sizes.dtype))
        flat = flat.reshape(*flat.shape[:2], self.sizes.heads, parts, -1)
        return [flat[:, :, :, i] for i in range(parts)]


class FeedForward(nn.Module):
    """Dense, GELU, dense, residual, norm."""

    sizes: BertSizes

    @nn.compact
    def __call__(self, x: Float[Array, "b n k"], noise: Noise | None) -> Float[Array, "b n k"]:
        """The block's output, in `sizes.dtype`."""
        dtype, std = self.sizes.dtype, self.sizes.init_std
        wide = gelu(Dense(self.sizes.mlp, dtype, init_std=std, name="up")(x)).astype(dtype)
        output = Dense(x.shape[-1], dtype, init_std=std, name="down")(wide)
        return _residual_norm(x, output, self.sizes, noise)


def _residual_norm(x: Array, output: Array, sizes: BertSizes, noise: Noise | None) -> Array:
    """Called inside the block's `__call__`, so the norm is the block's own parameter `norm`."""
    return LayerNorm(name="norm")(x + dropout(output, sizes.dropout, noise)).astype(sizes.dtype)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    sizes: BertSizes

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "#b n k"],
        slots: Slots,
        noise: Noise | None,
        queries: Float[Array, "#b q k"] | None = None,
        query_slots: Slots | None = None,
    ) -> Float[Array, "#b q k"]:
        """The layer's output at every position, or at `queries`, rows of `x`, alone.

        Nothing above a last layer reads the other positions, so there it costs a fraction.
        """
        attention_noise, mlp_noise = site_blocks(noise, ATTENTION_SITES, 1)
        attention = Attention(self.sizes, name="attention")
        if queries is None:
            query_slots = slots
            hidden = attention(x, None, slots, attention_noise)
        else:
            query_slots = query_slots or Slots(slots.mask)
            hidden = attention(queries, x, slots, attention_noise, query_slots)
        return FeedForward(self.sizes, name="mlp")(hidden, query_slots.noise(mlp_noise))


class EncoderStack(nn.Module):
    """`depth` encoder layers under one scan, parameters stacked along a leading axis.

    Attributes: `unroll` is how many layers a scan iteration holds: 1 compiles in seconds, `depth`
    leaves no loop.
    """

    depth: int
    sizes: BertSizes
    unroll: int = 1

    @nn.compact
    def __call__(
        self, x: Float[Array, "#b n k"], slots: Slots, noise: Noise | None
    ) -> Float[Array, "#b n k"]:
        """The output of the last of the layers."""
        if self.depth == 0:
            return x
        layer = EncoderLayer(self.sizes, name="layers")
        return scan_layers(layer, (x,), (slots,), noise, LAYER_SITES, self.depth, self.unroll)[0]


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
