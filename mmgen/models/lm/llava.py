"""LLaVA-1.5: CLIP's vision tower, a projector of two layers, a Llama that reads what comes out.

(Liu et al. 2024, "Improved baselines with visual instruction tuning".) Each image stands in the
text as one token, which becomes as many positions as the tower gives patches. Checked against
transformers by `tests/peers/make_llava_fixture.py`.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from mmgen.core.mesh import put_replicated
from mmgen.errors import UserError
from mmgen.models.layers import contract
from mmgen.models.lm import llama
from mmgen.models.lm.clip import ACTIVATIONS, VisionConfig, vision_config, vision_hidden
from mmgen.models.lm.clip_weights import linear, read_vision, reader
from mmgen.models.lm.config import LlamaConfig, from_hugging_face
from mmgen.models.lm.tensors import Tensors
from mmgen.models.lm.weights import load_params
from mmgen.settings.suggest import check_choice

Params = dict[str, Any]

TEXT = -1
"""The source of a position that is no part of an image."""

_NAMES = (
    (r"^(?:model\.)?language_model\.(?:model\.)?(?=layers|embed_tokens|norm)", "text.model."),
    (r"^(?:language_model\.)?lm_head\.", "text.lm_head."),
    (r"^(?:model\.)?vision_tower\.(?:vision_model\.)?", "vision."),
    (r"^(?:model\.)?multi_modal_projector\.", "projector."),
)
"""Tensor names of transformers 4 and 5, which differ in prefixes alone -> ours."""


@dataclasses.dataclass(frozen=True)
class LlavaConfig:
    """What a LLaVA-1.5 looks like.

    Attributes:
      text, vision: its parts.
      image_token: id of the token that stands for an image.
      feature_layer: hidden state of the tower that is read, see `clip.vision_hidden`.
      drops_class: leave out the class token.
      activation: between the projector's layers.
    """

    text: LlamaConfig
    vision: VisionConfig
    image_token: int
    feature_layer: int = -2
    drops_class: bool = True
    activation: str = "gelu"

    @property
    def image_length(self) -> int:
        """Positions that one image takes."""
        return self.vision.patches + (0 if self.drops_class else 1)


def llava_config(values: Mapping[str, Any], where: str = "config.json") -> LlavaConfig:
    """From the JSON object of a Hugging Face `config.json`; absent keys are LLaVA-1.5-7b's.

    Raises:
      UserError: it is another model, or a variant of LLaVA that this code does not compute.
    """
    if values.get("model_type") != "llava":
        raise UserError(f"{where} is of model type {values.get('model_type')!r}, not 'llava'.")
    if "vision_config" not in values or "text_config" not in values:
        raise UserError(
            f"{where} is in the layout of LLaVA's own code; give the converted folder, as "
            "llava-hf publishes it (its config has a vision_config and a text_config)."
        )
    layer = values.get("vision_feature_layer", -2)
    if not isinstance(layer, int):
        raise UserError(f"vision_feature_layer of {where} is {layer}; only one layer is supported.")
    select = values.get("vision_feature_select_strategy", "default")
    check_choice(f"vision_feature_select_strategy of {where}", select, ("default", "full"))
    activation = values.get("projector_hidden_act", "gelu")
    check_choice(f"projector_hidden_act of {where}", activation, ACTIVATIONS)
    if not values.get("multimodal_projector_bias", True):
        raise UserError(f"{where} has a projector without biases, which is not supported.")
    text = {"model_type": "llama", **values["text_config"]}
    if values.get("tie_word_embeddings"):
        text["tie_word_embeddings"] = True
    large = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
    large |= {"num_attention_heads": 16, "image_size": 336, "patch_size": 14}
    return LlavaConfig(
        text=from_hugging_face(text, f"text_config of {where}"),
        vision=vision_config({**large, **values["vision_config"]}),
        image_token=int(values.get("image_token_index", values.get("image_token_id", 32000))),
        feature_layer=layer,
        drops_class=select == "default",
        activation=activation,
    )


def load_llava(
    tensors: Tensors, config: LlavaConfig, mesh: Mesh, dtype: jnp.dtype = jnp.float32
) -> Params:
    """The parameters `text` (split over the mesh), `vision` and `projector` (replicated).

    Args:
      tensors: under the names of transformers 4 or 5.
      dtype: in which they are kept.

    Raises:
      UserError: tensors are missing or of another shape, or there are some of another model.
    """
    ours = _renamed(tensors)
    read = reader(ours, np.dtype(dtype))
    width, wide = config.text.hidden_size, config.vision.tower.hidden
    tower = {
        "vision": read_vision(read, config.vision, "vision."),
        "projector": {
            "first": linear(read, "projector.linear_1", wide, width),
            "second": linear(read, "projector.linear_2", width, width),
        },
    }
    text = load_params(ours.renamed("text."), config.text, mesh, dtype)
    return {"text": text, **_put(tower, mesh)}


def image_features(
    params: Params,
    config: LlavaConfig,
    pixels: Float[Array, "i height width channels"],
    dtype: jnp.dtype = jnp.float32,
) -> Float[Array, "i n k"]:
    """What the language model reads instead of an image's token: one state per patch."""
    hidden = vision_hidden(params["vision"], config.vision, pixels, config.feature_layer, dtype)
    first, second = params["projector"]["first"], params["projector"]["second"]
    patches = hidden[:, 1:] if config.drops_class else hidden
    inner = contract("bnk,kf->bnf", patches, first["kernel"], dtype) + first["bias"]
    inner = ACTIVATIONS[config.activation](inner)
    return contract("bnk,kf->bnf", inner, second["kernel"], dtype) + second["bias"]


def embed(
    params: Mapping[str, Any],
    ids: Int[Array, "b t"],
    sources: Int[Array, "b t"],
    features: Float[Array, "i n k"],
) -> Float[Array, "b t k"]:
    """Embeddings of texts with images in them.

    Args:
      ids: tokens; at positions of an image they do not count.
      sources: row of `features`, its first two axes taken as one, or `TEXT`.
    """
    text = llama.embed(params["text"], ids).astype(jnp.float32)
    flat = features.reshape(-1, features.shape[-1])
    return jnp.where((sources == TEXT)[:, :, None], text, flat[jnp.maximum(sources, 0)])


def expand(
    ids: Sequence[int], config: LlavaConfig, images: Sequence[int] | None = None
) -> tuple[list[int], list[int]]:
    """Every image token as many times as its image has positions, and the sources of `embed`.

    Args:
      images: number of each of the text's images among the `features`; None counts from 0.
    """
    length = config.image_length
    expanded: list[int] = []
    sources: list[int] = []
    numbers = iter(range(len(ids)) if images is None else images)
    for token in ids:
        if token != config.image_token:
            expanded.append(token)
            sources.append(TEXT)
            continue
        image = next(numbers)
        expanded += [token] * length
        sources += range(image * length, (image + 1) * length)
    return expanded, sources


def _renamed(tensors: Tensors) -> Tensors:
    names: dict[str, str] = {}
    for theirs in tensors.shapes:
        found = next(((p, to) for p, to in _NAMES if re.match(p, theirs)), None)
        if found is None:
            raise UserError(
                f"{tensors.where} holds the tensor {theirs}, which is of no LLaVA-1.5 in the "
                "layout of transformers; give the converted folder, as llava-hf publishes it."
            )
        names[re.sub(found[0], found[1], theirs)] = theirs
    return tensors._replace(
        shapes={ours: tensors.shapes[theirs] for ours, theirs in names.items()},
        read=lambda name, index: tensors.read(names[name], index),
    )


def _put(tree: Any, mesh: Mesh) -> Any:
    if isinstance(tree, dict):
        return {name: _put(part, mesh) for name, part in tree.items()}
    return put_replicated(tree, mesh)
