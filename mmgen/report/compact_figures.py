"""Fig. 9 of the CompAct paper: scores on train, validation and test over the epochs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from etils import epath
from jaxtyping import Float

from mmgen.compact.context import read_compact_context
from mmgen.compact.judging import Judge
from mmgen.compact.records import CURVE, read_evaluation
from mmgen.compact.scores import score_records
from mmgen.data.compact.splits import SPLITS
from mmgen.evaluation.predictions import saved_evaluations
from mmgen.report.aggregate import Group, Run
from mmgen.report.compact_cells import Place
from mmgen.report.figures import axes_of, save_figure


class Curve(NamedTuple):
    """A score over training.

    Attributes:
      epochs: at which a split was evaluated.
      score: in per cent, of one run.
    """

    epochs: Float[np.ndarray, " c"]
    score: Float[np.ndarray, " c"]


def curve_of(run: Run, split: str, metric: str) -> Curve | None:
    """A metric at every saved evaluation of a split during training; None with fewer than two."""
    steps = saved_evaluations(run.path).get(split + CURVE, [])
    if len(steps) < 2:
        return None
    context = read_compact_context(run.path)
    judge = Judge(context)
    per_epoch = run.summary["steps"] / run.summary["epochs"]
    scores = []
    for step in steps:
        records = read_evaluation(run.path, split + CURVE, step, context)
        found = score_records(records, context, split, final=False, judge=judge)
        scores.append(100 * found[f"{split}/{metric}"])
    return Curve(np.array(steps) / per_epoch, np.array(scores))


def draw_curves(place: Place, groups: Sequence[Group], out: epath.PathLike) -> list[str]:
    """One axis per model, one line per split: the first seed's run; names of the files."""
    metric, label = ("bleu1_joined", "BLEU") if place.task == "utterance" else ("em", "accuracy")
    shown = []
    for group in groups:
        curves = {split: curve_of(group.runs[0], split, metric) for split in SPLITS}
        if any(curves.values()):
            shown.append((group.label, curves))
    if not shown:
        return []
    figure, axes = axes_of(len(shown))
    for axis, (name, curves) in zip(axes, shown, strict=True):
        for split, curve in curves.items():
            if curve is not None:
                axis.plot(curve.epochs, curve.score, label=split)
        axis.set_title(name)
        axis.set_xlabel("epoch")
        axis.set_ylabel(f"{label}, per cent")
    axes[0].legend(fontsize="small")
    return save_figure(figure, out, f"{place.dataset}_{place.task}_fig9_curves")
