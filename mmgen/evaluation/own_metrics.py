"""Metrics of the user's own, named by import path in `config.metrics`."""

from collections.abc import Callable, Mapping
from typing import Any

from mmgen.evaluation.predictions import PredictionTable
from mmgen.settings.plug_ins import plug_in

Measure = Callable[[PredictionTable, Mapping[str, Any]], Mapping[str, float]]
"""`(predictions of a split, evals/context.json) -> {name: value}`; NaN is left out."""


def own_metrics(paths: str) -> list[Measure]:
    """The functions at import paths separated by commas; none for "".

    Raises:
      UserError: one cannot be imported.
    """
    return [plug_in("config.metrics", path.strip()) for path in paths.split(",") if path.strip()]
