"""GGUF files (llama.cpp): their tensors under Hugging Face's names, and their config.

Needs the package `gguf`, which dequantises whatever llama.cpp writes.
"""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mmgen.errors import UserError
from mmgen.models.lm.config import NO_WINDOW, LlamaConfig, checked
from mmgen.models.lm.rope import frequencies
from mmgen.models.lm.tensors import Index, Tensors

ARCHITECTURES = ("llama", "qwen2")
"""llama.cpp calls Mistral, Vicuna and SmolLM2 "llama" too."""

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ROPE_FACTORS = "rope_freqs.weight"
"""Divisors of the rotary frequencies, how llama.cpp stores Llama 3.1's scaling."""


class GGUF(NamedTuple):
    """An open file.

    Attributes:
      metadata: `key -> value`, None where the key is absent; lists are read when asked for.
      tensors: all of them, under Hugging Face's names and in Hugging Face's order of dimensions.
      config: what the metadata say of the model.
    """

    metadata: Callable[[str], Any]
    tensors: Tensors
    config: LlamaConfig


def open_gguf(path: pathlib.Path) -> GGUF:
    """Opens a GGUF file of the Llama family.

    Raises:
      UserError: the package `gguf` is missing, the file is damaged or one of several, or it holds
        another kind of model.
    """
    try:
        import gguf
    except ImportError:
        raise UserError(
            f"reading {path} needs the package gguf: run `pip install 'mmgen[lm]'`."
        ) from None
    try:
        reader = gguf.GGUFReader(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; give a .gguf file or a folder.") from None
    except Exception as error:
        # The package raises whatever a damaged header leads it into.
        raise UserError(f"{path} is not a whole GGUF file ({error!r}); get it again.") from None

    def metadata(key: str) -> Any:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    architecture = metadata("general.architecture")
    if architecture not in ARCHITECTURES or metadata(f"{architecture}.expert_count"):
        raise UserError(
            f"{path} holds a model of architecture {architecture!r}; the JAX backend reads "
            f"{' and '.join(ARCHITECTURES)} (dense) from GGUF; serve other models."
        )
    if (metadata("split.count") or 1) > 1:
        raise UserError(f"{path} is one of several parts; join them with llama-gguf-split --merge.")
    by_name = {_hugging_face_name(tensor.name): tensor for tensor in reader.tensors}
    factors = by_name.pop(ROPE_FACTORS, None)
    shapes = {name: tuple(int(n) for n in t.shape[::-1]) for name, t in by_name.items()}
    divisors = None if factors is None else gguf.dequantize(factors.data, factors.tensor_type)
    config = _config(metadata, architecture, shapes, divisors, str(path))

    def read(name: str, index: Index) -> np.ndarray:
        tensor = by_name[name]
        try:
            values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(shapes[name])
        except (NotImplementedError, ValueError) as error:
            raise UserError(
                f"tensor {name} of {path} cannot be dequantised ({error}); give a file of another "
                "quantisation, such as Q8_0."
            ) from None
        heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}.get(name.split(".")[-2])
        if architecture == "llama" and heads is not None:
            values = _halves(values, heads)
        return values[index]

    return GGUF(metadata, Tensors(str(path), (path,), shapes, read), config)


def _hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`; others as they are."""
    stem, _, ending = name.rpartition(".")
    if stem.startswith("blk."):
        _, layer, part = stem.split(".", 2)
        return f"model.layers.{layer}.{_NAMES.get(part, part)}.{ending}"
    return f"{_NAMES.get(stem, stem)}.{ending}"


def _halves(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from llama.cpp's order (rotated pairs adjacent) to paired halves."""
    return values.reshape(heads, -1, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def _config(
    metadata: Callable[[str], Any],
    architecture: str,
    shapes: Mapping[str, tuple[int, ...]],
    divisors: np.ndarray | None,
    where: str,
) -> LlamaConfig:
    def value(key: str, default: Any = None) -> Any:
        found = metadata(f"{architecture}.{key}")
        if found is None and default is None:
            raise UserError(f"{where} lacks the key {architecture}.{key}; get the file again.")
        return default if found is None else found

    layers, heads = int(value("block_count")), int(value("attention.head_count"))
    hidden = int(value("embedding_length"))
    head_dim = int(value("attention.key_length", hidden // heads))
    if int(value("rope.dimension_count", head_dim)) != head_dim:
        raise UserError(f"{where} rotates a part of each head only, which is not known here.")
    scaling = {"rope_type": "default"}
    if value("rope.scaling.type", "none") != "none":
        scaling = {
            "rope_type": value("rope.scaling.type"),
            "factor": value("rope.scaling.factor", 1.0),
        }
    angles = np.array(frequencies(head_dim, float(value("rope.freq_base", 1e4)), scaling, where))
    if divisors is not None:
        angles = angles / divisors
    window = int(value("attention.sliding_window", NO_WINDOW)) or NO_WINDOW
    first = "model.layers.0."
    vocab_size = shapes.get("model.embed_tokens.weight", (0,))[0]
    config = LlamaConfig(
        model_type=architecture,
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=int(value("feed_forward_length")),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=int(value("attention.head_count_kv", heads)),
        head_dim=head_dim,
        max_length=int(value("context_length")),
        norm_eps=float(value("attention.layer_norm_rms_epsilon")),
        angles=tuple(float(angle) for angle in angles),
        windows=(window,) * layers,
        tied="lm_head.weight" not in shapes,
        qkv_bias=f"{first}self_attn.q_proj.bias" in shapes,
        output_bias=f"{first}self_attn.o_proj.bias" in shapes,
        mlp_bias=f"{first}mlp.gate_proj.bias" in shapes,
        bos=metadata("tokenizer.ggml.bos_token_id"),
        eos=_ends(metadata),
    )
    return checked(config, where)


def _ends(metadata: Callable[[str], Any]) -> tuple[int, ...]:
    """Ids that end an answer: of the text, and of a turn where that has one of its own."""
    keys = ("eos_token_id", "eot_token_id")
    found = [metadata(f"tokenizer.ggml.{key}") for key in keys]
    return tuple(dict.fromkeys(int(token) for token in found if token is not None))
