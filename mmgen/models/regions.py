"""The visual half of a batch as the encoders read it."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from mmgen.data.schema import Batch
from mmgen.errors import UserError


class Regions(NamedTuple):
    """Object slots, possibly with the whole image as the first of them.

    Attributes:
      features, boxes: of every slot; zero on padded ones.
      mask: which slots are objects of the image.
    """

    features: Float[Array, "b o d"]
    boxes: Float[Array, "b o 4"]
    mask: Bool[Array, "b o"]


def regions(batch: Batch, whole_image_object: bool) -> Regions:
    """The object slots of a batch.

    Args:
      whole_image_object: put the whole image, its box (0, 0, 1, 1), before the objects of every
        image that has any. The release fills its object list from every valid box, and its box 0
        is the whole image (viscoll reference, 1.4 and 3.1).
    """
    features, boxes, mask = batch["features"], batch["boxes"], batch["object_mask"]
    if not whole_image_object:
        return Regions(features, boxes, mask)
    present = mask.any(-1, keepdims=True)
    # Masked slots hold zeros, as the released arrays do: LXMERT attends them there.
    image = jnp.where(present, batch["image_feature"], 0)[:, None]
    box = jnp.where(present[:, :, None], jnp.array([0, 0, 1, 1], boxes.dtype), 0)
    return Regions(
        jnp.concatenate([image.astype(features.dtype), features], axis=1),
        jnp.concatenate([box, boxes], axis=1),
        jnp.concatenate([present, mask], axis=1),
    )


def check_batch(batch: Batch, feature_dim: int, max_positions: int, special_positions: int) -> None:
    """Compares a batch's shapes with the model's.

    Args:
      special_positions: positions beyond the text's own that the model looks up.

    Raises:
      UserError: features of another width, or more text than positions (a look-up outside the
        table would silently read its last row).
    """
    width = batch["features"].shape[-1]
    if width != feature_dim:
        raise UserError(
            f"The batch's region features have {width} values, but the model was built for "
            f"{feature_dim}; rebuild the data set or set the model's feature_dim."
        )
    needed = batch["tokens"].shape[1] + special_positions
    if needed > max_positions:
        raise UserError(
            f"config.model.max_positions is {max_positions}, but a batch needs {needed}; raise it "
            "or lower config.buckets.text."
        )
