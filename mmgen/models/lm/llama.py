"""The Llama family as pure functions of parameters: embed, forward with or without cache, logits.

Llama 2 and 3, Vicuna, SmolLM2, Mistral and Qwen2 are one function here; what differs between them
(grouped heads, biases, windows, rope scaling, tied head) is in `LlamaConfig`.

Parameters are a dict: `embedding` [v, k]; `norm` [k]; `head/kernel` [k, v] unless tied; and
`layers`, every leaf with the layer axis in front, for one scan over all layers:
`attention_norm`, `mlp_norm` [L, k]; `{q,k,v,o}_proj`, `{gate,up,down}_proj`, each `kernel`
[L, in, out] and, where the family has one, `bias` [L, out].

Which token sees which is decided by positions alone: a key is seen by queries at its position or
later. Padding has position `NOWHERE`, is seen by nothing, and may stand on either side.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from mmgen.core.mesh import Rules
from mmgen.models.layers import INIT_STD, contract
from mmgen.models.lm.config import LlamaConfig
from mmgen.models.lm.rope import rotate, rotation

Params = dict[str, Any]

NOWHERE = -1
"""The position of padding."""

QUERY_BLOCK = 512
"""From how many tokens attention is computed at once."""

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear maps of a layer: what adapters can change."""

LM_RULES: Rules = (
    (r"embedding$", ("tensor", "fsdp")),
    (r"(o_proj|down_proj)/kernel$", ("tensor", "fsdp")),
    (r"kernel$", ("fsdp", "tensor")),
    (r"(q|k|v|gate|up)_proj/bias$", ("tensor",)),
)
"""How parameters lie on a mesh (see `mmgen.core.mesh.param_shardings`)."""


class Cache(NamedTuple):
    """Keys and values of tokens already read, and where the next ones go.

    Attributes:
      keys, values: rotated keys, and values, of every layer. A key's dimensions lie apart, so that
        the scores of a query run along the slots: decoding spends a third less on attention (CPU).
      positions: of each slot; `NOWHERE` where nothing has been written, or padding.
      filled: slots in use: the next tokens of every row are written from here on.
    """

    keys: Float[Array, "l b g d s"]
    values: Float[Array, "l b g s d"]
    positions: Int[Array, "b s"]
    filled: Int[Array, ""]


class Adapter(NamedTuple):
    """Something added to projections, such as LoRA.

    Attributes:
      leaves: projection name (of `PROJECTIONS`) -> any arrays with the layer axis in front.
      update: `(input of the projection, the layer's slice of those arrays) -> what is added to its
        output`, of the output's shape.
    """

    leaves: Mapping[str, Any]
    update: Callable[[Float[Array, "b t k"], Any], Float[Array, "b t f"]]


def init(key: Key[Array, ""], config: LlamaConfig, dtype: jnp.dtype = jnp.float32) -> Params:
    """Random parameters: normal(0, 0.02), norms 1, biases 0."""
    shapes = param_shapes(config, dtype)
    leaves, treedef = jax.tree_util.tree_flatten_with_path(shapes)
    keys = jax.random.split(key, len(leaves))

    def start(path: Any, leaf: jax.ShapeDtypeStruct, key: Array) -> Array:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if name.endswith("bias"):
            return jnp.zeros(leaf.shape, leaf.dtype)
        if name.endswith("norm"):
            return jnp.ones(leaf.shape, leaf.dtype)
        return (INIT_STD * jax.random.normal(key, leaf.shape)).astype(leaf.dtype)

    values = [start(path, leaf, key) for (path, leaf), key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(treedef, values)


def param_shapes(config: LlamaConfig, dtype: jnp.dtype = jnp.float32) -> Params:
    """The tree of parameters as `ShapeDtypeStruct`s."""
    hidden, inner, layers = config.hidden_size, config.intermediate_size, config.num_layers
    heads, groups = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim

    def leaf(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    def linear(fan_in: int, fan_out: int, bias: bool) -> dict[str, jax.ShapeDtypeStruct]:
        kernel = {"kernel": leaf(layers, fan_in, fan_out)}
        return {**kernel, "bias": leaf(layers, fan_out)} if bias else kernel

    params: Params = {
        "embedding": leaf(config.vocab_size, hidden),
        "layers": {
            "attention_norm": leaf(layers, hidden),
            "q_proj": linear(hidden, heads, config.qkv_bias),
            "k_proj": linear(hidden, groups, config.qkv_bias),
            "v_proj": linear(hidden, groups, config.qkv_bias),
            "o_proj": linear(heads, hidden, config.output_bias),
            "mlp_norm": leaf(layers, hidden),
            "gate_proj": linear(hidden, inner, config.mlp_bias),
            "up_proj": linear(hidden, inner, config.mlp_bias),
            "down_proj": linear(inner, hidden, config.mlp_bias),
        },
        "norm": leaf(hidden),
    }
    if not config.tied:
        params["head"] = {"kernel": leaf(hidden, config.vocab_size)}
    return params


def embed(params: Params, ids: Int[Array, "b t"]) -> Float[Array, "b t k"]:
    """The embeddings of tokens, which `forward` takes."""
    return params["embedding"][ids]


def forward(
    params: Params,
    config: LlamaConfig,
    embeddings: Float[Array, "b t k"],
    positions: Int[Array, "b t"],
    cache: Cache | None = None,
    *,
    room: int | None = None,
    dtype: jnp.dtype = jnp.float32,
    allowed: Bool[Array, "b t s"] | None = None,
    adapter: Adapter | None = None,
    remat: bool = False,
) -> tuple[Float[Array, "b t k"], Cache | None]:
    """The last hidden states, normalised as the head expects them, and what to go on from.

    Norms, softmax and the residual stream are float32; operands of matrix products are `dtype`.

    Args:
      embeddings: of tokens (`embed`), or of anything else, such as an image.
      positions: of every token, counted from 0 at the first that is not padding; `NOWHERE` is
        padding, whose states mean nothing.
      cache: what was read before; it must have t free slots. None reads from the start.
      room: without a cache: make one, with so many free slots. None keeps nothing.
      allowed: narrows further what each of the t tokens sees: the cache's slots, then the t tokens.
      adapter: added to projections.
      remat: compute each layer again in the backward pass instead of keeping its insides.
    """
    turn = rotation(jnp.maximum(positions, 0), config.angles)
    seen = positions if cache is None else jnp.concatenate([cache.positions, positions], axis=1)
    mask = _visible(positions, seen)
    if allowed is not None:
        mask &= allowed
    keeps = cache is not None or room is not None
    stacked = (
        params["layers"],
        {} if adapter is None else dict(adapter.leaves),
        jnp.arange(config.num_layers),
        jnp.asarray(config.windows, jnp.int32),
    )

    def layer(x: Array, xs: Any) -> tuple[Array, tuple[Array, Array] | None]:
        weights, changes, index, window = xs

        def project(name: str, inputs: Array) -> Array:
            output = _linear(inputs, weights[name], dtype)
            if adapter is None or name not in changes:
                return output
            return output + adapter.update(inputs, changes[name])

        admitted = mask
        if config.slides:
            admitted &= seen[:, None, :] > positions[:, :, None] - window
        inputs = rms_norm(x, weights["attention_norm"], config.norm_eps)
        query, key, value = (
            project(name, inputs).reshape(*inputs.shape[:2], -1, config.head_dim)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        new = _Memory(
            rotate(key, turn).transpose(0, 2, 3, 1).astype(dtype),
            value.transpose(0, 2, 1, 3).astype(dtype),
        )
        memories = [new] if cache is None else [_of_layer(cache, index), new]
        mixed = _attend(rotate(query, turn), memories, admitted, dtype)
        x = x + project("o_proj", mixed)
        inputs = rms_norm(x, weights["mlp_norm"], config.norm_eps)
        inner = jax.nn.silu(project("gate_proj", inputs)) * project("up_proj", inputs)
        return x + project("down_proj", inner), new if keeps else None

    start = embeddings.astype(jnp.float32)
    x, new = jax.lax.scan(jax.checkpoint(layer) if remat else layer, start, stacked)
    hidden = rms_norm(x, params["norm"], config.norm_eps)
    if cache is not None:
        return hidden, _grown(cache, new, positions)
    return hidden, None if room is None else _first_cache(new, positions, room)


def logits(
    params: Params, hidden: Float[Array, "b t k"], dtype: jnp.dtype = jnp.float32
) -> Float[Array, "b t v"]:
    """Scores of every token of the vocabulary, float32, from `forward`'s hidden states."""
    if "head" in params:
        return contract("btk,kv->btv", hidden, params["head"]["kernel"], dtype)
    # The table on the left: for few rows, as in decoding, a CPU takes two thirds of the time.
    return jnp.moveaxis(contract("vk,btk->vbt", params["embedding"], hidden, dtype), 0, -1)


def rms_norm(
    x: Float[Array, "b t k"], scale: Float[Array, " k"], eps: float
) -> Float[Array, "b t k"]:
    """Rows divided by their root mean square, times `scale`; float32."""
    inverse = jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps)
    return x * inverse * scale.astype(jnp.float32)


def _linear(x: Array, projection: Mapping[str, Array], dtype: jnp.dtype) -> Array:
    output = contract("btk,kf->btf", x, projection["kernel"], dtype)
    return output + projection["bias"].astype(jnp.float32) if "bias" in projection else output


def _visible(queries: Int[Array, "b t"], keys: Int[Array, "b s"]) -> Bool[Array, "b t s"]:
    """Which keys are real and not after the query."""
    keys = keys[:, None, :]
    return (keys != NOWHERE) & (keys <= queries[:, :, None])


class _Memory(NamedTuple):
    """Keys and values of one layer."""

    keys: Float[Array, "b g d s"]
    values: Float[Array, "b g s d"]


def _of_layer(cache: Cache, layer: Array) -> _Memory:
    # The cache is only read while layers are scanned: carried or scanned over, it would be copied.
    return _Memory(
        *(
            jax.lax.dynamic_index_in_dim(whole, layer, 0, keepdims=False)
            for whole in (cache.keys, cache.values)
        )
    )


def _first_cache(new: _Memory, positions: Int[Array, "b t"], room: int) -> Cache:
    """The cache of what was read from the start; `new` has a layer axis in front."""
    slots = jnp.pad(positions, ((0, 0), (0, room)), constant_values=NOWHERE)
    return Cache(
        jnp.pad(new.keys, ((0, 0),) * 4 + ((0, room),)),
        jnp.pad(new.values, ((0, 0),) * 3 + ((0, room), (0, 0))),
        slots,
        jnp.int32(positions.shape[1]),
    )


def _grown(cache: Cache, new: _Memory, positions: Int[Array, "b t"]) -> Cache:
    """The cache with what was just read; `new` has a layer axis in front."""
    write, filled = jax.lax.dynamic_update_slice, cache.filled
    return Cache(
        write(cache.keys, new.keys, (0, 0, 0, 0, filled)),
        write(cache.values, new.values, (0, 0, 0, filled, 0)),
        write(cache.positions, positions.astype(jnp.int32), (0, filled)),
        filled + positions.shape[1],
    )


def _attend(
    query: Float[Array, "b t h d"],
    memories: Sequence[_Memory],
    admitted: Bool[Array, "b t s"],
    dtype: jnp.dtype,
) -> Float[Array, "b t hd"]:
    """Attention to all `memories` in one softmax; h / g query heads share each key-value head.

    Long texts are attended from in blocks, so that the scores of all pairs are never held at once.
    """
    rows, tokens, heads, head_dim = query.shape
    groups = memories[0].keys.shape[1]
    query = query.reshape(rows, tokens, groups, -1, head_dim) / math.sqrt(head_dim)
    borders = list(itertools.accumulate(memory.keys.shape[3] for memory in memories[:-1]))

    def block(query: Array, admitted: Array) -> Array:
        parts = [contract("btgrd,bgds->bgrts", query, m.keys, dtype) for m in memories]
        scores = jnp.concatenate(parts, axis=-1)
        # A row of padding sees nothing: finite scores leave it finite, and nothing reads it.
        scores = jnp.where(admitted[:, None, None], scores, jnp.finfo(scores.dtype).min)
        shares = jnp.split(jax.nn.softmax(scores, axis=-1), borders, axis=-1)
        mixed = [
            contract("bgrts,bgsd->btgrd", share, memory.values, dtype)
            for share, memory in zip(shares, memories, strict=True)
        ]
        return sum(mixed[1:], mixed[0])

    if tokens <= QUERY_BLOCK:
        return block(query, admitted).reshape(rows, tokens, -1)
    blocks = -(-tokens // QUERY_BLOCK)

    def split(x: Array) -> Array:
        missing = blocks * QUERY_BLOCK - tokens
        x = jnp.pad(x, ((0, 0), (0, missing)) + ((0, 0),) * (x.ndim - 2))
        return jnp.moveaxis(x.reshape(rows, blocks, QUERY_BLOCK, *x.shape[2:]), 1, 0)

    mixed = jax.lax.map(lambda part: block(*part), (split(query), split(admitted)))
    mixed = jnp.moveaxis(mixed, 0, 1).reshape(rows, blocks * QUERY_BLOCK, heads * head_dim)
    return mixed[:, :tokens]
