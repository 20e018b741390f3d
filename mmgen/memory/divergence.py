"""How a swap of two stored examples changes the divergence between memory and target words.

Everything is kept per word, so that a swap is worth the sum of a few entries of one table: first
the new example's words are added to the counts, then each stored example is worth what taking its
words away would gain. Differences are formed before sums, since a gain is far smaller than the
divergence that it changes.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

DIVERGENCES = ("memory_target", "target_memory")
NO_WORD = -1


def removal(
    divergence: str, count: Int[Array, "*w"], weight: Float[Array, "*w"], k: Int[Array, "*w"]
) -> Float[Array, "*w"]:
    """What taking `k` of a word's `count` occurrences away adds to the numerator of the gain.

    "memory_target", KL(memory || target) with memory c / n and target g / sum(g):
    minus the change of c log(c / g). "target_memory", KL(target || memory) with c + 1 for c: the
    change of g log(c + 1).
    """
    if divergence == "target_memory":
        return weight * jnp.log1p(-k / (count + 1.0))
    # c log c - (c - k) log (c - k) - k log g, where 0 log 0 = 0 and nothing cancels.
    left = count - k
    some = jnp.maximum(count, 1)
    log_share = jnp.log1p(-jnp.where(left > 0, k, 0) / some)
    return k * (jnp.log(some) - jnp.log(jnp.maximum(weight, 1e-30))) - left * log_share


def swap_gain(
    divergence: str,
    change: Float[Array, "*s"],
    weight_sum: Float[Array, ""],
    surplus: Float[Array, ""],
    words: Int[Array, ""],
    new_words: Int[Array, "*s"],
) -> Float[Array, "*s"]:
    """Decrease of the divergence by a swap.

    Args:
      change: sum of `removal` over the words that leave, minus over those that come.
      weight_sum: sum of all weights g.
      surplus: sum over words of c log(g / c) before the swap ("memory_target" only).
      words, new_words: words in memory before and after the swap.
    """
    n, new = jnp.maximum(words, 1), jnp.maximum(new_words, 1)
    longer = jnp.log1p((new - n) / n)
    if divergence == "target_memory":
        return change / jnp.maximum(weight_sum, 1e-30) - longer
    return change / new - surplus * ((new - n) / (1.0 * n * new)) + longer


def word_surplus(count: Int[Array, " v"], weight: Float[Array, " v"]) -> Float[Array, " v"]:
    """c log(g / c) of each word, 0 where c is 0."""
    some = jnp.maximum(count, 1)
    return count * (jnp.log(jnp.maximum(weight, 1e-30)) - jnp.log(some))


def multiplicity(words: Int[Array, "*n l"]) -> Int[Array, "*n l"]:
    """How often each word occurs in its row, at its first occurrence; 0 at others and no word."""
    same = words[..., :, None] == words[..., None, :]
    position = jnp.arange(words.shape[-1])
    earlier = jnp.any(same & (position[None, :] < position[:, None]), axis=-1)
    return jnp.where(earlier | (words == NO_WORD), 0, jnp.sum(same, axis=-1, dtype=jnp.int32))
