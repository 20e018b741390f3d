"""Parameters of a language model from named tensors, checked first, then born on their devices."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mmgen.core.digest import named_leaves
from mmgen.core.mesh import param_shardings
from mmgen.errors import UserError
from mmgen.models.lm.config import LlamaConfig
from mmgen.models.lm.llama import LM_RULES, Params, param_shapes
from mmgen.models.lm.tensors import Index, Tensors

# Parameter -> Hugging Face's name of it, with {} for the layer. Kernels are transposed: theirs are
# [out, in].
_NAMES = {
    "embedding": "model.embed_tokens.weight",
    "norm": "model.norm.weight",
    "head/kernel": "lm_head.weight",
    "layers/attention_norm": "model.layers.{}.input_layernorm.weight",
    "layers/mlp_norm": "model.layers.{}.post_attention_layernorm.weight",
}
_BLOCKS = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}
for _block, _projections in _BLOCKS.items():
    for _projection in _projections:
        _stem = f"model.layers.{{}}.{_block}.{_projection}"
        _NAMES[f"layers/{_projection}/kernel"] = f"{_stem}.weight"
        _NAMES[f"layers/{_projection}/bias"] = f"{_stem}.bias"

_IGNORED = ("rotary_emb.inv_freq", "lm_head.weight")
"""Endings of tensors that a file may hold without the model having them as parameters."""


def load_params(
    tensors: Tensors, config: LlamaConfig, mesh: Mesh, dtype: jnp.dtype = jnp.float32
) -> Params:
    """The parameters, layers stacked, each device reading its own part of them.

    Args:
      tensors: under Hugging Face's names (`model.layers.0.self_attn.q_proj.weight`, ...).
      mesh: where they go, by `LM_RULES`.
      dtype: in which they are kept.

    Raises:
      UserError: tensors are missing, of another shape than `config` says, or more than it has
        parameters for (then it is another model, and its numbers would be wrong).
    """
    shapes = param_shapes(config, dtype)
    names = named_leaves(shapes)
    _check(tensors, {path: leaf.shape for path, leaf in names.items()})
    shardings = named_leaves(param_shardings(shapes, mesh, LM_RULES))
    arrays = [
        jax.make_array_from_callback(
            leaf.shape, shardings[path], functools.partial(_part, tensors, path, leaf)
        )
        for path, leaf in names.items()
    ]
    return jax.tree.unflatten(jax.tree.structure(shapes), arrays)


def _part(tensors: Tensors, path: str, leaf: jax.ShapeDtypeStruct, index: Index) -> np.ndarray:
    """The part `index` of the parameter `path`."""
    if not path.startswith("layers/"):
        return _oriented(tensors, path, _NAMES[path], index).astype(leaf.dtype)
    layers = range(*index[0].indices(leaf.shape[0]))
    parts = [_oriented(tensors, path, _NAMES[path].format(layer), index[1:]) for layer in layers]
    return np.stack([part.astype(leaf.dtype) for part in parts])


def _oriented(tensors: Tensors, path: str, name: str, index: Index) -> np.ndarray:
    if path.endswith("kernel"):
        return tensors.read(name, index[::-1]).T
    return tensors.read(name, index)


def _check(tensors: Tensors, shapes: dict[str, Any]) -> None:
    wanted: dict[str, tuple[int, ...]] = {}
    for path, shape in shapes.items():
        stacked = path.startswith("layers/")
        one = tuple(shape[1:] if stacked else shape)
        one = one[::-1] if path.endswith("kernel") else one
        for layer in range(shape[0] if stacked else 1):
            wanted[_NAMES[path].format(layer)] = one
    missing = [name for name in wanted if name not in tensors.shapes]
    if missing:
        raise UserError(
            f"{tensors.where} lacks the tensor {missing[0]}{_more(missing)}, which its config asks "
            "for; get the files again, or mend the config."
        )
    for name, shape in wanted.items():
        if tensors.shapes[name] != shape:
            raise UserError(
                f"tensor {name} of {tensors.where} has the shape {list(tensors.shapes[name])}, but "
                f"its config asks for {list(shape)}; config and weights are of two models."
            )
    unknown = [
        name for name in tensors.shapes if name not in wanted and not name.endswith(_IGNORED)
    ]
    if unknown:
        raise UserError(
            f"{tensors.where} holds the tensor {unknown[0]}{_more(unknown)}, for which its config "
            "has no place; config and weights are of two models."
        )


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
