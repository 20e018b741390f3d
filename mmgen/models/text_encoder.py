"""BERT and RoBERTa as pure functions over arrays, from a Hugging Face folder; no training.

`mmgen.models.bert` is what is trained here: one fused projection, dropout, one epsilon of its
norms. This runs released weights of either family, whose epsilons and positions differ.
"""

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import tokenizers
from jaxtyping import Array, Bool, Float, Int

from mmgen.errors import UserError
from mmgen.models.layers import contract, masked_softmax
from mmgen.models.lm.clip import ACTIVATIONS, TowerConfig, layer_norm
from mmgen.models.lm.clip_weights import Read, linear, reader
from mmgen.models.lm.config import read_json
from mmgen.models.lm.tensors import Tensors, open_safetensors
from mmgen.settings.suggest import check_choice

Params = Mapping[str, Any]

FAMILIES = ("bert", "roberta")

WORDS = "embeddings.word_embeddings.weight"
"""Ending of the tensor by which the others' prefix ("", "bert.", "roberta.") is found."""


class EncoderConfig(NamedTuple):
    """What an encoder looks like.

    Attributes:
      family: one of `FAMILIES`.
      tower: its layers, norms after each block.
      vocabulary, positions, types: rows of the tables.
      first_position: row of the first token: RoBERTa counts from the row after its padding's.
      pad: id that fills a batch up.
    """

    family: str
    tower: TowerConfig
    vocabulary: int
    positions: int
    types: int
    first_position: int
    pad: int

    @property
    def longest(self) -> int:
        """Tokens of the longest text, specials included."""
        return self.positions - self.first_position


def encoder_config(config: Mapping[str, Any], where: str) -> EncoderConfig:
    """From the JSON object of a `config.json`; `where` is named in errors.

    Raises:
      UserError: another family, activation or kind of positions, or a missing size.
    """
    family = config.get("model_type", "")
    if family not in FAMILIES:
        raise UserError(
            f'{where} is a model of type "{family}"; give the folder of a {" or ".join(FAMILIES)}.'
        )
    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise UserError(f'{where} has positions of type "{kind}", of which only absolute ones run.')
    activation = config.get("hidden_act", "gelu")
    check_choice("hidden_act", activation, ACTIVATIONS)
    try:
        tower = TowerConfig(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            heads=config["num_attention_heads"],
            mlp=config["intermediate_size"],
            activation=activation,
            eps=config.get("layer_norm_eps", 1e-12),
        )
        sizes = config["vocab_size"], config["max_position_embeddings"]
    except KeyError as error:
        raise UserError(f"{where} lacks the key {error}; get the file again.") from None
    pad = config.get("pad_token_id", 0 if family == "bert" else 1)
    first = 0 if family == "bert" else pad + 1
    return EncoderConfig(family, tower, *sizes, config.get("type_vocab_size", 1), first, pad)


def hidden_states(
    params: Params,
    config: EncoderConfig,
    tokens: Int[Array, "b t"],
    mask: Bool[Array, "b t"],
) -> Float[Array, "b t k"]:
    """Output of the last of the layers that `params` holds, float32; padding stands at the end."""
    tower, length = config.tower, tokens.shape[1]
    tables = params["tables"]
    places = tables["position"][config.first_position : config.first_position + length]
    x = tables["word"][tokens] + places + tables["type"][0]
    x = layer_norm(x, params["norm"], tower.eps)

    def body(x: Array, layer: Params) -> tuple[Array, None]:
        x = layer_norm(x + _attend(layer, tower, x, mask), layer["attention_norm"], tower.eps)
        wide = ACTIVATIONS[tower.activation](_dense(layer["up"], x))
        return layer_norm(x + _dense(layer["down"], wide), layer["mlp_norm"], tower.eps), None

    return jax.lax.scan(body, x, params["layers"])[0]


def _attend(layer: Params, tower: TowerConfig, x: Array, mask: Array) -> Array:
    heads = (*x.shape[:2], tower.heads, -1)
    query, keys, values = (_dense(layer[n], x).reshape(heads) for n in ("query", "key", "value"))
    scores = contract("bqhd,bshd->bhqs", query, keys, x.dtype) * query.shape[-1] ** -0.5
    mixed = contract("bhqs,bshd->bqhd", masked_softmax(scores, mask), values, x.dtype)
    return _dense(layer["out"], mixed.reshape(x.shape))


def _dense(params: Params, x: Array) -> Array:
    return contract("bnk,kf->bnf", x, params["kernel"], x.dtype) + params["bias"]


def read_encoder(tensors: Tensors, config: EncoderConfig, layers: int) -> Params:
    """Tables and the first `layers` layers, stacked, float32.

    Raises:
      UserError: a tensor is missing or of another shape than `config` says.
    """
    prefixes = [name.removesuffix(WORDS) for name in tensors.shapes if name.endswith(WORDS)]
    if len(prefixes) != 1:
        raise UserError(
            f"{tensors.where} holds no single encoder: {len(prefixes)} tables of words."
        )
    read = reader(tensors.renamed(prefixes[0]), np.dtype(np.float32))
    width = config.tower.hidden
    norm = functools.partial(_norm, read, tensors.shapes, prefixes[0], width=width)
    rows = {"word": config.vocabulary, "position": config.positions, "token_type": config.types}
    tables = {
        name.removeprefix("token_"): read(f"embeddings.{name}_embeddings.weight", (count, width))
        for name, count in rows.items()
    }
    stacked = [_layer(read, norm, config.tower, index) for index in range(layers)]
    return {
        "tables": tables,
        "norm": norm("embeddings.LayerNorm"),
        "layers": jax.tree.map(lambda *leaves: np.stack(leaves), *stacked),
    }


def _layer(read: Read, norm: Any, tower: TowerConfig, index: int) -> Params:
    here, width = f"encoder.layer.{index}", tower.hidden
    return {
        "query": linear(read, f"{here}.attention.self.query", width, width),
        "key": linear(read, f"{here}.attention.self.key", width, width),
        "value": linear(read, f"{here}.attention.self.value", width, width),
        "out": linear(read, f"{here}.attention.output.dense", width, width),
        "attention_norm": norm(f"{here}.attention.output.LayerNorm"),
        "up": linear(read, f"{here}.intermediate.dense", width, tower.mlp),
        "down": linear(read, f"{here}.output.dense", tower.mlp, width),
        "mlp_norm": norm(f"{here}.output.LayerNorm"),
    }


def _norm(
    read: Read, shapes: Mapping[str, Any], prefix: str, name: str, *, width: int
) -> dict[str, np.ndarray]:
    # The first released checkpoints still have TensorFlow's names.
    old = f"{prefix}{name}.gamma" in shapes
    scale, bias = ("gamma", "beta") if old else ("weight", "bias")
    return {"scale": read(f"{name}.{scale}", (width,)), "bias": read(f"{name}.{bias}", (width,))}


class TextEncoder(NamedTuple):
    """An encoder with its tokenizer.

    Attributes:
      folder: where it comes from.
      config: its sizes.
      params: its first layers.
      tokenizer: the folder's.
    """

    folder: pathlib.Path
    config: EncoderConfig
    params: Params
    tokenizer: tokenizers.Tokenizer

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of every text with the specials around it; one that is too long is cut."""
        # RoBERTa has other ids for the first word of a text than for the same word inside one.
        lead = " " if self.config.family == "roberta" else ""
        stripped = [text.strip() for text in texts]
        found = self.tokenizer.encode_batch([lead + text if text else "" for text in stripped])
        return [one.ids for one in found]


def open_encoder(path: str | pathlib.Path, layers: int) -> TextEncoder:
    """The first `layers` layers of the encoder in a Hugging Face folder.

    Raises:
      UserError: it is no encoder, has fewer layers, or files are missing or damaged.
    """
    folder = pathlib.Path(path).expanduser()
    config = encoder_config(read_json(folder / "config.json"), str(folder / "config.json"))
    if not 1 <= layers <= config.tower.layers:
        raise UserError(
            f"{folder} has {config.tower.layers} layers, so layer {layers} is none of them."
        )
    params = read_encoder(open_safetensors(folder), config, layers)
    return TextEncoder(folder, config, jax.device_put(params), _tokenizer(folder, config))


def _tokenizer(folder: pathlib.Path, config: EncoderConfig) -> tokenizers.Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"{path} is missing; get the model's tokenizer files too.")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower class
        raise UserError(f"{path} is no tokenizer ({error}); get it again.") from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(config.longest)
    if tokenizer.get_vocab_size() > config.vocabulary:
        raise UserError(
            f"{path} has {tokenizer.get_vocab_size():,} tokens, but the model only "
            f"{config.vocabulary:,}; they are of two models."
        )
    return tokenizer
