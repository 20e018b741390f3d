"""Logits kept beside the memory's rows: all of them, or the highest and their log-sum-exp."""

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int

from mmgen.errors import UserError

MAX_BYTES = 2 * 2**30
Stored = dict[str, Array]


def _index_dtype(rows: int) -> type:
    return jnp.uint16 if rows <= 2**16 else jnp.int32


def stored_bytes(capacity: int, width: int, rows: int, top_k: int) -> int:
    """Bytes of device memory that the stored logits take.

    Args:
      capacity: slots of the memory. width: masked positions of a row. rows: rows of the word
        table. top_k: logits kept per position, 0 for all.
    """
    if not top_k:
        return capacity * width * rows * 2
    index = jnp.dtype(_index_dtype(rows)).itemsize
    return capacity * width * (top_k * (2 + index) + 2)


def empty_logits(capacity: int, width: int, rows: int, top_k: int) -> Stored:
    """Storage for `capacity` rows, all zeros; arguments as in `stored_bytes`.

    Raises:
      UserError: more than MAX_BYTES, or more logits kept than there are.
    """
    size = stored_bytes(capacity, width, rows, top_k)
    if size > MAX_BYTES:
        raise UserError(
            f"The stored logits would take {size / 2**30:.1f} GiB ({capacity} slots x {width} "
            f"positions x {top_k or rows} logits), more than {MAX_BYTES / 2**30:.0f} GiB; "
            "set algorithm.top_k to 64 or lower memory.capacity."
        )
    if not 0 <= top_k <= rows:
        raise UserError(f"algorithm.top_k is {top_k}; give 0 (all) to {rows}, the table's rows.")
    if not top_k:
        return {"logits": jnp.zeros((capacity, width, rows), jnp.float16)}
    return {
        "logits": jnp.zeros((capacity, width, top_k), jnp.float16),
        "index": jnp.zeros((capacity, width, top_k), _index_dtype(rows)),
        "lse": jnp.zeros((capacity, width), jnp.float16),
    }


def write_logits(stored: Stored, slots: Int[Array, " b"], logits: Float[Array, "b m v"]) -> Stored:
    """`stored` with a batch's logits at `slots`; the capacity drops a row."""
    top_k = stored["logits"].shape[-1]
    new = {"logits": logits}
    if "index" in stored:
        kept, index = jax.lax.top_k(logits, top_k)
        new = {"logits": kept, "index": index, "lse": logsumexp(logits, axis=-1)}
    return {
        name: values.at[slots].set(new[name].astype(values.dtype), mode="drop")
        for name, values in stored.items()
    }


def logit_distance(
    stored: Stored,
    slots: Int[Array, " r"],
    logits: Float[Array, "r m v"],
    target: Bool[Array, "r m"],
) -> Float[Array, ""]:
    """Mean squared difference between a batch's logits and those stored at `slots`.

    Over the masked tokens `target` and the kept logits; the log-sum-exp, which stands for those
    not kept, counts as one more. Slots beyond the capacity must not be targets.
    """
    then = {
        name: values.at[slots].get(mode="fill", fill_value=0) for name, values in stored.items()
    }
    now = logits
    if "index" in then:
        now = jnp.take_along_axis(logits, then["index"].astype(jnp.int32), axis=-1)
    squares = jnp.sum((now - then["logits"]) ** 2, axis=-1)
    numbers = then["logits"].shape[-1]
    if "lse" in then:
        squares += (logsumexp(logits, axis=-1) - then["lse"]) ** 2
        numbers += 1
    total = jnp.sum(jnp.where(target, squares, 0))
    return total / (numbers * jnp.maximum(jnp.sum(target), 1))
