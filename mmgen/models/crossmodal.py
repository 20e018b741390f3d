"""The baselines of CompAct: one encoder-decoder over text and whatever modalities a run has.

    words -> embedding -> self-attention stack, and
    clips of each modality -> projection to the width: fusion -> decoder, or classifier

Sections 4.1 to 4.4 and appendix D of the paper fix width 256, 3 layers, 4 heads, dropout .3 and
uniform initialisation; the rest is settled by the parameter totals of Table 6, with a vocabulary of
1,925 rows (the joined words of the rebuilt train split):

- feed-forwards are 512 wide in text encoder and decoder, 1,024 in the fusion (see there);
- the decoder's word table is its own and also gives the logits;
- the vectors of a key frame (one global, five of objects) stand side by side, each through the same
  linear layer: a 12,288 x 256 layer over all of them together would alone be 3.1M, VL has .4M more
  than AL;
- ImageBind has no words: its language features ask those of vision and those of sound, without a
  self-attention stack behind;
- the classifier's hidden layer has 128 units.

Layers are pre-norm, positions are sines, both as in Tsai et al. 2019. What belongs to an input
clip, be it word or feature, also carries an embedding of its place among the three (ours).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from mmgen.data.compact.vocabulary import BOS, PAD, SEP
from mmgen.data.compact.windows import TARGET
from mmgen.data.schema import Batch
from mmgen.errors import UserError
from mmgen.models.dropout import Noise, dropout, dropped_of_256, noise_from, site_blocks
from mmgen.models.fusion import FUSIONS, Plan
from mmgen.models.layers import Dense
from mmgen.models.transformer import (
    LAYER_SITES,
    Cache,
    Decoder,
    Memory,
    Sizes,
    Stack,
    embed,
    sinusoids,
    uniform_rows,
)
from mmgen.settings.suggest import check_choice

WORDS = "words"
"""`language` of a model that reads the input narrations themselves."""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class TextEncoder(nn.Module):
    """Word table and self-attention over the three utterances.

    Attributes:
      rows: tokens of the vocabulary.
      depth: layers.
      sizes: see `Sizes`.
    """

    rows: int
    depth: int
    sizes: Sizes

    @property
    def sites(self) -> int:
        """Places that drop."""
        return 1 + LAYER_SITES * self.depth

    @nn.compact
    def __call__(
        self, text: Int[Array, "b t"], clips: Float[Array, "3 k"], noise: Noise | None
    ) -> Memory:
        """States float32[b, t, k]; PAD is masked."""
        table = self.param("embedding", uniform_rows, (self.rows, self.sizes.hidden))
        own_noise, stack_noise = site_blocks(noise, 1, self.sites - 1)
        codes = jnp.asarray(sinusoids(text.shape[1], self.sizes.hidden))
        x = embed(table, text) + codes + clips[clip_of_words(text)]
        mask = text != PAD
        stack = Stack(self.depth, self.sizes, name="encoder")
        return Memory(
            stack(dropout(x, self.sizes.dropout, own_noise), None, mask, stack_noise), mask
        )


class FeatureSequence(nn.Module):
    """The features of one or more modalities as one sequence of vectors.

    Attributes:
      modalities: names and shapes per clip; (d,) is one vector, (n, d) are n. Vectors of the same
        width share a projection.
      sizes: see `Sizes`.
    """

    modalities: Shapes
    sizes: Sizes

    @nn.compact
    def __call__(self, batch: Batch, clips: Float[Array, "3 k"], noise: Noise | None) -> Memory:
        """States float32[b, s, k] of all vectors of all clips; absent clips are zero and masked."""
        hidden, dtype = self.sizes.hidden, self.sizes.dtype
        widths = dict.fromkeys(shape[-1] for _, shape in self.modalities)
        project = {w: Dense(hidden, dtype, uniform=True, name=f"project_{w}") for w in widths}
        states, masks = [], []
        for name, shape in self.modalities:
            features, present = batch[name], batch[f"{name}_present"]
            rows, count, width = len(features), features.shape[1], shape[-1]
            features = jnp.where(_over(present, features), features, 0.0)
            x = project[width](features.reshape(rows, -1, width))
            x = x.reshape(rows, count, -1, hidden) + clips[:, None]
            x = x + self.param(f"kind_{name}", uniform_rows, (1, hidden))
            states.append(x.reshape(rows, -1, hidden))
            masks.append(jnp.repeat(present, x.shape[2], axis=1))
        x, mask = jnp.concatenate(states, axis=1), jnp.concatenate(masks, axis=1)
        return Memory(dropout(x, self.sizes.dropout, noise), mask)


class Classifier(nn.Module):
    """Two fully connected layers over the mean of the encoding (section 4.4)."""

    classes: int
    inner: int
    sizes: Sizes

    @nn.compact
    def __call__(self, memory: Memory, noise: Noise | None) -> Float[Array, "b c"]:
        """Logits of the classes, float32."""
        weight = memory.mask[:, :, None].astype(jnp.float32)
        total = (memory.states * weight).sum(1, keepdims=True)
        pooled = total / jnp.maximum(weight.sum(1, keepdims=True), 1.0)
        inner = nn.relu(Dense(self.inner, self.sizes.dtype, uniform=True, name="inner")(pooled))
        inner = dropout(inner, self.sizes.dropout, noise)
        return Dense(self.classes, self.sizes.dtype, uniform=True, name="outer")(inner)[:, 0]


class CrossModal(nn.Module):
    """`(batch, key) -> logits`; see `make_crossmodal` for the attributes."""

    vocabulary_rows: int
    classes: int
    modalities: Shapes
    inputs: tuple[tuple[str, ...], ...]
    language: str
    fusion: str
    language_asks: bool
    other_asks: bool
    layers: int
    cross_layers: int
    fused_layers: int
    classifier: int
    sizes: Sizes
    cross_sizes: Sizes

    def setup(self):
        """Make the parts."""
        shapes = dict(self.modalities)
        self.clips = self.param("clip_embedding", uniform_rows, (TARGET, self.sizes.hidden))
        if self.language == WORDS:
            self.text = TextEncoder(self.vocabulary_rows, self.layers, self.sizes)
        else:
            own = ((self.language, shapes[self.language]),)
            self.language_features = FeatureSequence(own, self.sizes)
        self.features = [
            FeatureSequence(tuple((name, shapes[name]) for name in group), self.sizes)
            for group in self.inputs
        ]
        if self.inputs:
            plan = Plan(
                others=tuple("_and_".join(group) for group in self.inputs),
                depth=self.cross_layers,
                fused_depth=self.fused_layers,
                sizes=self.cross_sizes,
                language_asks=self.language_asks,
                other_asks=self.other_asks,
            )
            self.fused = FUSIONS[self.fusion](plan)
        if self.classes:
            self.head = Classifier(self.classes, self.classifier, self.sizes)
        else:
            self.decoder = Decoder(self.vocabulary_rows, self.layers, BOS, self.sizes)

    def __call__(self, batch: Batch, key: Key[Array, ""] | None) -> Float[Array, "b *u v"]:
        """Logits, float32; `key=None` switches dropout off.

        With a decoder [b, u, v], the token at each position given the true ones before it; with a
        classifier [b, classes].
        """
        noises = self._noises(key)
        memory = self._encode(batch, noises)
        if self.classes:
            return self.head(memory, noises[-1])
        return self.decoder(memory, batch["target"], noises[-1])

    def encode(self, batch: Batch, key: Key[Array, ""] | None = None) -> Memory:
        """What the decoder reads."""
        return self._encode(batch, self._noises(key))

    def score(self, memory: Memory, target: Int[Array, "b u"]) -> Float[Array, "b u v"]:
        """Logits at every position of the target, given the true tokens before it."""
        return self.decoder(memory, target, None)

    def start(self, memory: Memory, length: int) -> Cache:
        """See `Decoder.start`."""
        return self.decoder.start(memory, length)

    def decode_step(
        self, cache: Cache, token: Int[Array, " b"], position: Int[Array, ""]
    ) -> tuple[Float[Array, "b v"], Cache]:
        """See `Decoder.step`."""
        return self.decoder.step(cache, token, position)

    def _noises(self, key: Key[Array, ""] | None) -> list[Noise | None]:
        """Of the language, each other modality, fusion, and the head; their sites do not meet."""
        text = self.text.sites if self.language == WORDS else 1
        fused = self.fused.sites if self.inputs else 0
        return site_blocks(noise_from(key), text, *[1] * len(self.inputs), fused, 1)

    def _encode(self, batch: Batch, noises: Sequence[Noise | None]) -> Memory:
        if self.language == WORDS:
            language = self.text(batch["text"], self.clips, noises[0])
        else:
            language = self.language_features(batch, self.clips, noises[0])
        if not self.inputs:
            return language
        others = [
            sequence(batch, self.clips, noise)
            for sequence, noise in zip(self.features, noises[1:], strict=False)
        ]
        return self.fused(language, others, noises[1 + len(others)])


def clip_of_words(text: Int[Array, "b t"]) -> Int[Array, "b t"]:
    """Which input clip each word is of, 0 to 2; a separator is of the one before it."""
    separator = text == SEP
    return jnp.minimum(jnp.cumsum(separator, axis=1) - separator, TARGET - 1)


def _over(present: Bool[Array, "b 3"], features: Array) -> Bool[Array, "..."]:
    return present.reshape(*present.shape, *[1] * (features.ndim - present.ndim))


def make_crossmodal(
    *,
    vocabulary_rows: int,
    classes: int = 0,
    modalities: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[Sequence[str]] = (),
    language: str = WORDS,
    fusion: str = "cross",
    two_way: bool | None = None,
    swap_query: bool = False,
    hidden: int = 256,
    layers: int = 3,
    heads: int = 4,
    mlp: int = 512,
    cross_layers: int = 3,
    cross_mlp: int = 1024,
    fused_layers: int = 3,
    classifier: int = 128,
    dropout: float = 0.3,
    dtype: str = "float32",
    scan_unroll: int = 1,
) -> CrossModal:
    """A baseline of the given inputs; the sizes' defaults are the published ones.

    Args:
      vocabulary_rows: rows of the word tables.
      classes: labels of a classifier; 0 for a decoder.
      modalities: name -> shape of a clip's features, of the data set.
      inputs: groups of modalities; each group is one sequence that language is fused with.
      language: "words", or the modality that stands for them.
      fusion: one of `mmgen.models.fusion.FUSIONS`.
      two_way: fusion "cross": do the other modalities ask language, too? None: with one group.
      swap_query: fusion "cross": the other modality asks and language is asked, as a sentence of
        section 4.2 has it, instead of the formula below it.
      hidden, layers, heads, mlp: of text encoder and decoder.
      cross_layers, cross_mlp: of the stacks of the fusion; `fused_layers`: of its last one.
      classifier: width of the classifier's hidden layer.
      dropout: rate, everywhere.
      dtype: of matrix products' operands; parameters, sums, norms and softmax are float32.
      scan_unroll: layers per scan iteration.

    Raises:
      UserError: a modality the data set does not have, or settings that do not fit together.
    """
    known = {name: tuple(shape) for name, shape in (modalities or {}).items()}
    used = [*(name for group in inputs for name in group), *([language] * (language != WORDS))]
    for name in used:
        if name not in known:
            raise UserError(
                f"the model reads the modality {name!r}, but the data set has "
                f"{', '.join(known) or 'no features'}; import it, or take another model."
            )
    check_choice("config.model.fusion", fusion, FUSIONS)
    if hidden % heads:
        raise UserError(
            f"config.model.hidden={hidden} is not a multiple of config.model.heads={heads}; "
            "change one of them."
        )
    if two_way and swap_query:
        raise UserError(
            "config.model.two_way and config.model.swap_query are both on, but swap_query says "
            "who asks where only one does; keep one of them."
        )
    if two_way is None:
        two_way = len(inputs) == 1 and not swap_query
    dropped_of_256(dropout)
    common: dict[str, Any] = {
        "hidden": hidden,
        "heads": heads,
        "dropout": dropout,
        "dtype": jnp.dtype(dtype),
        "unroll": scan_unroll,
    }
    return CrossModal(
        vocabulary_rows=vocabulary_rows,
        classes=classes,
        modalities=tuple((name, known[name]) for name in dict.fromkeys(used)),
        inputs=tuple(map(tuple, inputs)),
        language=language,
        fusion=fusion,
        language_asks=two_way or not swap_query,
        other_asks=two_way or swap_query,
        layers=layers,
        cross_layers=cross_layers,
        fused_layers=fused_layers,
        classifier=classifier,
        sizes=Sizes(mlp=mlp, **common),
        cross_sizes=Sizes(mlp=cross_mlp, **common),
    )
