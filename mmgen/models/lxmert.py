"""LXMERT as VisCOLL uses it: a language and a visual encoder, then cross-modal layers.

Follows INK-USC/VisCOLL at 2e915e6 (`nets/mlmcaption.py:205-270`, `nets/LXMERT/lxrt/modeling.py`).

Paper and release differ:
- The release attends all 100 object slots, the empty ones too (`object_mask=False`). The result
  then depends on the number of slots, so that a run of profile `release` has one bucket of 99
  objects (`run_data.split_buckets`; the whole image is the hundredth slot). The paper's model is
  taken to attend objects only.
- The release's box 0 is the whole image and one of the objects (`whole_image_object`).
- The release holds 1,923,074 parameters that no gradient ever reaches: the pooler, the relation
  head, and the visual half of the last cross-modal layer. They are in the published total, so
  `dead_parameters` creates them; nothing computes with them.
- Position 0 and segment 0, the only segment in use, are padding rows of the release's tables: they
  are read, but keep their initial values for ever (`frozen_rows`).
The paper's text says 6 layers; its parameter total is that of 9 + 5 + 5, the depths here.
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mmgen.data.schema import Batch
from mmgen.errors import UserError
from mmgen.models.bert import (
    ATTENTION_SITES,
    LAYER_SITES,
    Attention,
    BertSizes,
    EncoderStack,
    FeedForward,
    scan_layers,
)
from mmgen.models.dropout import Noise, dropout, noise_from, site_blocks
from mmgen.models.heads import MaskedTokenHead
from mmgen.models.layers import INIT_STD, Dense, LayerNorm, look_up
from mmgen.models.packing import Slots, object_slots, target_slots, text_slots
from mmgen.models.regions import check_batch, regions

PyTree = Any

SEGMENTS = 3
FROZEN_TABLES = ("position_embedding", "segment_embedding")
"""Tables whose row 0 the release never trains."""


CROSS_SITES = 4 * ATTENTION_SITES + 2
"""Places that drop in a cross-modal layer."""


class CrossLayer(nn.Module):
    """Attention across the modalities, one module for both directions, then each by itself."""

    sizes: BertSizes

    @nn.compact
    def __call__(
        self,
        text: Float[Array, "#b t k"],
        visual: Float[Array, "#b o k"],
        of_text: Slots,
        of_objects: Slots,
        noise: Noise | None,
    ) -> tuple[Float[Array, "#b t k"], Float[Array, "#b o k"]]:
        """Text and objects after the layer."""
        noises = site_blocks(noise, *[ATTENTION_SITES] * 4, 1, 1)
        sizes = self.sizes
        cross = Attention(sizes, name="cross")
        text, visual = (
            cross(text, visual, of_objects, noises[0], of_text),
            cross(visual, text, of_text, noises[1], of_objects),
        )
        text = Attention(sizes, name="text_attention")(text, None, of_text, noises[2])
        visual = Attention(sizes, name="visual_attention")(visual, None, of_objects, noises[3])
        text = FeedForward(sizes, name="text_mlp")(text, of_text.noise(noises[4]))
        visual = FeedForward(sizes, name="visual_mlp")(visual, of_objects.noise(noises[5]))
        return text, visual


class LastCrossLayer(nn.Module):
    """The text half of a cross-modal layer, at the target positions alone.

    Attributes: `dead_parameters` creates those of the visual half as well.
    """

    sizes: BertSizes
    dead_parameters: bool

    @nn.compact
    def __call__(
        self,
        text: Float[Array, "#b t k"],
        visual: Float[Array, "#b o k"],
        of_text: Slots,
        of_objects: Slots,
        positions: Array,
        of_targets: Slots,
        noise: Noise | None,
    ) -> Float[Array, "#b m k"]:
        """Hidden states of the target positions."""
        noises = site_blocks(noise, ATTENTION_SITES, ATTENTION_SITES, 1)
        sizes = self.sizes
        text = Attention(sizes, name="cross")(text, visual, of_objects, noises[0], of_text)
        targets = of_text.take(text, positions, of_targets)
        within = Attention(sizes, name="text_attention")
        targets = within(targets, text, of_text, noises[1], of_targets)
        if self.dead_parameters and self.is_initializing():
            unread = Attention(sizes, name="visual_attention")(visual, None, of_objects, None)
            FeedForward(sizes, name="visual_mlp")(unread, None)
        return FeedForward(sizes, name="text_mlp")(targets, of_targets.noise(noises[2]))


class LXMERT(nn.Module):
    """`(batch, key) -> logits` at the target positions; see `make_lxmert` for the attributes."""

    vocabulary_rows: int
    layers: int
    visual_layers: int
    cross_layers: int
    hidden: int
    heads: int
    mlp: int
    max_positions: int
    feature_dim: int
    dropout: float
    init_std: float
    object_mask: bool
    whole_image_object: bool
    dead_parameters: bool
    frozen_rows: bool
    dtype: jnp.dtype
    scan_unroll: int

    @nn.compact
    def __call__(self, batch: Batch, key: Key[Array, ""] | None) -> Float[Array, "b m v"]:
        """Logits float32[b, m, v]; `key=None` switches dropout off."""
        check_batch(batch, self.feature_dim, self.max_positions, special_positions=0)
        noises = site_blocks(noise_from(key), *self._sites())
        table = self.param("word_embedding", self._normal, (self.vocabulary_rows, self.hidden))
        words, table = look_up(table, batch["tokens"])
        of_text = text_slots(batch) if self.object_mask else Slots(batch["text_mask"])
        text = self._embed_text(words, of_text, noises[0])
        visual, of_objects = self._embed_regions(batch, noises[1])

        sizes = BertSizes(self.heads, self.mlp, self.dropout, self.dtype, self.init_std)
        language = EncoderStack(self.layers, sizes, self.scan_unroll, name="language")
        text = language(text, of_text, noises[2])
        vision = EncoderStack(self.visual_layers, sizes, self.scan_unroll, name="vision")
        visual = vision(visual, of_objects, noises[3])
        slots = (of_text, of_objects)
        depth = self.cross_layers - 1
        if depth:
            cross = CrossLayer(sizes, name="cross_layers")
            text, visual = scan_layers(
                cross, (text, visual), slots, noises[4], CROSS_SITES, depth, self.scan_unroll
            )
        last = LastCrossLayer(sizes, self.dead_parameters, name="last_cross_layer")
        of_targets = target_slots(batch, of_text)
        targets = last(text, visual, *slots, batch["span_positions"], of_targets, noises[5])
        if self.dead_parameters and self.is_initializing():
            pooled = self._dense(self.hidden, "pooler")(text[:, :1])
            self._dense(2, "relation")(pooled)
        head = MaskedTokenHead(self.dtype, self.init_std, name="head")
        return of_targets.unpack(head(targets, table))

    def _dense(self, features: int, name: str) -> Dense:
        return Dense(features, self.dtype, init_std=self.init_std, name=name)

    @property
    def _normal(self) -> nn.initializers.Initializer:
        return nn.initializers.normal(self.init_std)

    def _sites(self) -> tuple[int, ...]:
        """How many places of each part drop."""
        single, crossed = LAYER_SITES * self.layers, CROSS_SITES * (self.cross_layers - 1)
        return 1, 1, single, LAYER_SITES * self.visual_layers, crossed, CROSS_SITES

    def _embed_text(
        self, words: Float[Array, "b t k"], slots: Slots, noise: Noise | None
    ) -> Float[Array, "#b t k"]:
        position = self.param("position_embedding", self._normal, (self.max_positions, self.hidden))
        segment = self.param("segment_embedding", self._normal, (SEGMENTS, self.hidden))
        if self.frozen_rows:
            # Not only in the optimizer: AGEM projects with gradients, MIR may step along them.
            position, segment = _held_first_row(position), _held_first_row(segment)
        x = slots.pack(words + position[: words.shape[1]] + segment[0])
        x = LayerNorm(name="text_norm")(x)
        return dropout(x, self.dropout, slots.noise(noise)).astype(self.dtype)

    def _embed_regions(
        self, batch: Batch, noise: Noise | None
    ) -> tuple[Float[Array, "#b o k"], Slots]:
        present = regions(batch, self.whole_image_object)
        slots = object_slots(batch, present.mask, attend_empty=not self.object_mask)
        feature = self._dense(self.hidden, "visual")(slots.pack(present.features))
        box = self._dense(self.hidden, "box")(slots.pack(present.boxes))
        x = (LayerNorm(name="visual_norm")(feature) + LayerNorm(name="box_norm")(box)) / 2
        return dropout(x, self.dropout, slots.noise(noise)).astype(self.dtype), slots

    @property
    def gradient_mask(self) -> Callable[[PyTree], PyTree] | None:
        """`params -> mask`, 0 where the release never updates; None if everything is trained."""
        return frozen_rows_mask if self.frozen_rows else None


def frozen_rows_mask(params: PyTree) -> PyTree:
    """1.0 for every parameter that is trained, 0.0 for row 0 of `FROZEN_TABLES`.

    Leaves are float32 arrays that broadcast against the parameters.
    """

    def mask(path: tuple[Any, ...], leaf: Array) -> Array:
        if path[-1].key not in FROZEN_TABLES:
            return jnp.ones((), jnp.float32)
        return (jnp.arange(leaf.shape[0]) > 0).astype(jnp.float32)[:, None]

    return jax.tree_util.tree_map_with_path(mask, params)


def _held_first_row(table: Float[Array, "r k"]) -> Float[Array, "r k"]:
    """The table, whose row 0 has no gradient, as that of a padding index in the release."""
    return jnp.concatenate([jax.lax.stop_gradient(table[:1]), table[1:]])


def make_lxmert(
    *,
    vocabulary_rows: int = 30_600,
    layers: int = 9,
    visual_layers: int = 5,
    cross_layers: int = 5,
    hidden: int = 384,
    heads: int = 6,
    mlp: int = 1536,
    max_positions: int = 512,
    feature_dim: int = 2048,
    dropout: float = 0.1,
    init_std: float = INIT_STD,
    profile: str = "paper",
    object_mask: bool | None = None,
    whole_image_object: bool | None = None,
    dead_parameters: bool | None = None,
    frozen_rows: bool | None = None,
    box_geometry: bool = True,
    dtype: str = "float32",
    scan_unroll: int = 1,
) -> LXMERT:
    """The LXMERT of the given sizes; profile `release` has the published 58,614,794 parameters.

    Args:
      vocabulary_rows: rows of the word table.
      layers, visual_layers, cross_layers: depths of the language, visual and cross-modal encoder.
      hidden, heads, mlp: sizes of every layer; `hidden` is a multiple of `heads`.
      max_positions: rows of the position table.
      feature_dim: width of the region features.
      dropout: rate, on embeddings, attention weights and block outputs.
      init_std: standard deviation of the first weights.
      profile: "paper" or "release"; decides the four settings that follow where they are None.
      object_mask: attend the image's objects only, not the padded slots (paper).
      whole_image_object: the whole image is also an object (release).
      dead_parameters: create the parameters that nothing reads (release).
      frozen_rows: position 0 and segment 0 are not trained (release).
      box_geometry: VLBERT's; LXMERT always embeds boxes.
      dtype: of matrix products' operands ("float32", "bfloat16"); parameters, sums, norms and
        softmax are float32.
      scan_unroll: layers per scan iteration.

    Raises:
      UserError: no cross-modal layer.
    """
    del box_geometry
    if cross_layers < 1:
        raise UserError(
            f"config.model.cross_layers is {cross_layers}; LXMERT needs at least one, or its text "
            "never reads the image."
        )
    release = profile == "release"

    def chosen(setting: bool | None, default: bool) -> bool:
        return default if setting is None else setting

    return LXMERT(
        vocabulary_rows=vocabulary_rows,
        layers=layers,
        visual_layers=visual_layers,
        cross_layers=cross_layers,
        hidden=hidden,
        heads=heads,
        mlp=mlp,
        max_positions=max_positions,
        feature_dim=feature_dim,
        dropout=dropout,
        init_std=init_std,
        object_mask=chosen(object_mask, not release),
        whole_image_object=chosen(whole_image_object, release),
        dead_parameters=chosen(dead_parameters, release),
        frozen_rows=chosen(frozen_rows, release),
        dtype=jnp.dtype(dtype),
        scan_unroll=scan_unroll,
    )
