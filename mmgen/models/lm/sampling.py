"""The next token from logits: greedy, by temperature, from a nucleus.

Randomness comes in as one number per row and token (`draws`), made from the row's own seed, so that
nothing else of a batch has a part in it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mmgen.core.rng import numpy_generator

_FLOAT_BITS = 31
"""Of a float32 that is not negative: such floats are ordered as their bits are."""


def draws(seed: int, count: int) -> Float[np.ndarray, " n"]:
    """The numbers in (0, 1] that decide the first `count` tokens of the sample `seed`."""
    return 1.0 - numpy_generator(seed, "lm/sample").random(count, np.float32)


def sample(
    logits: Float[Array, "b v"],
    temperature: Float[Array, " b"],
    top_p: Float[Array, " b"],
    draw: Float[Array, " b"],
) -> Int[Array, " b"]:
    """A token for every row.

    Args:
      temperature: 0 takes the most likely token, the first of equals.
      top_p: draw among the fewest most likely tokens that together have this probability; tokens
        as likely as the last of them belong to them too.
      draw: in (0, 1]: the token at which the summed probability of those kept reaches this share.
    """

    def drawn() -> Array:
        heat = jnp.where(temperature > 0, temperature, 1.0)[:, None]
        probabilities = jax.nn.softmax(logits / heat, axis=-1)
        narrow = jnp.any((temperature > 0) & (top_p < 1))
        kept = jax.lax.cond(narrow, _nucleus, lambda whole, _: whole, probabilities, top_p)
        reached = jnp.cumsum(kept, axis=-1)
        # Tokens that were not kept add nothing: none of them is the first to reach anything.
        token = jnp.argmax(reached >= draw[:, None] * reached[:, -1:], axis=-1)
        return jnp.where(temperature > 0, token, greedy)

    greedy = jnp.argmax(logits, axis=-1)
    return jax.lax.cond(jnp.any(temperature > 0), drawn, lambda: greedy).astype(jnp.int32)


def _nucleus(probabilities: Float[Array, "b v"], top_p: Float[Array, " b"]) -> Float[Array, "b v"]:
    """Probabilities with everything outside the nucleus at 0.

    The smallest kept probability is the largest float32 at and above which enough probability
    lies. It is found bit by bit: 31 sums over the row, where sorting it would take longer.
    """
    top_p = jnp.maximum(top_p, jnp.finfo(top_p.dtype).tiny)  # even 0 keeps the most likely token

    def above(least: Array) -> Array:
        return jnp.where(probabilities >= least[:, None], probabilities, 0.0)

    def set_bit(step: Array, bits: Array) -> Array:
        tried = bits | (jnp.int32(1) << (_FLOAT_BITS - 1 - step))
        # Patterns of infinity and NaN are above every probability: nothing lies there.
        mass = above(jax.lax.bitcast_convert_type(tried, jnp.float32)).sum(axis=-1)
        return jnp.where(mass >= top_p, tried, bits)

    bits = jax.lax.fori_loop(0, _FLOAT_BITS, set_bit, jnp.zeros(len(top_p), jnp.int32))
    return above(jax.lax.bitcast_convert_type(bits, jnp.float32))
