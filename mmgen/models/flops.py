"""Floating-point operations of the models in closed form: matrix products at padded shapes.

Two per multiply-add; elementwise work counts nothing, as in "model FLOPs". The last layer works at
the target positions alone, and no derivative is taken towards region features and boxes; both
follow the models, and a test compares with XLA's own count of an unrolled compile.
"""

import dataclasses
from typing import NamedTuple

from mmgen.models.lxmert import LXMERT
from mmgen.models.vlbert import VLBERT


@dataclasses.dataclass(frozen=True)
class Flops:
    """Operations of one pass over a batch: `train` is forward and backward, no optimizer."""

    forward: int
    train: int

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(self.forward + other.forward, self.train + other.train)

    def __mul__(self, factor: int) -> "Flops":
        return Flops(self.forward * factor, self.train * factor)


class Shape(NamedTuple):
    """Padded sizes of a batch."""

    rows: int
    text: int
    objects: int
    masked: int


def model_flops(model: VLBERT | LXMERT, shape: Shape) -> Flops:
    """Operations of one pass of a batch of `shape` through `model`."""
    objects = shape.objects + model.whole_image_object
    shape = shape._replace(objects=objects)
    one = _vlbert(model, shape) if isinstance(model, VLBERT) else _lxmert(model, shape)
    return one * shape.rows


def _vlbert(model: VLBERT, shape: Shape) -> Flops:
    hidden = model.hidden
    length = shape.text + shape.objects + 1
    # The image is projected once more for the text.
    total = _product(shape.objects + 1, model.feature_dim, hidden, input_gradient=False)
    if model.box_geometry:
        total += _product(shape.objects, 4, hidden, input_gradient=False)
    total += _layer(model, length) * (model.layers - 1)
    total += _attention(hidden, shape.masked, length) + _mlp(model, shape.masked)
    return total + _head(model, shape.masked)


def _lxmert(model: LXMERT, shape: Shape) -> Flops:
    hidden, text, objects = model.hidden, shape.text, shape.objects
    total = _product(objects, model.feature_dim + 4, hidden, input_gradient=False)
    total += _layer(model, text) * model.layers + _layer(model, objects) * model.visual_layers
    to_text = _attention(hidden, text, objects)
    both = to_text + _attention(hidden, objects, text) + _layer(model, text)
    total += (both + _layer(model, objects)) * (model.cross_layers - 1)
    # Its last layer's text half: across, then within the text at the target positions.
    total += to_text + _attention(hidden, shape.masked, text) + _mlp(model, shape.masked)
    return total + _head(model, shape.masked)


def _product(rows: int, inner: int, columns: int, input_gradient: bool = True) -> Flops:
    forward = 2 * rows * inner * columns
    return Flops(forward, forward * (3 if input_gradient else 2))


def _attention(hidden: int, queries: int, keys: int) -> Flops:
    projections = _product(2 * queries + 2 * keys, hidden, hidden)
    return projections + _product(queries, hidden, keys) * 2


def _mlp(model: VLBERT | LXMERT, positions: int) -> Flops:
    return _product(positions, model.hidden, model.mlp) * 2


def _layer(model: VLBERT | LXMERT, positions: int) -> Flops:
    return _attention(model.hidden, positions, positions) + _mlp(model, positions)


def _head(model: VLBERT | LXMERT, positions: int) -> Flops:
    rows = model.hidden + model.vocabulary_rows
    return _product(positions, model.hidden, rows)
