"""The next token from logits: greedy, by temperature, from a nucleus; one random stream per row.

A row's draw depends on its own seed and on how many tokens it has, on nothing else of the batch.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt

from mmgen.core.rng import stream_key

_FLOAT_BITS = 31
"""Of a float32 that is not negative: such floats are ordered as their bits are."""


def sample(
    logits: Float[Array, "b v"],
    temperature: Float[Array, " b"],
    top_p: Float[Array, " b"],
    seeds: UInt[Array, " b"],
    index: Int[Array, " b"],
) -> Int[Array, " b"]:
    """A token for every row.

    Args:
      temperature: 0 takes the most likely token, the first of equals.
      top_p: draw among the fewest most likely tokens that together have this probability; tokens
        as likely as the last of them belong to them too.
      seeds: of each row's stream.
      index: which of its stream's draws this is.
    """
    greedy = jnp.argmax(logits, axis=-1)

    def draw() -> Array:
        hot = temperature > 0
        scaled = logits / jnp.where(hot, temperature, 1.0)[:, None]
        kept = jax.lax.cond(jnp.any(hot & (top_p < 1)), _nucleus, lambda x, _: x, scaled, top_p)
        keys = jax.vmap(_draw_key)(seeds, index)
        return jnp.where(hot, jax.vmap(jax.random.categorical)(keys, kept), greedy)

    return jax.lax.cond(jnp.any(temperature > 0), draw, lambda: greedy).astype(jnp.int32)


def _draw_key(seed: UInt[Array, ""], index: Int[Array, ""]) -> Key[Array, ""]:
    return stream_key(seed, "lm/sample", index)


def _nucleus(logits: Float[Array, "b v"], top_p: Float[Array, " b"]) -> Float[Array, "b v"]:
    """Logits with everything outside the nucleus at -inf.

    The smallest kept probability is the largest float32 at and above which enough probability
    lies. It is found bit by bit: 31 sums over the row, where sorting it would take longer.
    """
    probabilities = jax.nn.softmax(logits, axis=-1)
    top_p = jnp.maximum(top_p, jnp.finfo(top_p.dtype).tiny)  # even 0 keeps the most likely token

    def mass(least: Array) -> Array:
        return jnp.sum(jnp.where(probabilities >= least[:, None], probabilities, 0.0), axis=-1)

    def set_bit(step: Array, bits: Array) -> Array:
        tried = bits | (jnp.int32(1) << (_FLOAT_BITS - 1 - step))
        least = jax.lax.bitcast_convert_type(tried, jnp.float32)
        # Patterns of infinity and NaN are above every probability: their mass is 0.
        return jnp.where(mass(least) >= top_p, tried, bits)

    bits = jax.lax.fori_loop(0, _FLOAT_BITS, set_bit, jnp.zeros(len(logits), jnp.int32))
    least = jax.lax.bitcast_convert_type(bits, jnp.float32)
    return jnp.where(probabilities >= least[:, None], logits, -jnp.inf)
