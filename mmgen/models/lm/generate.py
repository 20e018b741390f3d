"""Batched generation: left-padded prompts, a key-value cache, a loop on the device.

Prompts are grouped by their own padded length and always run as full batches, so that an answer
depends on its prompt, its settings and its seed, and not on what else is asked. (Another batch
size or mesh sums in another order: equal to rounding, which can decide a near tie.)
"""

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mmgen.core.mesh import batch_sharding, batch_shards, put_replicated
from mmgen.models.lm import llama
from mmgen.models.lm.buckets import batches, bucket
from mmgen.models.lm.config import LlamaConfig
from mmgen.models.lm.llama import NOWHERE, Cache, Params
from mmgen.models.lm.model import LanguageModel
from mmgen.models.lm.sampling import draws, sample

CHUNK = 16
"""Tokens between two looks at the texts, for stop strings."""


class Prompt(NamedTuple):
    """What is continued, and how.

    Attributes:
      inputs: token ids, or embeddings [t, k] of whatever the model is to see.
      max_tokens, temperature, top_p, stop: see `mmgen.prompting.requests.Decoding`.
      seed: of the sample, not negative.
    """

    inputs: Int[np.ndarray, " t"] | Float[np.ndarray, "t k"]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0


class Continuation(NamedTuple):
    """What the model wrote.

    Attributes:
      text: without special tokens, cut before the first stop string.
      tokens: generated tokens up to the end of the answer, the ending one included.
      seconds: this sample's share of its batch's time.
    """

    text: str
    tokens: int
    seconds: float


class _Settings(NamedTuple):
    """Of every row, on the host or on devices.

    Attributes:
      temperature, top_p: float32[b].
      draws: float32[b, n], see `sampling.draws`.
      limit: int32[b], tokens that may be written.
    """

    temperature: Any
    top_p: Any
    draws: Any
    limit: Any


class _State(NamedTuple):
    """Between two steps.

    Attributes:
      last, position: the newest token, which has not been read yet, and where it stands.
      tokens: what was written so far; `written` of each row count.
      done: rows that have ended.
    """

    cache: Cache
    last: Int[Array, " b"]
    position: Int[Array, " b"]
    tokens: Int[Array, "b n"]
    written: Int[Array, " b"]
    done: Bool[Array, " b"]


def generate(
    model: LanguageModel, prompts: Sequence[Prompt], rows: int
) -> Iterator[tuple[int, Continuation]]:
    """Continues every prompt; yields `(index, continuation)` batch by batch, short ones first.

    Args:
      prompts: each with room for its answer (`len(inputs) + max_tokens` at most the config's
        `max_length`) and at least one token.
      rows: how many are worked on at once.
    """
    for members in batches(prompts, _shape, rows):
        started = time.monotonic()
        batch = [prompts[index] for index in members]
        answers = _run(model, batch, rows)
        seconds = (time.monotonic() - started) / len(batch)
        for index, (text, tokens) in zip(members, answers, strict=True):
            yield index, Continuation(text, tokens, seconds)


def _shape(prompt: Prompt) -> tuple[int, int, int]:
    return bucket(len(prompt.inputs)), bucket(prompt.max_tokens), prompt.inputs.ndim


def _run(model: LanguageModel, prompts: Sequence[Prompt], rows: int) -> list[tuple[str, int]]:
    length, room, _ = _shape(prompts[0])
    inputs, positions = left_padded([prompt.inputs for prompt in prompts], rows, length)
    put = functools.partial(put_rows, model)
    settings = jax.tree.map(put, _settings(prompts, rows, room))
    state = _read(
        model.params,
        put(inputs),
        put(positions),
        settings,
        config=model.config,
        room=room,
        dtype=model.dtype,
    )
    while True:
        # Copies: the next call is given these buffers for its own use.
        tokens, written, done = map(np.array, (state.tokens, state.written, state.done))
        answers = [
            _cut(model, prompt, tokens[row, : written[row]].tolist())
            for row, prompt in enumerate(prompts)
        ]
        done[: len(prompts)] |= [answer[2] for answer in answers]
        if done.all():
            return [(text, count) for text, count, _ in answers]
        state = _write(
            model.params,
            state._replace(done=put(done)),
            settings,
            config=model.config,
            dtype=model.dtype,
        )


def _settings(prompts: Sequence[Prompt], rows: int, room: int) -> _Settings:
    """Of the prompts, and of rows that are not needed: those write nothing."""
    settings = _Settings(
        temperature=np.zeros(rows, np.float32),
        top_p=np.ones(rows, np.float32),
        draws=np.ones((rows, room), np.float32),
        limit=np.zeros(rows, np.int32),
    )
    for row, prompt in enumerate(prompts):
        settings.temperature[row] = prompt.temperature
        settings.top_p[row] = prompt.top_p
        settings.draws[row] = draws(prompt.seed, room)
        settings.limit[row] = prompt.max_tokens
    return settings


def _cut(model: LanguageModel, prompt: Prompt, tokens: list[int]) -> tuple[str, int, bool]:
    """The answer in `tokens`: its text, how many tokens it took, and whether a stop ended it."""
    kept = [token for token in tokens if token not in model.config.eos]
    text = model.tokenizer.decode(kept)
    if not any(stop in text for stop in prompt.stop):
        return text, len(tokens), False
    # The text of the first n tokens grows with n: the first that holds a stop string ended it.
    few, many = 0, len(kept)
    while many - few > 1:
        middle = (few + many) // 2
        text = model.tokenizer.decode(kept[:middle])
        few, many = (few, middle) if any(stop in text for stop in prompt.stop) else (middle, many)
    text = model.tokenizer.decode(kept[:many])
    return text[: min(text.find(stop) for stop in prompt.stop if stop in text)], many, True


def left_padded(
    inputs: Sequence[np.ndarray], rows: int, length: int
) -> tuple[np.ndarray, Int[np.ndarray, "b t"]]:
    """`inputs` against the right edge of [rows, length, ...], and the positions of their tokens.

    Rows that are not needed are all padding.
    """
    padded = np.zeros((rows, length, *inputs[0].shape[1:]), inputs[0].dtype)
    positions = np.full((rows, length), NOWHERE, np.int32)
    for row, one in enumerate(inputs):
        padded[row, length - len(one) :] = one
        positions[row, length - len(one) :] = np.arange(len(one))
    return padded, positions


def put_rows(model: LanguageModel, array: np.ndarray) -> Array:
    """A host array, rows in front, split over the mesh if it can be."""
    if len(array) % batch_shards(model.mesh):
        return put_replicated(array, model.mesh)
    sharding = batch_sharding(model.mesh)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def as_embeddings(params: Params, inputs: Array) -> Float[Array, "b t k"]:
    """Embeddings of token ids; embeddings as they are."""
    return llama.embed(params, inputs) if inputs.ndim == 2 else inputs


@functools.partial(jax.jit, static_argnames=("config", "room", "dtype"))
def _read(
    params: Params,
    inputs: Array,
    positions: Int[Array, "b t"],
    settings: _Settings,
    *,
    config: LlamaConfig,
    room: int,
    dtype: jnp.dtype,
) -> _State:
    """Reads the prompts and writes the first token of every answer."""
    rows = len(positions)
    embeddings = as_embeddings(params, inputs)
    hidden, cache = llama.forward(params, config, embeddings, positions, room=room, dtype=dtype)
    assert cache is not None  # there is room for one
    state = _State(
        cache=cache,
        last=jnp.zeros(rows, jnp.int32),
        position=positions[:, -1],
        tokens=jnp.zeros((rows, room), jnp.int32),
        written=jnp.zeros(rows, jnp.int32),
        done=settings.limit <= 0,
    )
    return _extend(params, config, state, hidden[:, -1:], settings, dtype)


@functools.partial(jax.jit, static_argnames=("config", "dtype"), donate_argnums=1)
def _write(
    params: Params,
    state: _State,
    settings: _Settings,
    *,
    config: LlamaConfig,
    dtype: jnp.dtype,
) -> _State:
    """Writes up to `CHUNK` more tokens of every answer, fewer if all have ended."""

    def going_on(carry: tuple[Array, _State]) -> Array:
        step, state = carry
        return (step < CHUNK) & ~jnp.all(state.done)

    def step(carry: tuple[Array, _State]) -> tuple[Array, _State]:
        count, state = carry
        last = llama.embed(params, state.last[:, None])
        hidden, cache = llama.forward(
            params, config, last, state.position[:, None], state.cache, dtype=dtype
        )
        assert cache is not None  # as there was one before
        state = state._replace(cache=cache)
        return count + 1, _extend(params, config, state, hidden, settings, dtype)

    return jax.lax.while_loop(going_on, step, (jnp.int32(0), state))[1]


def _extend(
    params: Params,
    config: LlamaConfig,
    state: _State,
    hidden: Float[Array, "b 1 k"],
    settings: _Settings,
    dtype: jnp.dtype,
) -> _State:
    """The state with one more token in every row that has not ended."""
    scores = llama.logits(params, hidden, dtype)[:, 0]
    rows = jnp.arange(len(scores))
    going = ~state.done
    column = jnp.minimum(state.written, state.tokens.shape[1] - 1)
    token = sample(scores, settings.temperature, settings.top_p, settings.draws[rows, column])
    kept = jnp.where(going, token, state.tokens[rows, column])
    written = state.written + going
    ended = jnp.isin(token, jnp.asarray(config.eos, jnp.int32)) | (written >= settings.limit)
    return state._replace(
        last=token,
        position=state.position + 1,
        tokens=state.tokens.at[rows, column].set(kept),
        written=written,
        done=state.done | (going & ended),
    )
