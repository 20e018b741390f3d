"""Heads on top of the encoders."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from mmgen.models.layers import INIT_STD, Dense, LayerNorm, contract, gelu, zeros_init


class MaskedTokenHead(nn.Module):
    """BERT's masked-token head: dense, GELU, norm, decoder tied to the word table, bias.

    The release computes logits for all 64 text positions and then ignores all but the masked ones
    (at most 8 to 10); callers pass only those here.
    """

    dtype: jnp.dtype
    init_std: float = INIT_STD

    @nn.compact
    def __call__(
        self, x: Float[Array, "b m k"], table: Float[Array, "v k"]
    ) -> Float[Array, "b m v"]:
        """Logits over the rows of `table`, float32."""
        dense = Dense(x.shape[-1], self.dtype, init_std=self.init_std, name="dense")
        hidden = gelu(dense(x))
        hidden = LayerNorm(name="norm")(hidden).astype(self.dtype)
        bias = self.param("bias", zeros_init, table.shape[:1])
        return contract("bmk,vk->bmv", hidden, table, self.dtype) + bias
