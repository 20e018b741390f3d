"""Pre-norm Transformer layers: encoder and cross-modal stacks, and a decoder with a cache.

The cross-modal layer is that of Tsai et al. 2019 (MulT, section 3.2 and their fairseq code): the
sequence and the one it asks share the layer norm before the attention, the residual is the asking
sequence, feed-forward with ReLU, one more norm behind the last layer. Self-attention is the same
layer asking itself. All weights and biases are uniform, see `mmgen.models.layers.Dense`.
"""

import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mmgen.models.bert import scan_layers
from mmgen.models.dropout import Noise, at_site, dropout, site_blocks
from mmgen.models.layers import Dense, LayerNorm, contract, masked_softmax

ATTENTION_SITES = 2
LAYER_SITES = ATTENTION_SITES + 1
DECODER_LAYER_SITES = 2 * ATTENTION_SITES + 1
"""Places that drop: attention weights and output, feed-forward output."""

KeysValues = tuple[Float[Array, "b s h d"], Float[Array, "b s h d"]]


class Sizes(NamedTuple):
    """What all layers of a stack have in common.

    Attributes:
      hidden: width of the states; a multiple of `heads`.
      heads: attention heads.
      mlp: inner width of the feed-forward.
      dropout: rate, on attention weights and on what is added to the residual.
      dtype: of the products' operands; states and sums are float32.
      unroll: layers per scan iteration.
    """

    hidden: int
    heads: int
    mlp: int
    dropout: float
    dtype: jnp.dtype
    unroll: int = 1


def sinusoids(length: int, hidden: int) -> Float[np.ndarray, "t k"]:
    """Fixed position codes: sines in the first half of the width, cosines in the second."""
    half = -(-hidden // 2)
    rate = np.exp(-math.log(10_000) * np.arange(half) / max(half - 1, 1))
    angle = np.arange(length)[:, None] * rate
    codes = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return codes[:, :hidden].astype(np.float32)


class Attention(nn.Module):
    """Multi-head attention without norm and residual, which are the layer's.

    Attributes: see `Sizes`.
    """

    sizes: Sizes

    def setup(self):
        """Make the parts."""
        hidden, dtype = self.sizes.hidden, self.sizes.dtype
        self.query = Dense(hidden, dtype, uniform=True)
        # Keys and values of a memory are computed together, once for all steps of decoding.
        self.key_value = Dense(2 * hidden, dtype, uniform=True)
        self.out = Dense(hidden, dtype, uniform=True)

    def keys_values(self, context: Float[Array, "b s k"]) -> KeysValues:
        """Keys and values of a sequence, in the compute dtype."""
        both = self._split(self.key_value(context), 2 * self.sizes.heads)
        keys, values = jnp.split(both, 2, axis=2)
        return keys, values

    def __call__(
        self,
        queries: Float[Array, "b q k"],
        keys_values: KeysValues,
        mask: Bool[Array, "b s"] | Bool[Array, "#b #q s"],
        noise: Noise | None,
    ) -> Float[Array, "b q k"]:
        """What each query reads from the keys that `mask` admits, float32."""
        keys, values = keys_values
        dtype = self.sizes.dtype
        query = self._split(self.query(queries), self.sizes.heads)
        query = query * (1 / math.sqrt(self.sizes.hidden // self.sizes.heads))
        scores = contract("bqhd,bshd->bhqs", query, keys, dtype)
        weights_noise, output_noise = site_blocks(noise, 1, 1)
        weights = dropout(masked_softmax(scores, mask), self.sizes.dropout, weights_noise)
        mixed = contract("bhqs,bshd->bqhd", weights, values, dtype)
        output = self.out(mixed.reshape(queries.shape))
        return dropout(output, self.sizes.dropout, output_noise)

    def _split(self, x: Float[Array, "b n f"], parts: int) -> Float[Array, "b n p d"]:
        return x.astype(self.sizes.dtype).reshape(*x.shape[:2], parts, -1)


class FeedForward(nn.Module):
    """Dense, ReLU, dense, dropout."""

    sizes: Sizes

    @nn.compact
    def __call__(self, x: Float[Array, "b n k"], noise: Noise | None) -> Float[Array, "b n k"]:
        """What is added to the residual, float32."""
        wide = Dense(self.sizes.mlp, self.sizes.dtype, uniform=True, name="up")(x)
        narrow = Dense(self.sizes.hidden, self.sizes.dtype, uniform=True, name="down")
        return dropout(narrow(nn.relu(wide)), self.sizes.dropout, noise)


class Layer(nn.Module):
    """One layer of a sequence that asks itself, or another one."""

    sizes: Sizes

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "b n k"],
        context: Float[Array, "b s k"] | None,
        mask: Bool[Array, "b s"],
        noise: Noise | None,
    ) -> Float[Array, "b n k"]:
        """The sequence after the layer; `context=None` is self-attention, `mask` is of the keys."""
        attention_noise, mlp_noise = site_blocks(noise, ATTENTION_SITES, 1)
        attention = Attention(self.sizes, name="attention")
        norm = LayerNorm(name="attention_norm")
        queries = norm(x)
        keys_values = attention.keys_values(queries if context is None else norm(context))
        x = x + attention(queries, keys_values, mask, attention_noise)
        mlp = FeedForward(self.sizes, name="mlp")
        return x + mlp(LayerNorm(name="mlp_norm")(x), mlp_noise)


class Stack(nn.Module):
    """`depth` layers under one scan, and a norm; nothing at all if `depth` is 0."""

    depth: int
    sizes: Sizes

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "b n k"],
        context: Float[Array, "b s k"] | None,
        mask: Bool[Array, "b s"],
        noise: Noise | None,
    ) -> Float[Array, "b n k"]:
        """The sequence after the last layer; see `Layer`."""
        if self.depth == 0:
            return x
        layer = Layer(self.sizes, name="layers")
        constants, unroll = (context, mask), self.sizes.unroll
        (x,) = scan_layers(layer, (x,), constants, noise, LAYER_SITES, self.depth, unroll)
        return LayerNorm(name="norm")(x)


class Memory(NamedTuple):
    """What a decoder reads.

    Attributes:
      states: float32[b, s, k].
      mask: bool[b, s], which of them exist.
    """

    states: Float[Array, "b s k"]
    mask: Bool[Array, "b s"]


class Cache(NamedTuple):
    """What a decoder keeps from step to step; the axis `l` is that of its layers.

    Attributes:
      keys, values: of the tokens so far, [l, b, u, h, d]; zeros beyond.
      memory_keys, memory_values: of the memory, [l, b, s, h, d].
      memory_mask: bool[b, s].
    """

    keys: Float[Array, "l b u h d"]
    values: Float[Array, "l b u h d"]
    memory_keys: Float[Array, "l b s h d"]
    memory_values: Float[Array, "l b s h d"]
    memory_mask: Bool[Array, "b s"]


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory, feed-forward."""

    sizes: Sizes

    def setup(self):
        """Make the parts."""
        self.attention = Attention(self.sizes)
        self.memory_attention = Attention(self.sizes)
        self.mlp = FeedForward(self.sizes)
        self.attention_norm = LayerNorm()
        self.memory_norm = LayerNorm()
        self.mlp_norm = LayerNorm()

    def memory_keys_values(self, memory: Memory) -> KeysValues:
        """Keys and values of the memory."""
        return self.memory_attention.keys_values(memory.states)

    def __call__(
        self, x: Float[Array, "b u k"], memory: Memory, noise: Noise | None
    ) -> Float[Array, "b u k"]:
        """All positions at once, each reading those up to its own."""
        causal = jnp.tril(jnp.ones((1, x.shape[1], x.shape[1]), jnp.bool_))
        queries = self.attention_norm(x)
        own = self.attention.keys_values(queries)
        x, noise = self._attend_self(x, queries, own, causal, noise)
        return self._rest(x, self.memory_keys_values(memory), memory.mask, noise)

    def step(
        self,
        x: Float[Array, "b 1 k"],
        own: KeysValues,
        memory: KeysValues,
        memory_mask: Bool[Array, "b s"],
        position: Int[Array, ""],
    ) -> tuple[Float[Array, "b 1 k"], KeysValues]:
        """One position; keys and values `own` of [b, u, h, d] are written there and given back."""
        queries = self.attention_norm(x)
        own = jax.tree.map(
            lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, position, axis=1),
            own,
            self.attention.keys_values(queries),
        )
        so_far = jnp.arange(own[0].shape[1])[None, None] <= position
        x, _ = self._attend_self(x, queries, own, so_far, None)
        return self._rest(x, memory, memory_mask, None), own

    def _attend_self(self, x, queries, own, mask, noise):
        here, rest = site_blocks(noise, ATTENTION_SITES, ATTENTION_SITES + 1)
        return x + self.attention(queries, own, mask, here), rest

    def _rest(self, x, memory: KeysValues, mask, noise: Noise | None) -> Float[Array, "b u k"]:
        memory_noise, mlp_noise = site_blocks(noise, ATTENTION_SITES, 1)
        x = x + self.memory_attention(self.memory_norm(x), memory, mask, memory_noise)
        return x + self.mlp(self.mlp_norm(x), mlp_noise)


class Decoder(nn.Module):
    """Token table, decoder layers under one scan, and logits tied to the table.

    Attributes:
      rows: tokens of the vocabulary.
      depth: layers.
      begin: id of the token that stands before the first.
      sizes: see `Sizes`.
    """

    rows: int
    depth: int
    begin: int
    sizes: Sizes

    @property
    def sites(self) -> int:
        """Places that drop."""
        return 1 + DECODER_LAYER_SITES * self.depth

    def setup(self):
        """Make the parts."""
        hidden = self.sizes.hidden
        self.table = self.param("embedding", uniform_rows, (self.rows, hidden))
        self.bias = self.param("bias", nn.initializers.zeros, (self.rows,))
        self.layers = DecoderLayer(self.sizes)
        self.norm = LayerNorm()

    def __call__(
        self, memory: Memory, target: Int[Array, "b u"], noise: Noise | None
    ) -> Float[Array, "b u v"]:
        """Logits at every position, given the true tokens before it."""
        first = jnp.full_like(target[:, :1], self.begin)
        before = jnp.concatenate([first, target[:, :-1]], axis=1)
        own_noise, layers_noise = site_blocks(noise, 1, DECODER_LAYER_SITES * self.depth)
        codes = jnp.asarray(sinusoids(target.shape[1], self.sizes.hidden))
        x = dropout(embed(self.table, before) + codes, self.sizes.dropout, own_noise)

        def body(layer: DecoderLayer, x: Array, index: Array) -> tuple[Array, None]:
            return layer(x, memory, at_site(layers_noise, index * DECODER_LAYER_SITES)), None

        x, _ = self._scan(body)(self.layers, x, jnp.arange(self.depth, dtype=jnp.uint32))
        return self._logits(x)

    def start(self, memory: Memory, length: int) -> Cache:
        """The cache before the first of at most `length` tokens."""

        def body(layer: DecoderLayer, carry: tuple, _: Array) -> tuple[tuple, KeysValues]:
            return carry, layer.memory_keys_values(memory)

        index = jnp.arange(self.depth, dtype=jnp.uint32)
        _, (keys, values) = self._scan(body)(self.layers, (), index)
        layers, rows, _, *head = keys.shape
        empty = jnp.zeros((layers, rows, length, *head), keys.dtype)
        return Cache(empty, empty, keys, values, memory.mask)

    def step(
        self, cache: Cache, token: Int[Array, " b"], position: Int[Array, ""]
    ) -> tuple[Float[Array, "b v"], Cache]:
        """Logits of the token at `position`, which follows `token`; the first one follows `begin`.

        Args:
          position: int32 scalar, from 0.
        """
        codes = jnp.asarray(sinusoids(cache.keys.shape[2], self.sizes.hidden))
        x = (embed(self.table, token) + codes[position])[:, None]

        def body(layer: DecoderLayer, x: Array, kept: tuple) -> tuple[Array, KeysValues]:
            return layer.step(x, kept[:2], kept[2:], cache.memory_mask, position)

        kept = (cache.keys, cache.values, cache.memory_keys, cache.memory_values)
        x, (keys, values) = self._scan(body)(self.layers, x, kept)
        return self._logits(x)[:, 0], cache._replace(keys=keys, values=values)

    def _scan(self, body):
        return nn.scan(
            body,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=self.depth,
            unroll=self.sizes.unroll,
        )

    def _logits(self, x: Float[Array, "b n k"]) -> Float[Array, "b n v"]:
        return contract("bnk,vk->bnv", self.norm(x), self.table, self.sizes.dtype) + self.bias


def uniform_rows(key: Array, shape: tuple[int, int], dtype: jnp.dtype = jnp.float32) -> Array:
    """Rows of a token table: U(+-1/sqrt(width)), so that `embed` gives values in +-1."""
    bound = 1 / math.sqrt(shape[1])
    return jax.random.uniform(key, shape, dtype, -bound, bound)


def embed(table: Float[Array, "v k"], tokens: Int[Array, "*n"]) -> Float[Array, "*n k"]:
    """Rows of the table, scaled to the size of the position codes."""
    return table[tokens] * math.sqrt(table.shape[1])
