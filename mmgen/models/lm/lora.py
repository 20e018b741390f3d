"""Low-rank adapters (Hu et al. 2022) for the Llama family, in the files of the PEFT library.

An adapter adds `scale * dropout(x) @ a @ b` to projections, scale = alpha / rank. Its parameters
are `{projection: {"a": [L, in, r], "b": [L, r, out]}}`, layers in front as in `llama`.
"""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Array, Key

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.models.dropout import Noise, dropout, noise_from
from mmgen.models.layers import contract
from mmgen.models.lm.config import LlamaConfig, read_json
from mmgen.models.lm.llama import PROJECTIONS, Adapter, Params, param_shapes

Adapters = dict[str, dict[str, Array]]

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"

_BLOCKS = {name: "self_attn" if name in ATTENTION else "mlp" for name in PROJECTIONS}
_KINDS = {"a": "lora_A", "b": "lora_B"}

_UNSUPPORTED = {
    "use_rslora": False,
    "use_dora": False,
    "fan_in_fan_out": False,
    "bias": "none",
    "modules_to_save": None,
    "rank_pattern": {},
    "alpha_pattern": {},
    "layers_to_transform": None,
}
"""Keys of PEFT's configs that change what is computed, and the only values that are known here."""


class LoraConfig(NamedTuple):
    """What is added, and where.

    Attributes:
      rank: r, width of the bottleneck.
      alpha: the sum is multiplied by alpha / rank.
      dropout: rate on the input of the adapter, in training alone.
      targets: names of projections, of `llama.PROJECTIONS`.
    """

    rank: int = 64
    alpha: float = 16.0
    dropout: float = 0.05
    targets: tuple[str, ...] = ATTENTION

    @property
    def scale(self) -> float:
        """What the product is multiplied by."""
        return self.alpha / self.rank


def check_lora(lora: LoraConfig) -> None:
    """Refuses settings that no adapter can have; UserError says which."""
    if lora.rank < 1:
        raise UserError(f"lora.rank is {lora.rank}; it must be at least 1.")
    unknown = [name for name in lora.targets if name not in PROJECTIONS]
    if unknown or not lora.targets:
        raise UserError(
            f"lora.targets is {', '.join(lora.targets) or 'empty'}; give some of "
            f"{', '.join(PROJECTIONS)}."
        )
    if lora.dropout != 0 and not 0.002 <= lora.dropout <= 0.998:
        raise UserError(
            f"lora.dropout is {lora.dropout}; give 0, or a rate from 0.002 to 0.998 (it goes in "
            "steps of 1/256)."
        )


def init(key: Key[Array, ""], config: LlamaConfig, lora: LoraConfig) -> Adapters:
    """Adapters that change nothing yet: `a` uniform in +-1/sqrt(in) as in PEFT, `b` zero."""
    shapes = adapter_shapes(config, lora)
    keys = jax.random.split(key, len(lora.targets))
    return {
        name: {
            "a": _uniform(one, shapes[name]["a"].shape),
            "b": jnp.zeros(shapes[name]["b"].shape),
        }
        for name, one in zip(lora.targets, keys, strict=True)
    }


def adapter_shapes(config: LlamaConfig, lora: LoraConfig) -> dict[str, dict[str, Any]]:
    """The tree of `init` as `ShapeDtypeStruct`s, float32."""
    layers = param_shapes(config)["layers"]

    def pair(name: str) -> dict[str, jax.ShapeDtypeStruct]:
        depth, fan_in, fan_out = layers[name]["kernel"].shape
        shapes = {"a": (depth, fan_in, lora.rank), "b": (depth, lora.rank, fan_out)}
        return {half: jax.ShapeDtypeStruct(s, jnp.float32) for half, s in shapes.items()}

    return {name: pair(name) for name in lora.targets}


def as_adapter(
    adapters: Adapters,
    lora: LoraConfig,
    key: Key[Array, ""] | None = None,
    dtype: jnp.dtype = jnp.float32,
) -> Adapter:
    """What `llama.forward` takes.

    Args:
      key: of the dropout of this pass, a threefry key; None switches it off.
      dtype: of the products' operands.
    """
    depth = len(next(iter(adapters.values()))["a"])
    noise = noise_from(key)

    def sites(place: int) -> Array:
        # From 1 on: see `Noise`. Layer by layer, so that one scan slices them.
        return 1 + jnp.arange(depth, dtype=jnp.uint32) * len(adapters) + place

    leaves = {
        name: {**halves, "site": sites(place)}
        for place, (name, halves) in enumerate(sorted(adapters.items()))
    }

    def update(x: Array, layer: Mapping[str, Array]) -> Array:
        here = None if noise is None else Noise(noise.key, layer["site"])
        kept = dropout(x, lora.dropout, here)
        narrow = contract("btk,kr->btr", kept, layer["a"], dtype)
        return lora.scale * contract("btr,rf->btf", narrow, layer["b"], dtype)

    return Adapter(leaves, update)


def merge(params: Params, adapters: Adapters, lora: LoraConfig) -> Params:
    """The model's parameters with the adapters added to its kernels: the same numbers, no cost."""
    layers = dict(params["layers"])
    for name, halves in adapters.items():
        kernel = layers[name]["kernel"]
        change = lora.scale * jnp.einsum("lkr,lrf->lkf", halves["a"], halves["b"])
        layers[name] = {**layers[name], "kernel": (kernel + change).astype(kernel.dtype)}
    return {**params, "layers": layers}


def save_adapters(
    folder: Workdir, adapters: Adapters, lora: LoraConfig, base: str, prefix: str = "model."
) -> None:
    """Writes the two files that PEFT reads.

    Args:
      adapters: host or device arrays.
      base: name of the model that they belong to.
      prefix: what stands before `layers.0...` in the names of that model's modules.
    """
    tensors = {}
    for name, halves in adapters.items():
        for half, stacked in halves.items():
            for layer, matrix in enumerate(np.asarray(stacked, np.float32)):
                tensors[_tensor(prefix, layer, name, half)] = np.ascontiguousarray(matrix.T)
    folder.write_bytes(WEIGHTS, safetensors.numpy.save(tensors, {"format": "pt"}))
    folder.write_json(
        CONFIG,
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base,
            "r": lora.rank,
            "lora_alpha": lora.alpha,
            "lora_dropout": lora.dropout,
            "target_modules": sorted(lora.targets),
            "inference_mode": True,
            **_UNSUPPORTED,
        },
    )


def load_adapters(folder: pathlib.Path, config: LlamaConfig) -> tuple[Adapters, LoraConfig]:
    """The adapters in a folder of PEFT's or ours, for a model of `config`'s sizes.

    Raises:
      UserError: files are missing or damaged, or of another model, or of a kind not known here.
    """
    lora = _read_lora(folder / CONFIG)
    try:
        tensors = safetensors.numpy.load_file(folder / WEIGHTS)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"{folder / WEIGHTS} cannot be read ({error}); give the folder of trained adapters."
        ) from None
    # The part before the layers' numbers depends on the class that the adapters were trained in.
    found = {name[name.index("layers.") :]: name for name in tensors if "layers." in name}
    adapters: Adapters = {}
    wanted = 0
    for name, halves in adapter_shapes(config, lora).items():
        adapters[name] = {}
        for half, shape in halves.items():
            depth, fan_in, fan_out = shape.shape
            stack = [
                _matrix(tensors, found, _tensor("", layer, name, half), (fan_out, fan_in), folder)
                for layer in range(depth)
            ]
            adapters[name][half] = jnp.asarray(np.stack(stack))
            wanted += depth
    if len(tensors) != wanted:
        raise UserError(
            f"{folder / WEIGHTS} holds {len(tensors)} tensors, but its config and the model's ask "
            f"for {wanted}; the adapters are of another model."
        )
    return adapters, lora


def _read_lora(path: pathlib.Path) -> LoraConfig:
    values = read_json(path)
    if values.get("peft_type") != "LORA":
        raise UserError(f"{path} is of type {values.get('peft_type')!r}; only LORA is known.")
    for key, known in _UNSUPPORTED.items():
        if values.get(key, known) != known and values[key]:
            raise UserError(f"{path} has {key} = {values[key]!r}, which is not supported.")
    targets = values["target_modules"]
    if not isinstance(targets, list):
        raise UserError(f"{path} names its targets by a pattern; list the projections' names.")
    ordered = tuple(sorted(name.rsplit(".", 1)[-1] for name in targets))
    lora = LoraConfig(
        int(values["r"]),
        float(values["lora_alpha"]),
        float(values.get("lora_dropout", 0.0)),
        tuple(dict.fromkeys(ordered)),
    )
    check_lora(lora._replace(dropout=0.0))
    return lora


def _matrix(
    tensors: Mapping[str, np.ndarray],
    found: Mapping[str, str],
    ending: str,
    shape: tuple[int, int],
    folder: pathlib.Path,
) -> np.ndarray:
    ending = ending[ending.index("layers.") :]
    if ending not in found:
        raise UserError(f"{folder / WEIGHTS} lacks {ending}; the adapters are of another model.")
    matrix = tensors[found[ending]]
    if matrix.shape != shape:
        raise UserError(
            f"{found[ending]} of {folder / WEIGHTS} has the shape {list(matrix.shape)}, but the "
            f"model asks for {list(shape)}; the adapters are of another model."
        )
    return matrix.T.astype(np.float32)


def _tensor(prefix: str, layer: int, name: str, half: str) -> str:
    module = f"{prefix}layers.{layer}.{_BLOCKS[name]}.{name}"
    return f"base_model.model.{module}.{_KINDS[half]}.weight"


def _uniform(key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
    bound = shape[1] ** -0.5
    return jax.random.uniform(key, shape, jnp.float32, -bound, bound)
