"""Ways to join the sequence of language with those of other modalities; a part to swap.

A fusion is called with the language and a list of other memories (sequences with masks) and gives
one memory, which a decoder reads or a classifier pools. A clip without a modality is masked in its
sequence: as a key it is not there, and where it asks itself, nothing reads the answer.

`cross` is the paper's (section 4.2). What its text leaves open is settled by its parameter totals
(Table 6). AL has 7.2M parameters more than L in either task: three stacks of three layers of
12 * 256^2 (attention and a feed-forward four times as wide) are 7.1M, the projection of 512-d audio
.1M. AVL has just the .1M of that projection more than VL. So there are three stacks in each:

- one modality: language asks it, it asks language, and a self-attention stack over both answers in
  one sequence ("a self-attention layer over the aligned vision and language features"). With both
  directions there, the paper's formula (language asks) and its sentence on the queries (vision
  asks) are both right;
- two modalities: language asks each of them (two blocks), the self-attention stack is over both
  answers in one sequence ("the concatenation of the audio-aligned textual features ... with the
  visual-aligned textual features").

The other fusions are not the paper's, which names fusion as future work.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from mmgen.models.bert import scan_layers
from mmgen.models.dropout import Noise, site_blocks
from mmgen.models.layers import Dense, LayerNorm
from mmgen.models.transformer import LAYER_SITES, Layer, Memory, Sizes, Stack, uniform_rows

BOTTLENECKS = 4
"""Vectors through which the modalities of `bottleneck` see each other (Nagrani et al. 2021)."""


class Plan(NamedTuple):
    """What a fusion is built from; each reads what it needs.

    Attributes:
      others: names of the other modalities.
      depth: layers of the stacks in which modalities meet.
      fused_depth: layers of the self-attention stack behind them; 0 for none.
      sizes: see `Sizes`.
      language_asks, other_asks: of "cross", which of two sequences has its answer in the result.
    """

    others: tuple[str, ...]
    depth: int
    fused_depth: int
    sizes: Sizes
    language_asks: bool = True
    other_asks: bool = False


class CrossFusion(nn.Module):
    """Cross-modal stacks between language and each other modality, then self-attention."""

    plan: Plan

    @property
    def sites(self) -> int:
        """Places that drop."""
        asking = self.plan.language_asks + self.plan.other_asks
        return LAYER_SITES * (
            asking * len(self.plan.others) * self.plan.depth + self.plan.fused_depth
        )

    @nn.compact
    def __call__(self, language: Memory, others: Sequence[Memory], noise: Noise | None) -> Memory:
        """The fused memory: all answers in one sequence."""
        asked: list[tuple[str, Memory, Memory]] = []
        for name, other in zip(self.plan.others, others, strict=True):
            if self.plan.language_asks:
                asked.append((f"language_asks_{name}", language, other))
            if self.plan.other_asks:
                asked.append((f"{name}_asks_language", other, language))
        block = LAYER_SITES * self.plan.depth
        *noises, fused_noise = site_blocks(noise, *[block] * len(asked), LAYER_SITES)
        answers = []
        for (name, asking, known), own in zip(asked, noises, strict=True):
            stack = Stack(self.plan.depth, self.plan.sizes, name=name)
            answers.append(Memory(stack(asking.states, known.states, known.mask, own), asking.mask))
        joined = concatenate(answers)
        fused = Stack(self.plan.fused_depth, self.plan.sizes, name="fused")
        return joined._replace(states=fused(joined.states, None, joined.mask, fused_noise))


class LateFusion(nn.Module):
    """Each modality sees itself alone; only what reads the memory sees them together."""

    plan: Plan

    @property
    def sites(self) -> int:
        """Places that drop."""
        return LAYER_SITES * self.plan.depth * len(self.plan.others)

    @nn.compact
    def __call__(self, language: Memory, others: Sequence[Memory], noise: Noise | None) -> Memory:
        """Language as it is, and the others after a self-attention stack each."""
        noises = site_blocks(noise, *[LAYER_SITES * self.plan.depth] * len(others))
        encoded = [
            Memory(
                Stack(self.plan.depth, self.plan.sizes, name=name)(
                    other.states, None, other.mask, own
                ),
                other.mask,
            )
            for name, other, own in zip(self.plan.others, others, noises, strict=True)
        ]
        return concatenate([language, *encoded])


class BottleneckLayer(nn.Module):
    """One layer of every modality over itself and the shared vectors, which are then averaged."""

    count: int
    sizes: Sizes

    @nn.compact
    def __call__(
        self,
        shared: Float[Array, "b z k"],
        *sequences_masks_noise: Any,
    ) -> tuple[Array, ...]:
        """`(shared, *sequences, masks, noise) -> (shared, *sequences)`."""
        *sequences, masks, noise = sequences_masks_noise
        length = shared.shape[1]
        answers, seen = [], []
        noises = site_blocks(noise, *[LAYER_SITES] * self.count)
        for index, (x, mask, own) in enumerate(zip(sequences, masks, noises, strict=True)):
            both = concatenate([Memory(shared, jnp.ones(shared.shape[:2], jnp.bool_)), (x, mask)])
            layer = Layer(self.sizes, name=f"modality_{index}")
            y = layer(both.states, None, both.mask, own)
            seen.append(y[:, :length])
            answers.append(y[:, length:])
        return jnp.mean(jnp.stack(seen), axis=0), *answers


class BottleneckFusion(nn.Module):
    """Modalities exchange what a few shared vectors can carry, layer by layer."""

    plan: Plan

    @property
    def sites(self) -> int:
        """Places that drop."""
        return LAYER_SITES * self.plan.depth * (1 + len(self.plan.others))

    @nn.compact
    def __call__(self, language: Memory, others: Sequence[Memory], noise: Noise | None) -> Memory:
        """All sequences and the shared vectors."""
        parts = [language, *others]
        table = self.param("bottleneck", uniform_rows, (BOTTLENECKS, self.plan.sizes.hidden))
        shared = jnp.broadcast_to(table, (len(language.states), *table.shape))
        layer = BottleneckLayer(len(parts), self.plan.sizes, name="layers")
        carry = (shared, *(part.states for part in parts))
        masks = tuple(part.mask for part in parts)
        sites = LAYER_SITES * len(parts)
        found = scan_layers(
            layer, carry, (masks,), noise, sites, self.plan.depth, self.plan.sizes.unroll
        )
        everywhere = jnp.ones(shared.shape[:2], jnp.bool_)
        joined = concatenate(list(zip(found, (everywhere, *masks), strict=True)))
        return joined._replace(states=LayerNorm(name="norm")(joined.states))


class GatedFusion(nn.Module):
    """Language plus what it reads from each modality, each feature times a gate (GMU, 2017)."""

    plan: Plan

    @property
    def sites(self) -> int:
        """Places that drop."""
        return LAYER_SITES * (self.plan.depth * len(self.plan.others) + self.plan.fused_depth)

    @nn.compact
    def __call__(self, language: Memory, others: Sequence[Memory], noise: Noise | None) -> Memory:
        """A memory of the length of language."""
        block = LAYER_SITES * self.plan.depth
        *noises, fused_noise = site_blocks(noise, *[block] * len(others), LAYER_SITES)
        x = language.states
        for name, other, own in zip(self.plan.others, others, noises, strict=True):
            stack = Stack(self.plan.depth, self.plan.sizes, name=f"language_asks_{name}")
            answer = stack(language.states, other.states, other.mask, own)
            gate = Dense(
                self.plan.sizes.hidden, self.plan.sizes.dtype, uniform=True, name=f"gate_of_{name}"
            )(jnp.concatenate([language.states, answer], axis=-1))
            x = x + nn.sigmoid(gate) * answer
        fused = Stack(self.plan.fused_depth, self.plan.sizes, name="fused")
        return Memory(fused(x, None, language.mask, fused_noise), language.mask)


def concatenate(parts: Sequence[tuple[Float[Array, "b n k"], Bool[Array, "b n"]]]) -> Memory:
    """Memories one after the other, as one."""
    states, masks = zip(*parts, strict=True)
    return Memory(jnp.concatenate(states, axis=1), jnp.concatenate(masks, axis=1))


FUSIONS: dict[str, Callable[[Plan], nn.Module]] = {
    "cross": CrossFusion,
    "late": LateFusion,
    "bottleneck": BottleneckFusion,
    "gated": GatedFusion,
}
"""`config.model.fusion` -> its module."""
