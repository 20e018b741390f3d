"""Floating-point operations of a traced function: its matrix products, at their padded shapes."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import jax


def count_flops(function: Callable[..., Any], *args: Any) -> int:
    """Operations of all matrix products of `function(*args)`, 2 per multiply-add.

    Read off the jaxpr, so it follows the code: every iteration of a scan counts, of a conditional
    the most expensive branch. (XLA's `cost_analysis` counts the body of a loop once.) Elementwise
    work counts nothing, as in "model FLOPs", nor do products that nobody reads, which XLA leaves
    out (a derivative towards the region features, say).

    Args:
      args: arrays or `ShapeDtypeStruct`s; nothing is computed.

    Raises:
      ValueError: a product inside a loop whose length is not known before it runs.
    """
    return _of_jaxpr(jax.make_jaxpr(function)(*args).jaxpr)


def _of_jaxpr(jaxpr: Any) -> int:
    read = {id(variable) for variable in jaxpr.outvars}
    total = 0
    for equation in reversed(jaxpr.eqns):
        if equation.effects or any(id(variable) in read for variable in equation.outvars):
            read |= {id(variable) for variable in equation.invars}
            total += _of_equation(equation)
    return total


def _of_equation(equation: Any) -> int:
    name = equation.primitive.name
    if name == "dot_general":
        return _of_product(equation)
    inner = [_of_jaxpr(jaxpr) for jaxpr in _inner_jaxprs(equation.params.values())]
    if name == "cond":
        return max(inner)
    if name == "while" and any(inner):
        raise ValueError("a loop of unknown length contains matrix products; count its body alone")
    return sum(inner) * (equation.params["length"] if name == "scan" else 1)


def _of_product(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    depth = math.prod(left[axis] for axis in contracted)
    return 2 * depth * math.prod(equation.outvars[0].aval.shape)


def _inner_jaxprs(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _inner_jaxprs(value)
        elif hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr"):
            yield value.jaxpr
