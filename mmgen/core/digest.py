"""A checksum of arrays that does not depend on how they are spread over devices.

Checkpoint files carry no checksum of their own: a flipped byte inside a compressed block is read
back without complaint. The checksum is computed where the arrays are, in integer arithmetic, which
is exact and associative, so every mesh gives the same number.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt

PyTree = Any

STRIDE = 0x9E3779B9
SMALL = 1 << 20
"""Bytes up to which copying an array costs less than compiling a program for its shape."""


class Mark(NamedTuple):
    """What is known of one array: its dtype, shape, checksum, and whether all of it is finite."""

    dtype: str
    shape: tuple[int, ...]
    checksum: int
    finite: bool


def tree_marks(tree: PyTree) -> dict[str, Mark]:
    """A `Mark` for every array of `tree`, by its "/"-joined path. Waits for the arrays."""
    leaves = named_leaves(tree)
    marks = {}
    for name, leaf in leaves.items():
        # One at a time: programs in flight together, each with its own sum over the devices, can
        # wait for each other for ever where many virtual devices share few cores.
        words = _host_checksum(leaf) if _is_small(leaf) else jax.device_get(_checksum(leaf))
        marks[name] = Mark(str(leaf.dtype), tuple(leaf.shape), int(words[0]), not words[1])
    return marks


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of `tree` by their "/"-joined path."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _is_small(array: Array) -> bool:
    """Is it one that the host can sum up, on every process alike?"""
    at_hand = array.is_fully_replicated or array.is_fully_addressable
    return at_hand and array.nbytes <= SMALL and not _is_key(array)


def _is_key(array: Array) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _host_checksum(array: Array) -> UInt[np.ndarray, " 2"]:
    """What `_checksum` gives, in numpy."""
    values = np.asarray(jax.device_get(array))
    inexact = jnp.issubdtype(values.dtype, jnp.inexact)
    broken = np.sum(~np.isfinite(values), dtype=np.uint32) if inexact else 0
    words = np.frombuffer(values.tobytes(), f"u{min(values.itemsize, 4)}").astype(np.uint32)
    positions = np.arange(len(words), dtype=np.uint32) * np.uint32(STRIDE)
    return np.array([np.sum(_mix(words ^ positions), dtype=np.uint32), broken], np.uint32)


@jax.jit
def _checksum(array: Array) -> UInt[Array, " 2"]:
    """[checksum, number of elements that are not finite].

    The checksum is the sum modulo 2^32 of a mix of each element's bits with its position. The mix
    is one-to-one in the bits, so that no single changed element can go unnoticed.
    """
    inexact = jnp.issubdtype(array.dtype, jnp.inexact)
    broken = jnp.sum(~jnp.isfinite(array), dtype=jnp.uint32) if inexact else jnp.uint32(0)
    if _is_key(array):
        array = jax.random.key_data(array)
    bits = array.astype(jnp.uint8) if array.dtype == jnp.bool_ else _words(array)
    mixed = _mix(bits.astype(jnp.uint32) ^ _positions(bits.shape))
    return jnp.stack([jnp.sum(mixed, dtype=jnp.uint32), broken])


def _positions(shape: tuple[int, ...]) -> Array:
    """A multiple of each element's flat index.

    From one iota per axis: reshaping a flat one would gather an array that is split over devices.
    """
    positions = jnp.zeros(shape, jnp.uint32)
    stride = STRIDE
    for axis in reversed(range(len(shape))):
        index = jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
        positions = positions + index * jnp.uint32(stride)
        stride = stride * shape[axis] % 2**32
    return positions


def _mix(x: Any) -> Any:
    """The finaliser of MurmurHash3, of uint32 in numpy or JAX: every bit depends on every bit."""
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _words(array: Array) -> Array:
    sizes = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}
    return jax.lax.bitcast_convert_type(array, sizes[array.dtype.itemsize])
