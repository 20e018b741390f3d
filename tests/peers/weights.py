"""From the named weights of a PyTorch peer to the parameter tree of the mmgen model, in numpy."""

import json
import pathlib
from typing import Any

import numpy as np

Named = dict[str, np.ndarray]
Tree = dict[str, Any]

FIXTURE = pathlib.Path(__file__).parents[1] / "fixtures" / "peers.npz"


def unflatten(layout: str, vector: np.ndarray) -> Named:
    """Cuts a stored vector into the peer's named arrays; see make_fixture.py."""
    shapes = json.loads(str(layout))
    sizes = [int(np.prod(shape)) for _, shape in shapes]
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}


def vlbert_params(named: Named, heads: int) -> Tree:
    """Parameters of `mmgen.models.vlbert.VLBERT`."""
    depth = _depth(named, "layers")
    return {
        "word_embedding": named["word.weight"],
        "position_embedding": named["position.weight"],
        "segment_embedding": named["segment.weight"],
        "end_word": named["end_word.weight"][0],
        "object_word": named["object_word.weight"][0],
        "visual": _dense(named, "visual"),
        "image_norm": _norm(named, "image_norm"),
        "object_norm": _norm(named, "object_norm"),
        "embedding_norm": _norm(named, "embedding_norm"),
        "encoder": {
            "layers": _stack([_layer(named, f"layers.{i}", heads) for i in range(depth - 1)])
        },
        "last_layer": _layer(named, f"layers.{depth - 1}", heads),
        "head": _head(named),
    }


def lxmert_params(named: Named, heads: int, *, dead_parameters: bool) -> Tree:
    """Parameters of `mmgen.models.lxmert.LXMERT`."""
    depth = _depth(named, "cross")
    last = _cross_layer(named, f"cross.{depth - 1}", heads)
    tree = {
        "word_embedding": named["word.weight"],
        "position_embedding": named["position.weight"],
        "segment_embedding": named["segment.weight"],
        "text_norm": _norm(named, "text_norm"),
        "visual": _dense(named, "visual.feature"),
        "visual_norm": _norm(named, "visual.feature_norm"),
        "box": _dense(named, "visual.box"),
        "box_norm": _norm(named, "visual.box_norm"),
        "language": {"layers": _single_modality(named, "language", heads)},
        "vision": {"layers": _single_modality(named, "vision", heads)},
        "cross_layers": _stack(
            [_cross_layer(named, f"cross.{i}", heads) for i in range(depth - 1)]
        ),
        "last_cross_layer": last,
        "head": _head(named),
    }
    if dead_parameters:
        tree |= {"pooler": _dense(named, "pooler"), "relation": _dense(named, "relation")}
    else:
        del last["visual_attention"], last["visual_mlp"]
    return tree


def _depth(named: Named, prefix: str) -> int:
    return 1 + max(int(name.split(".")[1]) for name in named if name.startswith(f"{prefix}."))


def _stack(trees: list[Tree]) -> Tree:
    first = trees[0]
    return {
        name: _stack([tree[name] for tree in trees])
        if isinstance(first[name], dict)
        else np.stack([tree[name] for tree in trees])
        for name in first
    }


def _single_modality(named: Named, prefix: str, heads: int) -> Tree:
    layers = range(_depth(named, prefix))
    return _stack([_layer(named, f"{prefix}.{i}", heads) for i in layers])


def _dense(named: Named, prefix: str) -> Tree:
    return {"kernel": named[f"{prefix}.weight"].T, "bias": named[f"{prefix}.bias"]}


def _norm(named: Named, prefix: str) -> Tree:
    return {"scale": named[f"{prefix}.weight"], "bias": named[f"{prefix}.bias"]}


def _attention(named: Named, prefix: str, heads: int) -> Tree:
    """The three projections side by side, their columns ordered (head, projection, dim)."""
    parts = [_dense(named, f"{prefix}.{name}") for name in ("query", "key", "value")]
    hidden = len(parts[0]["bias"])
    kernel = np.stack([part["kernel"].reshape(hidden, heads, -1) for part in parts], axis=2)
    bias = np.stack([part["bias"].reshape(heads, -1) for part in parts], axis=1)
    return {
        "qkv_kernel": kernel.reshape(hidden, -1),
        "qkv_bias": bias.reshape(-1),
        "out": _dense(named, f"{prefix}.dense"),
        "norm": _norm(named, f"{prefix}.norm"),
    }


def _feed_forward(named: Named, prefix: str) -> Tree:
    return {
        "up": _dense(named, f"{prefix}.up"),
        "down": _dense(named, f"{prefix}.down"),
        "norm": _norm(named, f"{prefix}.norm"),
    }


def _layer(named: Named, prefix: str, heads: int) -> Tree:
    return {
        "attention": _attention(named, f"{prefix}.attention", heads),
        "mlp": _feed_forward(named, f"{prefix}.mlp"),
    }


def _cross_layer(named: Named, prefix: str, heads: int) -> Tree:
    return {
        "cross": _attention(named, f"{prefix}.cross", heads),
        "text_attention": _attention(named, f"{prefix}.text.attention", heads),
        "visual_attention": _attention(named, f"{prefix}.visual.attention", heads),
        "text_mlp": _feed_forward(named, f"{prefix}.text.mlp"),
        "visual_mlp": _feed_forward(named, f"{prefix}.visual.mlp"),
    }


def _head(named: Named) -> Tree:
    return {
        "dense": _dense(named, "head.dense"),
        "norm": _norm(named, "head.norm"),
        "bias": named["head.bias"],
    }
