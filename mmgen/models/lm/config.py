"""What a language model of the Llama family looks like, read from the files it comes with."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from mmgen.errors import UserError
from mmgen.models.lm.rope import frequencies

NO_WINDOW = 1 << 30
"""The window of a layer that looks back without limit."""

# What Hugging Face's classes assume of keys that a config.json leaves out, where the types differ.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048, "vocab_size": 32000, "intermediate_size": 11008},
    "mistral": {
        "max_position_embeddings": 131072,
        "vocab_size": 32000,
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "sliding_window": 4096,
    },
    "qwen2": {
        "max_position_embeddings": 32768,
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_key_value_heads": 32,
        "sliding_window": 4096,
        "max_window_layers": 28,
    },
}
_COMMON = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
}
SUPPORTED = (
    "llama (Llama 2 and 3, Vicuna, SmolLM2, ...), mistral and qwen2 (Qwen2 and Qwen2.5, dense)"
)


@dataclasses.dataclass(frozen=True)
class LlamaConfig:
    """Sizes and constants of a decoder-only transformer of the Llama family.

    Attributes:
      model_type: Hugging Face's name of the family.
      vocab_size: v, rows of the embedding.
      hidden_size: k, width of the residual stream.
      intermediate_size: f, inner width of the feed-forward.
      num_layers, num_heads, num_kv_heads, head_dim: L, h, g (divides h), d.
      max_length: positions the model was made for: prompt and answer together.
      norm_eps: epsilon of the RMS norms.
      angles: rotary frequencies, d/2 of them, scaling included.
      windows: per layer, how many positions a token sees, itself included; `NO_WINDOW` is all.
      tied: the head is the embedding.
      qkv_bias, output_bias, mlp_bias: which projections have a bias.
      bos, eos: token ids with which texts begin (None: none) and answers end.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_length: int
    norm_eps: float
    angles: tuple[float, ...]
    windows: tuple[int, ...]
    tied: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    bos: int | None = None
    eos: tuple[int, ...] = ()

    @property
    def slides(self) -> bool:
        """Whether any layer's view ends before the first position of a longest text."""
        return min(self.windows) < self.max_length


def read_config(folder: pathlib.Path) -> LlamaConfig:
    """The config of a Hugging Face folder, with the ends of `generation_config.json` if there.

    Raises:
      UserError: no `config.json`, or see `from_hugging_face`.
    """
    values = read_json(folder / "config.json")
    config = from_hugging_face(values, str(folder / "config.json"))
    if (folder / "generation_config.json").is_file():
        # Chat models end their turns by tokens that stand only here.
        more = _ids(read_json(folder / "generation_config.json").get("eos_token_id"))
        config = dataclasses.replace(config, eos=tuple(dict.fromkeys((*config.eos, *more))))
    return config


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """A JSON object; UserError if the file is missing or something else."""
    try:
        values = json.loads(path.read_text())
    except OSError:
        raise UserError(
            f"{path} is missing; give a folder as Hugging Face publishes models, or a .gguf file."
        ) from None
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); get the file again.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a JSON object; get the file again.")
    return values


def from_hugging_face(values: Mapping[str, Any], where: str = "config.json") -> LlamaConfig:
    """The config that the keys of a `config.json` (old and new spelling) describe.

    Args:
      values: the keys; what is left out is what Hugging Face's class assumes.
      where: file, for the errors.

    Raises:
      UserError: another type of model, or a variant whose numbers this code would get wrong.
    """
    model_type = values.get("model_type")
    if model_type not in _DEFAULTS:
        raise UserError(
            f"{where} is of model type {model_type!r}; the JAX backend knows {SUPPORTED}; serve "
            "other models and use model=server:URL#NAME, or use model=torch:FOLDER."
        )
    if values.get("quantization_config"):
        raise UserError(
            f"the weights of {where} are quantised for another library (quantization_config); "
            "give the unquantised folder, or a GGUF file."
        )
    given = {key: value for key, value in values.items() if value is not None}
    keys: dict[str, Any] = {**_COMMON, **_DEFAULTS[model_type], **given}
    if keys["hidden_act"] != "silu":
        raise UserError(f"hidden_act of {where} is {keys['hidden_act']!r}; only 'silu' is known.")
    heads = int(keys["num_attention_heads"])
    head_dim = int(keys.get("head_dim") or keys["hidden_size"] // heads)
    scaling = {**(keys.get("rope_parameters") or {}), **(keys.get("rope_scaling") or {})}
    if "partial_rotary_factor" in keys:
        scaling.setdefault("partial_rotary_factor", keys["partial_rotary_factor"])
    theta = float(scaling.get("rope_theta", keys.get("rope_theta", 10000.0)))
    config = LlamaConfig(
        model_type=model_type,
        vocab_size=int(keys["vocab_size"]),
        hidden_size=int(keys["hidden_size"]),
        intermediate_size=int(keys["intermediate_size"]),
        num_layers=int(keys["num_hidden_layers"]),
        num_heads=heads,
        num_kv_heads=int(keys.get("num_key_value_heads", heads)),
        head_dim=head_dim,
        # Vicuna's long variants state the scaled length under a name of their own.
        max_length=int(keys.get("max_sequence_length", keys["max_position_embeddings"])),
        norm_eps=float(keys["rms_norm_eps"]),
        angles=frequencies(head_dim, theta, scaling, where),
        # An explicit null means no window; a key left out, the type's default.
        windows=_windows(keys if "sliding_window" not in values else {**keys, **values}),
        tied=bool(keys.get("tie_word_embeddings", False)),
        qkv_bias=model_type == "qwen2" or bool(keys.get("attention_bias", False)),
        output_bias=model_type == "llama" and bool(keys.get("attention_bias", False)),
        mlp_bias=bool(keys.get("mlp_bias", False)),
        bos=next(iter(_ids(keys.get("bos_token_id"))), None),
        eos=_ids(keys.get("eos_token_id")),
    )
    return checked(config, where)


def checked(config: LlamaConfig, where: str) -> LlamaConfig:
    """The config, or UserError if its sizes contradict each other."""
    if config.num_kv_heads < 1 or config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise UserError(
            f"{where} has {config.num_heads} heads, {config.num_kv_heads} key-value heads and a "
            f"head size of {config.head_dim}, which do not divide; get the file again."
        )
    return config


def _windows(keys: Mapping[str, Any]) -> tuple[int, ...]:
    """Per layer, as Hugging Face's classes decide it."""
    layers = int(keys["num_hidden_layers"])
    window = keys.get("sliding_window")
    if keys["model_type"] == "qwen2" and not keys.get("use_sliding_window", False):
        window = None
    if window is None or keys["model_type"] == "llama":
        return (NO_WINDOW,) * layers
    first = int(keys.get("max_window_layers", 0)) if keys["model_type"] == "qwen2" else 0
    types = keys.get("layer_types") or [
        "sliding_attention" if layer >= first else "full_attention" for layer in range(layers)
    ]
    return tuple(int(window) if kind == "sliding_attention" else NO_WINDOW for kind in types)


def _ids(value: Any) -> tuple[int, ...]:
    """Token ids that may be given as one, as a list, or not at all."""
    if value is None:
        return ()
    return tuple(int(item) for item in value) if isinstance(value, list) else (int(value),)
