"""Named random streams, derived from (seed, name, step) and never carried.

A key that is derived cannot be lost on resume and does not depend on what was drawn before it.
"""

import zlib

import jax
import numpy as np
from jaxtyping import Array, Int, Key


def stream_id(name: str) -> int:
    """Stable 32-bit number of a stream's name."""
    return zlib.crc32(name.encode())


def stream_key(
    seed: int | Int[Array, ""], name: str, step: int | Int[Array, ""] = 0
) -> Key[Array, ""]:
    """The key of stream `name` at `step`; `seed` and `step` may be traced integers.

    Threefry whatever the process's default is, so that the bits are the same on every backend.
    """
    key = jax.random.key(seed, impl="threefry2x32")
    return jax.random.fold_in(jax.random.fold_in(key, stream_id(name)), step)


def numpy_generator(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """A numpy generator for stream `name`; `index` separates epochs, splits or examples."""
    sequence = np.random.SeedSequence([seed, stream_id(name), index])
    return np.random.Generator(np.random.Philox(sequence))
