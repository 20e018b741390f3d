"""Rotary position embedding: which frequencies a model turns with, and the turning.

Halves are paired (dimension i with i + d/2), as in Hugging Face's files.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mmgen.errors import UserError

SCALINGS = ("default", "linear", "llama3")


def frequencies(
    head_dim: int, theta: float, scaling: Mapping[str, Any], where: str
) -> tuple[float, ...]:
    """The `head_dim // 2` angles per position, in radians, of `config.json`'s rope settings.

    Args:
      theta: base of the geometric series.
      scaling: `rope_scaling` or `rope_parameters`; {} is none. "llama3" slows the low frequencies
        by `factor` and leaves the high ones, with a ramp in between (Llama 3.1); "linear" slows
        all.
      where: file, for the error.

    Raises:
      UserError: a scaling that this code does not know, or one of its settings is missing.
    """
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in SCALINGS or scaling.get("partial_rotary_factor", 1.0) != 1.0:
        raise UserError(
            f"{where} scales its rotary embedding by {dict(scaling)!r}, which the JAX backend does "
            f"not know (it knows {', '.join(SCALINGS)}, on all of a head); serve the model instead."
        )
    plain = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    try:
        if kind == "linear":
            plain = plain / float(scaling["factor"])
        elif kind == "llama3":
            plain = _llama3(plain, scaling)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UserError(
            f"the rope scaling {dict(scaling)!r} of {where} is incomplete ({error!r}); get the "
            "file again from whom published the model."
        ) from None
    return tuple(plain.tolist())


def _llama3(plain: np.ndarray, scaling: Mapping[str, Any]) -> np.ndarray:
    factor, low, high = (
        float(scaling[name]) for name in ("factor", "low_freq_factor", "high_freq_factor")
    )
    turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return kept * plain + (1 - kept) * plain / factor


def rotation(
    positions: Int[Array, "b t"], angles: tuple[float, ...]
) -> tuple[Float[Array, "b t half"], Float[Array, "b t half"]]:
    """Cosine and sine, float32, of each position times each of `frequencies`' angles."""
    turned = positions[..., None].astype(jnp.float32) * jnp.asarray(angles, jnp.float32)
    return jnp.cos(turned), jnp.sin(turned)


def rotate(
    x: Float[Array, "b t h d"], turn: tuple[Float[Array, "b t half"], Float[Array, "b t half"]]
) -> Float[Array, "b t h d"]:
    """Every head of `x` turned by `rotation`'s cosine and sine."""
    cosine, sine = (part[:, :, None, :] for part in turn)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)
