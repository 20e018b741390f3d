"""CLIP ready to use: pictures and texts in, embeddings out."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from jaxtyping import Array, Float, Int
from PIL import Image

from mmgen.errors import UserError
from mmgen.models.lm.clip import ClipConfig, clip_config, image_embedding, text_embedding, unit
from mmgen.models.lm.clip_weights import read_clip, reader
from mmgen.models.lm.config import read_json
from mmgen.models.lm.images import ImageRule, check_edge, preprocess, read_image_rule
from mmgen.models.lm.tensors import open_safetensors

Encode = Callable[[Sequence[str]], list[list[int]]]
"""Texts -> token ids with both specials, cut to the model's length."""


class ClipEmbedder:
    """Both towers with the folder's tokenizer and image processor.

    Attributes:
      scale: what a cosine is multiplied by to give CLIP's logit; 100 in the released models.
    """

    def __init__(
        self,
        config: ClipConfig,
        params: dict[str, Any],
        rule: ImageRule,
        encode: Encode,
        batch_size: int = 32,
    ):
        """Put the parameters on the device.

        Args:
          batch_size: inputs per dispatch; the last batch is filled up, so that one program serves.
        """
        self.config = config
        self.scale = float(np.exp(params["logit_scale"]))
        self._params = jax.device_put(params)
        self._rule, self._encode, self._batch_size = rule, encode, batch_size
        self._images = jax.jit(lambda params, x: unit(image_embedding(params, config, x)))
        self._texts = jax.jit(lambda params, x: unit(text_embedding(params, config, x)))

    def images(self, images: Sequence[Image.Image]) -> Float[np.ndarray, "n d"]:
        """Embeddings of length 1; the cosine of two is their product."""
        if not images:
            return np.zeros((0, self.config.projection), np.float32)
        pixels = np.stack([preprocess(image, self._rule) for image in images])
        return self._batched(self._images, pixels)

    def texts(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Embeddings of length 1; a text too long for the model is cut, as CLIP's users do."""
        if not texts:
            return np.zeros((0, self.config.projection), np.float32)
        return self._batched(self._texts, self._tokens(texts))

    def _tokens(self, texts: Sequence[str]) -> Int[np.ndarray, "n t"]:
        tokens = np.full((len(texts), self.config.text.positions), 0, np.int32)
        for row, ids in zip(tokens, self._encode(texts), strict=True):
            row[: len(ids)] = ids
        return tokens

    def _batched(
        self, embed: Callable[[Any, Array], Array], inputs: np.ndarray
    ) -> Float[np.ndarray, "n d"]:
        parts = []
        for start in range(0, len(inputs), self._batch_size):
            part = inputs[start : start + self._batch_size]
            missing = self._batch_size - len(part)
            filled = np.pad(part, ((0, missing), *((0, 0),) * (inputs.ndim - 1)))
            embedded = embed(self._params, jnp.asarray(filled))
            parts.append(np.asarray(embedded)[: len(part)])
        return np.concatenate(parts)


def open_clip(path: str | pathlib.Path, batch_size: int = 32) -> ClipEmbedder:
    """The CLIP model in a Hugging Face folder.

    Raises:
      UserError: it is no CLIP model, or files are missing, damaged or contradict each other.
    """
    folder = pathlib.Path(path).expanduser()
    config = clip_config(read_json(folder / "config.json"))
    params = read_clip(reader(open_safetensors(folder), np.dtype(np.float32)), config)
    rule = read_image_rule(folder)
    check_edge(rule, config.vision.image, folder)
    return ClipEmbedder(config, params, rule, _tokenizer(folder, config), batch_size)


def _tokenizer(folder: pathlib.Path, config: ClipConfig) -> Encode:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"{path} is missing; get the model's tokenizer files too.")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower class
        raise UserError(f"{path} is no tokenizer ({error}); get it again.") from None
    tokenizer.enable_truncation(config.text.positions)
    tokenizer.no_padding()
    return lambda texts: [one.ids for one in tokenizer.encode_batch(list(texts))]
