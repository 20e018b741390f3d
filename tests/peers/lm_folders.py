"""Tiny language models as folders in Hugging Face's layout, the same bits on every machine.

Both sides of the comparison read them: `make_lm_fixtures.py` through transformers, the tests
through mmgen.
"""

import json
import pathlib
import zlib
from typing import Any

import numpy as np
from safetensors.numpy import save_file

LAYERS, HIDDEN, INNER, HEADS, GROUPS, VOCAB = 3, 16, 24, 4, 2, 40
LENGTH = 24

_BASE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    "llama3": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "rope_theta": 500.0,
        "rope_scaling": _LLAMA3,
        "head_dim": 8,
    },
    "linear": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "tie_word_embeddings": True,
        "attention_bias": True,
        "mlp_bias": True,
    },
    "mistral": {
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "sliding_window": 7,
    },
    "qwen2": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "tie_word_embeddings": True,
        "rope_theta": 1e6,
        "use_sliding_window": True,
        "sliding_window": 5,
        "max_window_layers": 1,
    },
}
"""One of each that the code treats differently."""


def config_of(name: str) -> dict[str, Any]:
    """The `config.json` of a model."""
    return {**_BASE, **CONFIGS[name]}


def tensors_of(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Its tensors under Hugging Face's names: uniform numbers that depend on the name alone."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head_dim = config.get("head_dim", hidden // HEADS)
    qkv_bias = config.get("attention_bias", config["model_type"] == "qwen2")
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCAB, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (VOCAB, hidden)
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}"
        shapes[f"{stem}.input_layernorm.weight"] = (hidden,)
        shapes[f"{stem}.post_attention_layernorm.weight"] = (hidden,)
        for part, rows, columns, bias in (
            ("self_attn.q_proj", HEADS * head_dim, hidden, qkv_bias),
            ("self_attn.k_proj", GROUPS * head_dim, hidden, qkv_bias),
            ("self_attn.v_proj", GROUPS * head_dim, hidden, qkv_bias),
            ("self_attn.o_proj", hidden, HEADS * head_dim, config.get("attention_bias", False)),
            ("mlp.gate_proj", inner, hidden, config.get("mlp_bias", False)),
            ("mlp.up_proj", inner, hidden, config.get("mlp_bias", False)),
            ("mlp.down_proj", hidden, inner, config.get("mlp_bias", False)),
        ):
            shapes[f"{stem}.{part}.weight"] = (rows, columns)
            if bias:
                shapes[f"{stem}.{part}.bias"] = (rows,)
    return {name: _numbers(name, shape) for name, shape in shapes.items()}


def write_folder(folder: pathlib.Path, config: dict[str, Any], shards: int = 2) -> pathlib.Path:
    """Writes `config.json` and the weights, in one file or in shards with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = tensors_of(config)
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in sorted(tensors)[shard::shards]}
        save_file(part, folder / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def tokens() -> np.ndarray:
    """Token ids [2, LENGTH] to compare on."""
    return np.random.Generator(np.random.Philox(7)).integers(3, VOCAB, (2, LENGTH))


def _numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    numbers = np.random.Generator(np.random.Philox(zlib.crc32(name.encode()))).random(shape)
    spread = 0.2 if name.endswith("norm.weight") else 0.6
    return ((numbers - 0.5) * spread + ("norm" in name)).astype(np.float32)
