"""Models and batches small enough for a test, shared by the model and task tests."""

import jax
import jax.numpy as jnp
import numpy as np

from mmgen.models.lxmert import make_lxmert
from mmgen.models.vlbert import make_vlbert

ROWS, FEATURES = 40, 12
SIZES = {
    "vocabulary_rows": ROWS,
    "hidden": 16,
    "heads": 2,
    "mlp": 32,
    "max_positions": 24,
    "feature_dim": FEATURES,
}
VLBERT_SIZES = {**SIZES, "layers": 3}
LXMERT_SIZES = {**SIZES, "layers": 2, "visual_layers": 1, "cross_layers": 2}


def tiny_vlbert(**settings):
    return make_vlbert(**{**VLBERT_SIZES, **settings})


def tiny_lxmert(**settings):
    return make_lxmert(**{**LXMERT_SIZES, **settings})


MODELS = {"vlbert": tiny_vlbert, "lxmert": tiny_lxmert}


def tiny_batch(seed=0, rows=4, text=10, objects=4, masked=3):
    """Rows of different lengths, numbers of objects (0 included) and span lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(masked + 3, text + 1, rows)
    counts = rng.integers(0, objects + 1, rows)
    tokens = rng.integers(5, ROWS, (rows, text))
    text_mask = np.arange(text) < lengths[:, None]
    target_mask = np.arange(masked) < rng.integers(1, masked + 1, rows)[:, None]
    positions = np.where(target_mask, 2 + np.arange(masked), 0)
    targets = np.where(target_mask, np.take_along_axis(tokens, positions, 1), 0)
    object_mask = np.arange(objects) < counts[:, None]
    return {
        "ids": np.arange(rows, dtype=np.int32),
        "mask": np.ones(rows, np.bool_),
        "tokens": np.where(text_mask, tokens, 0).astype(np.int32),
        "text_mask": text_mask,
        "span_positions": positions.astype(np.int32),
        "targets": targets.astype(np.int32),
        "target_mask": target_mask,
        "features": _real((rows, objects, FEATURES), object_mask, rng),
        "boxes": _real((rows, objects, 4), object_mask, rng),
        "object_mask": object_mask,
        "image_feature": rng.normal(size=(rows, FEATURES)).astype(np.float32),
    }


def _real(shape, mask, rng):
    return (rng.random(shape) * mask[:, :, None]).astype(np.float32)


def padded(batch, text=0, objects=0, masked=0):
    """The same rows with that much more padding on each axis."""
    widths = {
        "tokens": (text,),
        "text_mask": (text,),
        "span_positions": (masked,),
        "targets": (masked,),
        "target_mask": (masked,),
        "features": (objects, 0),
        "boxes": (objects, 0),
        "object_mask": (objects,),
    }
    return {
        name: np.pad(value, [(0, 0), *((0, width) for width in widths.get(name, ()))])
        if name in widths
        else value
        for name, value in batch.items()
    }


def with_padded_rows(batch, count, seed=1):
    """The same rows and `count` rows of garbage that are marked as padding."""
    rng = np.random.default_rng(seed)
    garbage = {}
    for name, value in batch.items():
        shape = (count, *value.shape[1:])
        if value.dtype == np.bool_:
            garbage[name] = rng.random(shape) < 0.5
        elif value.dtype == np.int32:
            garbage[name] = rng.integers(0, 5, shape).astype(np.int32)
        else:
            garbage[name] = 100 * rng.normal(size=shape).astype(np.float32)
    garbage["mask"][:] = False
    garbage["ids"][:] = -1
    return {name: np.concatenate([batch[name], garbage[name]]) for name in batch}


def randomise(params, seed=0):
    """Parameters of a size at which every part of the model matters, norm gains included."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf + 0.3 * rng.normal(size=leaf.shape), jnp.float32),
        params,
    )


QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiler options: an eighth of the compile time, slow machine code, the same arithmetic."""


def quick_jit(function):
    """`jax.jit` for programs that run a handful of times."""
    return jax.jit(function, compiler_options=QUICK)
