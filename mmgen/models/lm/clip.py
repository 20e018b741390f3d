"""CLIP's two towers as pure functions over a tree of arrays (Radford et al. 2021).

Layers are stacked along a leading axis and run under one scan. Sums, norms and softmax are float32
whatever the dtype of the products. Checked against transformers' CLIPModel by
`tests/peers/make_clip_fixture.py`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mmgen.errors import UserError
from mmgen.models.layers import contract, gelu
from mmgen.settings.suggest import check_choice

Params = Mapping[str, Any]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "gelu": gelu,
    "gelu_new": functools.partial(jax.nn.gelu, approximate=True),
    "gelu_pytorch_tanh": functools.partial(jax.nn.gelu, approximate=True),
}
"""By the names of Hugging Face's configs."""

LEGACY_EOS = 2
"""Old configs name this as the end of a text; the true end is then the highest id of the row."""


class TowerConfig(NamedTuple):
    """Sizes of one transformer; `eps` is the layer norms'."""

    layers: int
    hidden: int
    heads: int
    mlp: int
    activation: str = "quick_gelu"
    eps: float = 1e-5


class TextConfig(NamedTuple):
    """The text tower; `positions` is the longest text, `eos` the id at whose place it is read."""

    tower: TowerConfig
    vocabulary: int
    positions: int
    eos: int


class VisionConfig(NamedTuple):
    """The vision tower; `image` and `patch` are edges in pixels."""

    tower: TowerConfig
    image: int
    patch: int
    channels: int = 3

    @property
    def patches(self) -> int:
        """Patches of one image."""
        return (self.image // self.patch) ** 2


class ClipConfig(NamedTuple):
    """Both towers, and the width of the space that they share."""

    text: TextConfig
    vision: VisionConfig
    projection: int


def clip_config(config: Mapping[str, Any]) -> ClipConfig:
    """From the JSON object of a Hugging Face `config.json`; absent keys are ViT-B/32's.

    Raises:
      UserError: it is no CLIP model, or has an unknown activation.
    """
    kind = config.get("model_type")
    if kind != "clip":
        raise UserError(f'the model type is "{kind}", not "clip"; give the folder of a CLIP model.')
    text = {"hidden_size": 512, "num_attention_heads": 8, **config.get("text_config", {})}
    return ClipConfig(
        TextConfig(
            _tower({"intermediate_size": 2048, **text}),
            vocabulary=text.get("vocab_size", 49408),
            positions=text.get("max_position_embeddings", 77),
            eos=text.get("eos_token_id", 49407),
        ),
        vision_config(config.get("vision_config", {})),
        projection=config.get("projection_dim", 512),
    )


def vision_config(config: Mapping[str, Any]) -> VisionConfig:
    """From the JSON object of a vision tower; absent keys are ViT-B/32's."""
    return VisionConfig(
        _tower(config),
        image=config.get("image_size", 224),
        patch=config.get("patch_size", 32),
        channels=config.get("num_channels", 3),
    )


def _tower(config: Mapping[str, Any]) -> TowerConfig:
    activation = config.get("hidden_act", "quick_gelu")
    check_choice("hidden_act", activation, ACTIVATIONS)
    return TowerConfig(
        layers=config.get("num_hidden_layers", 12),
        hidden=config.get("hidden_size", 768),
        heads=config.get("num_attention_heads", 12),
        mlp=config.get("intermediate_size", 3072),
        activation=activation,
        eps=config.get("layer_norm_eps", 1e-5),
    )


def image_embedding(
    params: Params,
    config: ClipConfig,
    pixels: Float[Array, "b height width channels"],
    dtype: jnp.dtype = jnp.float32,
) -> Float[Array, "b d"]:
    """Images in the shared space, not normalised: the class token, normed and projected."""
    vision = params["vision"]
    hidden = vision_hidden(vision, config.vision, pixels, -1, dtype)
    pooled = layer_norm(hidden[:, 0], vision["post_norm"], config.vision.tower.eps)
    return contract("bk,kd->bd", pooled, vision["projection"]["kernel"], dtype)


def text_embedding(
    params: Params,
    config: ClipConfig,
    tokens: Int[Array, "b t"],
    dtype: jnp.dtype = jnp.float32,
) -> Float[Array, "b d"]:
    """Texts in the shared space, not normalised.

    Each row is read at its first end-of-text token. Attention is causal, so what pads a row after
    that token does not count and needs no mask.
    """
    text, tower = params["text"], config.text.tower
    length = tokens.shape[1]
    x = text["token"]["embedding"][tokens] + text["position"]["embedding"][:length]
    causal = jnp.tril(jnp.ones((length, length), bool))
    x = encode(text["layers"], tower, x, causal, tower.layers, dtype)
    marks = tokens if config.text.eos == LEGACY_EOS else tokens == config.text.eos
    end = jnp.argmax(marks, axis=1)
    pooled = jnp.take_along_axis(x, end[:, None, None], axis=1)[:, 0]
    pooled = layer_norm(pooled, text["final_norm"], tower.eps)
    return contract("bk,kd->bd", pooled, text["projection"]["kernel"], dtype)


def similarity(
    images: Float[Array, "i d"], texts: Float[Array, "t d"], logit_scale: Float[Array, ""]
) -> Float[Array, "i t"]:
    """CLIP's logits: cosine times exp(logit_scale), which is 100 in the released models."""
    return jnp.exp(logit_scale) * (unit(images) @ unit(texts).T)


def unit(x: Float[Array, "... d"]) -> Float[Array, "... d"]:
    """Rows of length 1."""
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def vision_hidden(
    params: Params,
    config: VisionConfig,
    pixels: Float[Array, "b height width channels"],
    layer: int = -1,
    dtype: jnp.dtype = jnp.float32,
) -> Float[Array, "b n k"]:
    """Hidden states of the class token and the patches, row by row.

    Args:
      layer: which, counted as transformers does: 0 is the input of the first layer, -1 the output
        of the last, -2 that of the last but one (LLaVA's), before any final norm.
    """
    tower = config.tower
    patches = to_patches(pixels, config.patch)
    x = contract("bnp,pk->bnk", patches, params["patch"]["kernel"], dtype)
    first = jnp.broadcast_to(params["class_embedding"], (len(x), 1, tower.hidden))
    x = jnp.concatenate([first, x], axis=1) + params["position"]["embedding"]
    x = layer_norm(x, params["pre_norm"], tower.eps)
    count = layer if layer >= 0 else tower.layers + 1 + layer
    return encode(params["layers"], tower, x, None, count, dtype)


def to_patches(
    pixels: Float[Array, "b height width channels"], patch: int
) -> Float[Array, "b n pixels_of_patch"]:
    """Non-overlapping squares, row by row; inside one the channel runs fastest."""
    b, height, width, channels = pixels.shape
    grid = pixels.reshape(b, height // patch, patch, width // patch, patch, channels)
    return grid.transpose(0, 1, 3, 2, 4, 5).reshape(b, -1, patch * patch * channels)


def encode(
    layers: Params,
    config: TowerConfig,
    x: Float[Array, "b n k"],
    visible: Bool[Array, "n n"] | None,
    count: int,
    dtype: jnp.dtype,
) -> Float[Array, "b n k"]:
    """The first `count` of the stacked pre-norm layers.

    Args:
      visible: which keys (second axis) a query may look at; None for all.
    """

    def body(x: Array, layer: Params) -> tuple[Array, None]:
        x = x + _attend(layer, config, layer_norm(x, layer["norm1"], config.eps), visible, dtype)
        wide = _dense(layer["up"], layer_norm(x, layer["norm2"], config.eps), dtype)
        return x + _dense(layer["down"], ACTIVATIONS[config.activation](wide), dtype), None

    first = jax.tree.map(lambda leaf: leaf[:count], layers)
    return jax.lax.scan(body, x.astype(jnp.float32), first)[0]


def _attend(
    layer: Params, config: TowerConfig, x: Array, visible: Array | None, dtype: jnp.dtype
) -> Array:
    heads = (*x.shape[:2], config.heads, -1)
    query, keys, values = (
        _dense(layer[name], x, dtype).reshape(heads) for name in ("query", "key", "value")
    )
    scores = contract("bqhd,bshd->bhqs", query, keys, dtype) * query.shape[-1] ** -0.5
    if visible is not None:
        scores = jnp.where(visible, scores, jnp.finfo(scores.dtype).min)
    mixed = contract("bhqs,bshd->bqhd", jax.nn.softmax(scores), values, dtype)
    return _dense(layer["out"], mixed.reshape(x.shape), dtype)


def _dense(params: Params, x: Array, dtype: jnp.dtype) -> Array:
    return contract("bnk,kf->bnf", x, params["kernel"], dtype) + params["bias"]


def layer_norm(x: Float[Array, "... k"], params: Params, eps: float) -> Float[Array, "... k"]:
    """Layer norm over the last axis with gain and bias."""
    centred = x - x.mean(-1, keepdims=True)
    inverse = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps)
    return centred * inverse * params["scale"] + params["bias"]
