"""A LLaVA-1.5 opened from its folder: pictures to states, conversations to embeddings."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int
from PIL import Image

from mmgen.errors import UserError
from mmgen.models.lm import llama
from mmgen.models.lm.buckets import bucket
from mmgen.models.lm.config import read_json
from mmgen.models.lm.images import (
    PROCESSOR_FILES,
    ImageRule,
    check_edge,
    preprocess,
    read_image_rule,
)
from mmgen.models.lm.llava import (
    TEXT,
    LlavaConfig,
    image_features,
    llava_config,
    load_llava,
)
from mmgen.models.lm.model import DTYPES, LanguageModel, file_digest
from mmgen.models.lm.tensors import open_safetensors
from mmgen.models.lm.tokenizer import read_tokenizer

IMAGES_AT_ONCE = 8
"""Pictures per dispatch of the tower; the last ones are filled up, so that one program serves."""


class LlavaModel(NamedTuple):
    """What prompting and fine-tuning take.

    Attributes:
      language: the part that reads and writes, with the tokenizer.
      config: of the whole.
      tower: `vision` and `projector`, the part that sees.
      rule: how pictures become pixels.
    """

    language: LanguageModel
    config: LlavaConfig
    tower: dict[str, Any]
    rule: ImageRule


def is_llava(path: str | pathlib.Path) -> bool:
    """Is this the folder of a LLaVA, whether or not it can be opened?"""
    config = pathlib.Path(path) / "config.json"
    return config.is_file() and read_json(config).get("model_type") == "llava"


def open_llava(
    path: str | pathlib.Path, mesh: Mesh, dtype: str = "float32", max_length: int | None = None
) -> LlavaModel:
    """Opens a Hugging Face folder.

    Args: as in `model.open_model`.

    Raises:
      UserError: whatever is wrong with the files, in one sentence.
    """
    folder = pathlib.Path(path)
    if dtype not in DTYPES:
        raise UserError(f"dtype is {dtype!r}; the JAX backend knows {' and '.join(DTYPES)}.")
    config = llava_config(read_json(folder / "config.json"), str(folder / "config.json"))
    rule = read_image_rule(folder)
    check_edge(rule, config.vision.image, folder)
    tokenizer, tensors = read_tokenizer(folder), open_safetensors(folder)
    params = load_llava(tensors, config, mesh, DTYPES[dtype])
    text = config.text
    if max_length is not None:
        text = dataclasses.replace(text, max_length=max_length)
    processor = next(folder / name for name in PROCESSOR_FILES if (folder / name).exists())
    digest = file_digest((folder / "config.json", processor, *tensors.files))
    language = LanguageModel(
        folder.name, digest, text, params.pop("text"), tokenizer, mesh, DTYPES[dtype]
    )
    return LlavaModel(language, config, params, rule)


def see(model: LlavaModel, images: Sequence[Image.Image]) -> Float[np.ndarray, "i n k"]:
    """What the language model reads of each picture."""
    width = model.config.text.hidden_size
    if not images:
        return np.zeros((0, model.config.image_length, width), np.float32)
    parts = []
    for start in range(0, len(images), IMAGES_AT_ONCE):
        some = images[start : start + IMAGES_AT_ONCE]
        pixels = np.stack([preprocess(image, model.rule) for image in some])
        filled = np.pad(pixels, ((0, IMAGES_AT_ONCE - len(some)), (0, 0), (0, 0), (0, 0)))
        seen = _see(model.tower, filled, config=model.config, dtype=model.language.dtype)
        parts.append(np.asarray(seen)[: len(some)])
    return np.concatenate(parts)


def read_interleaved(
    model: LlavaModel,
    ids: Sequence[int],
    sources: Sequence[int],
    features: Float[np.ndarray, "i n k"],
) -> Float[np.ndarray, "t k"]:
    """Embeddings of one text with pictures in it, for `generate.Prompt`.

    Args:
      ids, sources: of `llava.expand`.
    """
    length = bucket(len(ids))
    padded = np.zeros((1, length), np.int32)
    padded[0, : len(ids)] = ids
    table = {"embedding": model.language.params["embedding"]}
    embeddings = np.array(_embed_text(table, padded)[0, : len(ids)], np.float32)
    places = np.asarray(sources)
    flat = features.reshape(-1, features.shape[-1])
    embeddings[places != TEXT] = flat[places[places != TEXT]]
    return embeddings


@functools.partial(jax.jit, static_argnames=("config", "dtype"))
def _see(
    tower: dict[str, Any],
    pixels: Float[Array, "i height width channels"],
    *,
    config: LlavaConfig,
    dtype: jnp.dtype,
) -> Float[Array, "i n k"]:
    return image_features(tower, config, pixels, dtype)


@jax.jit
def _embed_text(table: llama.Params, ids: Int[Array, "b t"]) -> Float[Array, "b t k"]:
    return llama.embed(table, ids).astype(jnp.float32)
