"""VLBERT as VisCOLL uses it: one BERT encoder over caption tokens, objects and an end token.

Follows INK-USC/VisCOLL at 2e915e6 (`nets/mlmcaption.py:98-201`,
`nets/VLBERT/common/visual_linguistic_bert.py:72-332`). The release packs text and objects without
gaps; here every slot is fixed, and explicit positions with a mask of keys give the same logits.

Paper and release differ in the objects. The release lists every valid box as an object, and its
box 0 is the whole image, whose feature also goes into every text token. The paper speaks of an
image feature besides the objects. So `whole_image_object` is on in profile `release`, off in
`paper`; an image without any object has no whole-image object either, as in the release.
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mmgen.data.schema import Batch
from mmgen.models.bert import LAYER_SITES, BertSizes, EncoderLayer, EncoderStack
from mmgen.models.dropout import dropout, noise_from, site_blocks
from mmgen.models.heads import MaskedTokenHead
from mmgen.models.layers import INIT_STD, Dense, LayerNorm, look_up
from mmgen.models.packing import Slots, every_slot, joined, object_slots, target_slots, text_slots
from mmgen.models.regions import check_batch, regions

TEXT_SEGMENT, OBJECT_SEGMENT, SEGMENTS = 0, 2, 3
"""Segment 1, a second sentence, is unused but has its row."""


class VLBERT(nn.Module):
    """`(batch, key) -> logits` at the target positions; see `make_vlbert` for the attributes."""

    vocabulary_rows: int
    layers: int
    hidden: int
    heads: int
    mlp: int
    max_positions: int
    feature_dim: int
    dropout: float
    init_std: float
    object_mask: bool
    whole_image_object: bool
    box_geometry: bool
    dtype: jnp.dtype
    scan_unroll: int

    @nn.compact
    def __call__(self, batch: Batch, key: Key[Array, ""] | None) -> Float[Array, "b m v"]:
        """Logits float32[b, m, v]; `key=None` switches dropout off."""
        # Objects stand at the text's length, the end token one further.
        check_batch(batch, self.feature_dim, self.max_positions, special_positions=2)
        noises = site_blocks(noise_from(key), 1, LAYER_SITES * (self.layers - 1), LAYER_SITES)
        table = self.param("word_embedding", self._normal, (self.vocabulary_rows, self.hidden))
        words, table = look_up(table, batch["tokens"])
        x, slots = self._embed(batch, words)
        x = LayerNorm(name="embedding_norm")(x)
        x = dropout(x, self.dropout, slots.noise(noises[0])).astype(self.dtype)
        sizes = BertSizes(self.heads, self.mlp, self.dropout, self.dtype, self.init_std)
        stack = EncoderStack(self.layers - 1, sizes, self.scan_unroll, name="encoder")
        x = stack(x, slots, noises[1])
        of_targets = target_slots(batch, slots)
        targets = slots.take(x, batch["span_positions"], of_targets)
        last = EncoderLayer(sizes, name="last_layer")
        targets = last(x, slots, noises[2], targets, of_targets)
        head = MaskedTokenHead(self.dtype, self.init_std, name="head")
        return of_targets.unpack(head(targets, table))

    def _embed(
        self, batch: Batch, words: Float[Array, "b t k"]
    ) -> tuple[Float[Array, "#b n k"], Slots]:
        """Sums of embeddings of text, objects and end, and the slots of this sequence."""
        position = self.param("position_embedding", self._normal, (self.max_positions, self.hidden))
        segment = self.param("segment_embedding", self._normal, (SEGMENTS, self.hidden))
        length = jnp.sum(batch["text_mask"], -1)
        image, objects, of_objects = self._embed_regions(batch)
        text = words + image + position[: words.shape[1]] + segment[TEXT_SEGMENT]
        objects = of_objects.unpack(objects) + position[length][:, None] + segment[OBJECT_SEGMENT]
        end_word = self.param("end_word", self._normal, (self.hidden,))
        end = (end_word + position[length + 1] + segment[OBJECT_SEGMENT])[:, None]
        of_text = text_slots(batch)
        of_end = every_slot(jnp.ones_like(of_objects.mask[:, :1]), of_text)
        slots = joined(of_text, of_objects, of_end)
        return slots.pack(jnp.concatenate([text, objects, end], axis=1)), slots

    def _embed_regions(
        self, batch: Batch
    ) -> tuple[Float[Array, "b 1 k"], Float[Array, "#b o k"], Slots]:
        """What the image adds to text, the embedded objects, and their slots."""
        present = regions(batch, self.whole_image_object)
        slots = object_slots(batch, present.mask, attend_empty=not self.object_mask)
        project = Dense(self.hidden, self.dtype, uniform=True, name="visual")
        image = batch["image_feature"][:, None].astype(present.features.dtype)
        if slots.packing is None:
            visual = project(jnp.concatenate([image, present.features], axis=1))
            image, visual = visual[:, :1], visual[:, 1:]
        else:
            image, visual = project(image), project(slots.pack(present.features))
        # Gain 0: visual content enters as the gains grow.
        image = LayerNorm(scale_init=0.0, name="image_norm")(image)
        objects = LayerNorm(scale_init=0.0, name="object_norm")(visual)
        # Standard normal, about 50 times as large as the other embeddings: the release's default.
        objects += self.param("object_word", nn.initializers.normal(1.0), (self.hidden,))
        if self.box_geometry:
            box = Dense(self.hidden, self.dtype, init_std=self.init_std, name="box")
            objects += box(slots.pack(present.boxes))
        return image, objects, slots

    @property
    def _normal(self) -> nn.initializers.Initializer:
        return nn.initializers.normal(self.init_std)


def make_vlbert(
    *,
    vocabulary_rows: int = 30_600,
    layers: int = 6,
    hidden: int = 384,
    heads: int = 6,
    mlp: int = 1536,
    max_positions: int = 512,
    feature_dim: int = 2048,
    dropout: float = 0.1,
    init_std: float = INIT_STD,
    profile: str = "paper",
    object_mask: bool = True,
    whole_image_object: bool | None = None,
    box_geometry: bool = False,
    dtype: str = "float32",
    scan_unroll: int = 1,
    visual_layers: None = None,
    cross_layers: None = None,
) -> VLBERT:
    """The VLBERT of the given sizes; the defaults are the published 23,564,040 parameters.

    Args:
      vocabulary_rows: rows of the word table.
      layers, hidden, heads, mlp: sizes of the encoder; `hidden` is a multiple of `heads`.
      max_positions: rows of the position table.
      feature_dim: width of the region features.
      dropout: rate, on embeddings, attention weights and block outputs.
      init_std: standard deviation of the first weights.
      profile: "paper" or "release"; decides `whole_image_object` when that is None.
      object_mask: attend the image's objects only, not the padded slots.
      whole_image_object: the whole image is also an object, see the module's docstring.
      box_geometry: add a linear map of the box to each object; neither profile has it.
      dtype: of matrix products' operands ("float32", "bfloat16"); parameters, sums, norms and
        softmax are float32.
      scan_unroll: layers per scan iteration.
      visual_layers, cross_layers: LXMERT's; accepted so that both models take the same settings.
    """
    del visual_layers, cross_layers
    return VLBERT(
        vocabulary_rows=vocabulary_rows,
        layers=layers,
        hidden=hidden,
        heads=heads,
        mlp=mlp,
        max_positions=max_positions,
        feature_dim=feature_dim,
        dropout=dropout,
        init_std=init_std,
        object_mask=object_mask,
        whole_image_object=profile == "release"
        if whole_image_object is None
        else whole_image_object,
        box_geometry=box_geometry,
        dtype=jnp.dtype(dtype),
        scan_unroll=scan_unroll,
    )
