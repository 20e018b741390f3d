"""A checksum of arrays that does not depend on how they are spread over devices.

Checkpoint files carry no checksum of their own: a flipped byte inside a compressed block is read
back without complaint. The checksum is computed where the arrays are, in integer arithmetic, which
is exact and associative, so every mesh gives the same number.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt

PyTree = Any


class Mark(NamedTuple):
    """What is known of one array: its dtype, shape, checksum, and whether all of it is finite."""

    dtype: str
    shape: tuple[int, ...]
    checksum: int
    finite: bool


def tree_marks(tree: PyTree) -> dict[str, Mark]:
    """A `Mark` for every array of `tree`, by its "/"-joined path. Waits for the arrays."""
    leaves = named_leaves(tree)
    pending = {name: _checksum(leaf) for name, leaf in leaves.items()}
    marks = {}
    for name, words in jax.device_get(pending).items():
        leaf = leaves[name]
        marks[name] = Mark(str(leaf.dtype), tuple(leaf.shape), int(words[0]), not words[1])
    return marks


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of `tree` by their "/"-joined path."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


@jax.jit
def _checksum(array: Array) -> UInt[Array, " 2"]:
    """[sum of bits times odd weights modulo 2^32, number of elements that are not finite].

    An odd weight cannot hide a single changed element; different weights notice exchanged ones.
    """
    inexact = jnp.issubdtype(array.dtype, jnp.inexact)
    broken = jnp.sum(~jnp.isfinite(array), dtype=jnp.uint32) if inexact else jnp.uint32(0)
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    bits = array.astype(jnp.uint8) if array.dtype == jnp.bool_ else _words(array)
    # One iota per axis instead of a flat one: reshaping would gather an array that is split.
    weight = jnp.full(bits.shape, 0x9E3779B9, jnp.uint32)
    stride = 0x85EBCA6B
    for axis in reversed(range(bits.ndim)):
        index = jax.lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
        weight = weight + index * jnp.uint32(stride)
        stride = stride * bits.shape[axis] % 2**32
    # Multiplying by a constant alone would be linear in the index; the shift-and-xor is not.
    weight = (weight ^ (weight >> 15)) * jnp.uint32(0x2C1B3C6D) | 1
    return jnp.stack([jnp.sum(bits.astype(jnp.uint32) * weight, dtype=jnp.uint32), broken])


def _words(array: Array) -> Array:
    sizes = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}
    return jax.lax.bitcast_convert_type(array, sizes[array.dtype.itemsize])
