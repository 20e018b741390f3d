"""Encoders without padding: the positions that exist, moved together.

A batch is padded to one shape, and of that a third exists: captions of 15 positions and images of 7
objects in 27 + 40. What an encoder does position by position (projections, feed-forward, norms,
dropout) it may as well do on the positions that exist, one after another in a single row; only
attention puts them back in their slots. The numbers are those of the padded batch but for the order
of sums, dropout included: it is drawn by slot (`mmgen.models.dropout`).

How many positions there is room for is a shape and so has to be known beforehand: the batch says it
(`mmgen.data.schema.ROOM_FIELDS`), its feeds see to it that the room suffices
(`mmgen.data.room`), and a batch that has more after all gives NaN, never a wrong number.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mmgen.data.schema import Batch
from mmgen.models.dropout import Noise
from mmgen.models.layers import take_positions

LEAST_PACKED = 256
"""Width of a model from which on packing pays on a CPU: narrower ones are not bound by products."""

LEAST_SAVED = 0.2
"""Share of the positions that packing saves where it pays: moving them costs time, too."""


def least_saved(packing: str, hidden: int) -> float | None:
    """Share of its positions that packing must save a run to be done; None never packs.

    Args:
      packing: "on", "off", or "auto": if it pays on this machine. Accelerators have not been asked.
      hidden: width of the model.
    """
    if packing == "on":
        return 0.0
    pays = hidden >= LEAST_PACKED and jax.default_backend() == "cpu"
    return LEAST_SAVED if packing == "auto" and pays else None


class Packing(NamedTuple):
    """Where the `p` packed positions come from, and where those of the padded `[b, n]` went.

    Attributes:
      source: int32[p], slot in the padded batch laid flat; 0 for what is left over.
      taken: bool[p], which packed positions hold one that exists.
      place: int32[b, n], packed position of every slot that exists; 0 for the others.
      fits: bool scalar, is there room for all of them?
    """

    source: Int[Array, " p"]
    taken: Bool[Array, " p"]
    place: Int[Array, "b n"]
    fits: Bool[Array, ""]


class Slots(NamedTuple):
    """The slots of a sequence: which of them exist, and how they are packed, if they are.

    The states of a sequence are [b, n, k] or, packed, [1, p, k].
    """

    mask: Bool[Array, "b n"]
    packing: Packing | None = None

    def pack(self, x: Float[Array, "b n *k"]) -> Float[Array, "#b p *k"]:
        """States in their slots -> packed, if this sequence is."""
        return x if self.packing is None else _pack(x, self.packing, self.mask)

    def unpack(self, x: Float[Array, "#b p *k"]) -> Float[Array, "b n *k"]:
        """States -> in their slots; what stands in slots that do not exist means nothing."""
        return x if self.packing is None else _unpack(x, self.packing, self.mask)

    def take(
        self, x: Float[Array, "#b p k"], columns: Int[Array, "b m"], of: "Slots"
    ) -> Float[Array, "#b q k"]:
        """States at the slots `columns` of every row.

        Args:
          of: the slots of what is taken, packed if this sequence is.
        """
        if self.packing is None:
            return take_positions(x, columns)
        places = jnp.take_along_axis(self.packing.place, columns, axis=1)
        if of.packing is not None:
            places = places.reshape(1, -1)[:, of.packing.source]
        return x[0][places]

    def noise(self, noise: Noise | None) -> Noise | None:
        """The noise that drops of packed states what it drops in the slots."""
        if noise is None or self.packing is None:
            return noise
        return noise._replace(rows=self.packing.source[None])


def text_slots(batch: Batch) -> Slots:
    """Those of a batch's text, packed if the batch has room."""
    return _slots(batch["text_mask"], batch.get("text_room"))


def object_slots(batch: Batch, mask: Bool[Array, "b o"], attend_empty: bool) -> Slots:
    """Those of a batch's objects, packed if the batch has room.

    Args:
      mask: which exist; one more in every row than in the batch if the whole image is one.
      attend_empty: they all do, as empty slots are attended; then they are not packed.
    """
    if attend_empty:
        return Slots(jnp.ones_like(mask))
    more = mask.shape[1] - batch["object_mask"].shape[1]
    return _slots(mask, batch.get("object_room"), more)


def target_slots(batch: Batch, within: Slots) -> Slots:
    """Those of a batch's masked positions, packed if the sequence `within` which they lie is."""
    return _slots(batch["target_mask"], batch["target_room"] if within.packing else None)


def joined(*parts: Slots) -> Slots:
    """The sequence in which the slots of several follow one another, packed part by part."""
    mask = jnp.concatenate([part.mask for part in parts], axis=1)
    packings = [part.packing for part in parts if part.packing is not None]
    if len(packings) < len(parts):
        return Slots(mask)
    sources, places, columns, begin = [], [], 0, 0
    for packing in packings:
        width = packing.place.shape[1]
        row, column = packing.source // width, packing.source % width
        sources.append(row * mask.shape[1] + columns + column)
        places.append(packing.place + begin)
        columns, begin = columns + width, begin + len(packing.source)
    return Slots(
        mask,
        Packing(
            source=jnp.concatenate(sources),
            taken=jnp.concatenate([packing.taken for packing in packings]),
            place=jnp.concatenate(places, axis=1),
            fits=jnp.stack([packing.fits for packing in packings]).all(),
        ),
    )


def every_slot(mask: Bool[Array, "b n"], like: Slots) -> Slots:
    """Slots all of which exist, as `mask` says, packed if `like` is."""
    return Slots(mask, None if like.packing is None else _packing(mask, mask.size))


def _slots(mask: Bool[Array, "b n"], room: Bool[Array, "b r"] | None, more: int = 0) -> Slots:
    if room is None:
        return Slots(mask)
    return Slots(mask, _packing(mask, room.size + more * len(mask)))


def _packing(mask: Bool[Array, "b n"], room: int) -> Packing:
    exists = mask.reshape(-1)
    after = jnp.cumsum(exists, dtype=jnp.int32)
    slot = jnp.arange(mask.size, dtype=jnp.int32)
    source = jnp.zeros(room, jnp.int32).at[jnp.where(exists, after - 1, room)].set(slot)
    return Packing(
        source=source,
        taken=jnp.arange(room) < after[-1],
        place=jnp.where(mask, jnp.minimum(after.reshape(mask.shape), room) - 1, 0),
        fits=after[-1] <= room,
    )


# Each of the two is the other's derivative, as slots that exist and packed positions that are taken
# correspond one to one: both are gathers, where automatic differentiation would scatter.


@jax.custom_vjp
def _pack(x: Array, packing: Packing, mask: Array) -> Array:
    rows = x.reshape(-1, *x.shape[2:])[packing.source]
    return jnp.where(packing.fits, rows, jnp.nan).astype(x.dtype)[None]


@jax.custom_vjp
def _unpack(x: Array, packing: Packing, mask: Array) -> Array:
    return x[0][packing.place]


def _kept(x: Array, packing: Packing, mask: Array) -> tuple[Packing, Array]:
    del x
    return packing, mask


def _pack_backward(kept: tuple[Packing, Array], cotangent: Array) -> tuple:
    packing, mask = kept
    return _where(mask, _unpack(cotangent, packing, mask)), None, None


def _unpack_backward(kept: tuple[Packing, Array], cotangent: Array) -> tuple:
    packing, mask = kept
    return _where(packing.taken[None], _pack(cotangent, packing, mask)), None, None


def _where(mask: Array, x: Array) -> Array:
    return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), x, 0)


def _forward(function, *args):
    return function(*args), _kept(*args)


_pack.defvjp(functools.partial(_forward, _pack), _pack_backward)
_unpack.defvjp(functools.partial(_forward, _unpack), _unpack_backward)
