"""Balanced memory: stored words approach a target distribution (VisCOLL, section 6.3).

A memory example is replaced by the stream's if the swap brings the words in memory nearer to the
target, and the best swap is made. The target is the square root of the words' frequency in the
stream (balanced-sqrt), or their frequency times one plus how much they are forgotten
(balanced-forget).

Where paper and release differ, `memory.divergence` has both; two choices are the release's in
either profile. The paper's target is frequency times forgetting, which gives no weight to words
that are not forgotten, and none at all at the start. And the paper excludes no words from its
distributions, the release leaves out function words (`memory.count_stop_words` counts them).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from mmgen.memory.base import Memory, MemoryState
from mmgen.memory.divergence import (
    DIVERGENCES,
    NO_WORD,
    multiplicity,
    removal,
    swap_gain,
    word_surplus,
)
from mmgen.memory.reservoir import (
    check_capacity,
    drop_overwritten,
    empty_ids,
    insert_ids,
    sample_slots,
    stream_numbers,
)
from mmgen.settings.suggest import check_choice

PyTree = Any
WeighFn = Callable[[Int[Array, " n"], Int[Array, " n"]], Float[Array, " n"]]
"""`(occurrences in the stream, words) -> weight in the target`, not normalised."""


def masked_words(
    tokens: Int[np.ndarray, " total"],
    token_start: Int[np.ndarray, " n1"],
    span: Int[np.ndarray, "n 2"],
    width: int,
    stop_words: Sequence[int] = (),
) -> Int[np.ndarray, "n l"]:
    """The masked words of each row, int32[n, width], as side information of a balanced memory.

    Columns are those of `Task.loss`'s `nll`; `NO_WORD` beyond the span and for stop words, which
    then count for nothing (the release's default; without any, all words count).

    Args:
      tokens, token_start, span: columns of the data set.
      width: longest span.
      stop_words: ids of the words to leave out, see `mmgen.memory.stop_words`.
    """
    place = np.arange(width)
    inside = place < (span[:, 1] - span[:, 0])[:, None]
    index = token_start[:-1, None] + span[:, :1] + place
    words = np.where(inside, tokens[np.minimum(index, len(tokens) - 1)], NO_WORD)
    words[np.isin(words, list(stop_words))] = NO_WORD
    return words.astype(np.int32)


def _add(counts: Int[Array, " v"], words: Int[Array, "*n"], k: Any) -> Int[Array, " v"]:
    """`counts` with `k` added at `words`; `NO_WORD` counts for nothing."""
    return counts.at[jnp.where(words == NO_WORD, counts.shape[0], words)].add(k, mode="drop")


class _Balance(NamedTuple):
    """What is kept while the examples of one batch are taken one by one.

    Attributes:
      words: int32[capacity, l], words of each slot.
      size: int32[capacity], how many.
      code: int32[capacity, l], see `_code`.
      stream, stored: int32[v], occurrences of each word in the stream so far, and in memory.
      weight: float32[v], weight of each word in the target.
      table: float32[l, v], `removal` of 1 .. l occurrences of each word.
      surplus: float32[v], see `swap_gain`.
    """

    words: Int[Array, "c l"]
    size: Int[Array, " c"]
    code: Int[Array, "c l"]
    stream: Int[Array, " v"]
    stored: Int[Array, " v"]
    weight: Float[Array, " v"]
    table: Float[Array, "l v"]
    surplus: Float[Array, " v"]


def _code(words: Int[Array, "*n l"], rows: int) -> Int[Array, "*n l"]:
    """Flat indices of (multiplicity - 1, word) in the table, or past its end; ascending.

    Sorted, so that examples with the same words are worth exactly the same, and the first of them
    is chosen on every machine.
    """
    count = multiplicity(words)
    code = jnp.where(count > 0, (count - 1) * rows + words, words.shape[-1] * rows)
    return jnp.sort(code, axis=-1)


def _best_swap(
    divergence: str,
    weigh: WeighFn,
    balance: _Balance,
    inputs: tuple[Array, ...],
) -> tuple[_Balance, Int[Array, ""]]:
    """Takes one example: its slot, the capacity if no swap is a gain."""
    number, real, words = inputs
    capacity, width = balance.words.shape
    rows = balance.stream.shape[0]
    words = jnp.where(real, words, NO_WORD)
    here = jnp.where(words == NO_WORD, rows, words)
    times = jnp.arange(1, width + 1)[:, None]

    def refresh(balance: _Balance, at: Int[Array, " n"]) -> _Balance:
        """Recomputes what depends on the counts of the words `at`."""
        count, stream = (part.at[at].get(mode="clip") for part in (balance.stored, balance.stream))
        weight = weigh(stream, at)
        change = removal(divergence, count[None], weight[None], jnp.minimum(times, count[None]))
        return balance._replace(
            weight=balance.weight.at[at].set(weight, mode="drop"),
            table=balance.table.at[:, at].set(change, mode="drop"),
            surplus=balance.surplus.at[at].set(word_surplus(count, weight), mode="drop"),
        )

    before = jnp.sum(balance.stored)
    balance = refresh(balance._replace(stream=_add(balance.stream, words, 1)), here)
    weight_sum, surplus = jnp.sum(balance.weight), jnp.sum(balance.surplus)
    balance = refresh(balance._replace(stored=_add(balance.stored, words, 1)), here)

    def worth(code: Int[Array, "*n l"]) -> Float[Array, "*n"]:
        flat = balance.table.ravel()
        return jnp.sum(flat.at[code].get(mode="fill", fill_value=0.0), axis=-1)

    change = worth(balance.code) - worth(_code(words, rows))
    size = jnp.sum(words != NO_WORD, dtype=jnp.int32)
    after = before + size - balance.size
    gain = swap_gain(divergence, change, weight_sum, surplus, before, after)
    best = jnp.argmax(gain).astype(jnp.int32)
    swapped = jnp.where(gain[best] > 0, best, capacity)
    slot = jnp.where(real, jnp.where(number < capacity, number, swapped), capacity)

    left = balance.words.at[slot].get(mode="fill", fill_value=NO_WORD)
    left = jnp.where(slot < capacity, left, words)  # An example that is dropped leaves again.
    balance = balance._replace(
        stored=_add(balance.stored, left, -1),
        words=balance.words.at[slot].set(words, mode="drop"),
        size=balance.size.at[slot].set(size, mode="drop"),
        code=balance.code.at[slot].set(_code(words, rows), mode="drop"),
    )
    return refresh(balance, jnp.where(left == NO_WORD, rows, left)), slot


def _choose_slots(
    divergence: str,
    weigh: WeighFn,
    state: MemoryState,
    mask: Bool[Array, " b"],
    words: Int[Array, "b l"],
) -> Int[Array, " b"]:
    """The slots of a batch, its examples taken one after the other."""
    held = state.payload
    width, rows = held["words"].shape[1], held["stream"].shape[0]
    weight = weigh(held["stream"], jnp.arange(rows))
    stored, times = held["stored"], jnp.arange(1, width + 1)[:, None]
    table = removal(divergence, stored[None], weight[None], jnp.minimum(times, stored[None]))
    balance = _Balance(
        words=held["words"],
        size=jnp.sum(held["words"] != NO_WORD, axis=1, dtype=jnp.int32),
        code=_code(held["words"], rows),
        stream=held["stream"],
        stored=stored,
        weight=weight,
        table=table,
        surplus=word_surplus(stored, weight),
    )
    inputs = (stream_numbers(state, mask), mask, words)
    step = partial(_best_swap, divergence, weigh)
    return jax.lax.scan(step, balance, inputs)[1]


def _empty(capacity: int, rows: int, width: int) -> MemoryState:
    payload = {
        "words": jnp.full((capacity, width), NO_WORD, jnp.int32),
        "stream": jnp.zeros((rows,), jnp.int32),
        "stored": jnp.zeros((rows,), jnp.int32),
    }
    return MemoryState(empty_ids(capacity), jnp.zeros((), jnp.int32), payload)


def _insert(
    state: MemoryState,
    ids: Int[Array, " b"],
    mask: Bool[Array, " b"],
    slots: Int[Array, " b"],
    words: Int[Array, "b l"],
) -> MemoryState:
    held, capacity = state.payload, state.ids.shape[0]
    left = held["words"].at[slots].get(mode="fill", fill_value=NO_WORD)
    come = jnp.where(slots[:, None] < capacity, words, NO_WORD)
    payload = held | {
        "words": held["words"].at[slots].set(words, mode="drop"),
        "stream": _add(held["stream"], jnp.where(mask[:, None], words, NO_WORD), 1),
        "stored": _add(_add(held["stored"], left, -1), come, 1),
    }
    return insert_ids(state, ids, mask, slots).replace(payload=payload)


def _sample(state: MemoryState, key: Key[Array, ""], k: int) -> Int[Array, " k"]:
    return sample_slots(key, state.size, k, state.ids.shape[0])


def make_balanced_sqrt(
    capacity: int, rows: int, width: int, divergence: str = "memory_target"
) -> Memory:
    """Balanced-sqrt: the target is the square root of each word's frequency in the stream so far.

    The memory fills first. Afterwards an example replaces the slot whose swap lowers the
    divergence most, the first of equals, or is dropped if none does. Several examples of a batch
    are taken one after the other. `side` is int32[b, width], the masked words of each example,
    `NO_WORD` where there is none (`masked_words`). Divergences: "memory_target", the paper's
    KL(memory || target); "target_memory", what the released code lowers (ocl/er_bal.py:175-242):
    sum of target log((count + 1) / words in memory), without the ones in the denominator.

    Args:
      rows: rows of the word table.
      width: columns of `side`.

    Raises:
      UserError: unknown divergence or impossible capacity.
    """
    check_capacity(capacity)
    check_choice("memory.divergence", divergence, DIVERGENCES)

    def weigh(stream: Int[Array, " n"], words: Int[Array, " n"]) -> Float[Array, " n"]:
        del words
        return jnp.sqrt(stream.astype(jnp.float32))

    def slots(
        state: MemoryState,
        key: Key[Array, ""],
        ids: Int[Array, " b"],
        mask: Bool[Array, " b"],
        side: Int[Array, "b l"],
    ) -> Int[Array, " b"]:
        del key, ids
        return drop_overwritten(_choose_slots(divergence, weigh, state, mask, side), capacity)

    init = partial(_empty, capacity, rows, width)
    return Memory(capacity, init, _sample, slots, _insert, planned=True)


def make_balanced_forget(
    capacity: int, rows: int, width: int, divergence: str = "memory_target"
) -> Memory:
    """Balanced-forget: the target is a word's frequency in the stream times 1 + its forgetting.

    As `make_balanced_sqrt`, but the forgetting of a word is the running mean, over replayed
    occurrences, of the loss minus the best loss that this stored occurrence ever had (from the
    stream pass that stored it). A word that is replayed for the first time starts from the mean
    of all occurrences, with the weight of an average word (ocl/er_bal.py:374-404).

    Not planned: the step calls `observe` with the losses of the replayed rows, then `slots` and
    `insert` with `side` = (words int32[b, width], nll float32[b, width]) of the stream batch. On
    another mesh losses differ in their last digits, and with them two swaps that are worth the
    same but for these may change places.

    Raises:
      UserError: unknown divergence or impossible capacity.
    """
    check_capacity(capacity)
    check_choice("memory.divergence", divergence, DIVERGENCES)

    def init() -> MemoryState:
        state = _empty(capacity, rows, width)
        forgetting = {
            "best": jnp.zeros((capacity, width), jnp.float32),
            "forgetting": jnp.zeros((rows,), jnp.float32),
            "replayed": jnp.zeros((rows,), jnp.float32),
        }
        return state.replace(payload=state.payload | forgetting)

    def slots(
        state: MemoryState,
        key: Key[Array, ""],
        ids: Int[Array, " b"],
        mask: Bool[Array, " b"],
        side: tuple[Int[Array, "b l"], Float[Array, "b l"]],
    ) -> Int[Array, " b"]:
        del key, ids
        forgetting = state.payload["forgetting"]

        def weigh(stream: Int[Array, " n"], words: Int[Array, " n"]) -> Float[Array, " n"]:
            return stream * (1.0 + forgetting.at[words].get(mode="clip"))

        return drop_overwritten(_choose_slots(divergence, weigh, state, mask, side[0]), capacity)

    def insert(
        state: MemoryState,
        ids: Int[Array, " b"],
        mask: Bool[Array, " b"],
        slots: Int[Array, " b"],
        side: tuple[Int[Array, "b l"], Float[Array, "b l"]],
    ) -> MemoryState:
        words, nll = side
        state = _insert(state, ids, mask, slots, words)
        best = state.payload["best"].at[slots].set(nll, mode="drop")
        return state.replace(payload=state.payload | {"best": best})

    def observe(
        state: MemoryState, slots: Int[Array, " r"], nll: Float[Array, "r l"]
    ) -> MemoryState:
        held = state.payload
        words = held["words"].at[slots].get(mode="fill", fill_value=NO_WORD)
        best = jnp.minimum(held["best"].at[slots].get(mode="fill", fill_value=0.0), nll)
        mean, number = held["forgetting"], held["replayed"]
        # Where a word that was never replayed starts: the mean over all, an average word's weight.
        known, total = jnp.sum(number > 0), jnp.sum(number)
        overall = jnp.sum(mean * number) / jnp.maximum(total, 1)
        new = number == 0
        mean = jnp.where(new, overall, mean)
        weight = jnp.where(new, total / jnp.maximum(known, 1), number)
        times = _add(jnp.zeros_like(mean), words, 1.0)
        loss = _add(jnp.zeros_like(mean), words, nll - best)
        met = times > 0
        payload = held | {
            "best": held["best"].at[slots].set(best, mode="drop"),
            "forgetting": jnp.where(
                met, (mean * weight + loss) / jnp.maximum(weight + times, 1), held["forgetting"]
            ),
            "replayed": jnp.where(met, weight + times, number),
        }
        return state.replace(payload=payload)

    return Memory(capacity, init, _sample, slots, insert, planned=False, observe=observe)
