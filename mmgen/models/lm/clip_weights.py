"""CLIP's parameters out of the tensors of a Hugging Face folder."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mmgen.errors import UserError
from mmgen.models.lm.clip import ClipConfig, TowerConfig, VisionConfig
from mmgen.models.lm.tensors import Tensors

Params = dict[str, Any]
Read = Callable[[str, tuple[int, ...]], np.ndarray]
"""`(name, shape) -> array`; raises UserError where a tensor is missing or of another shape."""


def reader(tensors: Tensors, dtype: np.dtype) -> Read:
    """Reads whole tensors as `dtype`; UserError if one is missing or of another shape."""

    def read(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in tensors.shapes:
            raise UserError(
                f"{tensors.where} lacks the tensor {name}, which its config asks for; get the "
                "files again, or mend the config."
            )
        if tensors.shapes[name] != shape:
            raise UserError(
                f"tensor {name} of {tensors.where} has the shape {list(tensors.shapes[name])}, but "
                f"its config asks for {list(shape)}; config and weights are of two models."
            )
        return tensors.read(name, (slice(None),) * len(shape)).astype(dtype)

    return read


def read_clip(read: Read, config: ClipConfig) -> Params:
    """Both towers, their projections and the logit scale."""
    text = read_text(read, config)
    vision = read_vision(read, config.vision, "vision_model.")
    width = config.vision.tower.hidden
    vision["projection"] = _kernel(read, "visual_projection", width, config.projection)
    return {"text": text, "vision": vision, "logit_scale": read("logit_scale", ())}


def read_text(read: Read, config: ClipConfig) -> Params:
    """The text tower with its projection."""
    tower, width = config.text.tower, config.text.tower.hidden
    tables = "text_model.embeddings"
    return {
        "token": _table(read, f"{tables}.token_embedding", config.text.vocabulary, width),
        "position": _table(read, f"{tables}.position_embedding", config.text.positions, width),
        "layers": _layers(read, tower, "text_model.encoder.layers."),
        "final_norm": _norm(read, "text_model.final_layer_norm", width),
        "projection": _kernel(read, "text_projection", width, config.projection),
    }


def read_vision(read: Read, config: VisionConfig, prefix: str) -> Params:
    """The vision tower without projection; `prefix` is what stands before its tensors' names."""
    width, patch, channels = config.tower.hidden, config.patch, config.channels
    embeddings = f"{prefix}embeddings."
    squares = read(f"{embeddings}patch_embedding.weight", (width, channels, patch, patch))
    positions = config.patches + 1
    return {
        "class_embedding": read(f"{embeddings}class_embedding", (width,)),
        # To the order in which `to_patches` cuts: row, column, channel.
        "patch": {"kernel": np.ascontiguousarray(squares.transpose(2, 3, 1, 0)).reshape(-1, width)},
        "position": _table(read, f"{embeddings}position_embedding", positions, width),
        # The typing error is the released checkpoints' own.
        "pre_norm": _norm(read, f"{prefix}pre_layrnorm", width),
        "layers": _layers(read, config.tower, f"{prefix}encoder.layers."),
        "post_norm": _norm(read, f"{prefix}post_layernorm", width),
    }


def _layers(read: Read, config: TowerConfig, prefix: str) -> Params:
    """All layers, each array stacked along a new leading axis."""
    width, mlp = config.hidden, config.mlp

    def layer(index: int) -> Params:
        here = f"{prefix}{index}."
        return {
            "norm1": _norm(read, f"{here}layer_norm1", width),
            "query": linear(read, f"{here}self_attn.q_proj", width, width),
            "key": linear(read, f"{here}self_attn.k_proj", width, width),
            "value": linear(read, f"{here}self_attn.v_proj", width, width),
            "out": linear(read, f"{here}self_attn.out_proj", width, width),
            "norm2": _norm(read, f"{here}layer_norm2", width),
            "up": linear(read, f"{here}mlp.fc1", width, mlp),
            "down": linear(read, f"{here}mlp.fc2", mlp, width),
        }

    layers = [layer(index) for index in range(config.layers)]
    return {
        part: {name: np.stack([one[part][name] for one in layers]) for name in layers[0][part]}
        for part in layers[0]
    }


def _norm(read: Read, name: str, width: int) -> Params:
    return {"scale": read(f"{name}.weight", (width,)), "bias": read(f"{name}.bias", (width,))}


def linear(read: Read, name: str, fan_in: int, fan_out: int) -> Params:
    """A dense layer of the tensors `name`.weight and `name`.bias."""
    return _kernel(read, name, fan_in, fan_out) | {"bias": read(f"{name}.bias", (fan_out,))}


def _kernel(read: Read, name: str, fan_in: int, fan_out: int) -> Params:
    # torch multiplies from the right by the transpose.
    return {"kernel": np.ascontiguousarray(read(f"{name}.weight", (fan_out, fan_in)).T)}


def _table(read: Read, name: str, rows: int, width: int) -> Params:
    return {"embedding": read(f"{name}.weight", (rows, width))}
