"""Figures of the CoBSAT paper: 4 and 8 (shots), 6 (alignment), 9 (object, attribute), 7 (CLIP)."""

from collections.abc import Sequence
from typing import Any

from mmgen.core.workdir import Workdir
from mmgen.report.aggregate import Group
from mmgen.report.cobsat_cells import TASK_NAMES, Key, accuracies
from mmgen.report.cobsat_judges import judge_pairs, task_means
from mmgen.report.figures import axes_of, save_figure

HALVES = {"object inference": TASK_NAMES[:5], "attribute inference": TASK_NAMES[5:]}

MARKERS = "osv^D"
"""One for each theme."""


def shots_figure(groups: Sequence[Group], output: str, prompt: str) -> Any | None:
    """Fig. 4 (default) or 8 (misleading): accuracy over demonstrations, a line per task."""
    found = {
        key: tasks
        for key, tasks in accuracies(groups).items()
        if (key.output, key.prompt, key.training) == (output, prompt, "")
    }
    models = sorted({(key.source, key.model) for key in found})
    if not models:
        return None
    figure, axes = axes_of(2 * len(models))
    panels = [(model, half) for model in models for half in HALVES]
    for axis, ((source, model), half) in zip(axes, panels, strict=True):
        here = {
            key.shots: v for key, v in found.items() if (key.source, key.model) == (source, model)
        }
        for task, marker in zip(HALVES[half], MARKERS, strict=True):
            points = [(shots, here[shots][task]) for shots in sorted(here) if task in here[shots]]
            if points:
                axis.plot(*zip(*points, strict=True), marker=marker, label=task)
        axis.set_ylim(0, 1)
        axis.set_xlabel("demonstrations")
        axis.set_ylabel("accuracy")
        axis.set_title(f"{model}, {half} ({source})", fontsize="small")
    axes[0].legend(fontsize="x-small")
    return figure


def scatter_figure(
    groups: Sequence[Group], output: str, across: str, up: str, labels: tuple[str, str]
) -> Any | None:
    """Two metrics of default prompts against each other, a point per model and task.

    Args:
      across, up: names of the metrics.
      labels: of the axes.
    """
    wanted = [g for g in groups if (g.method.output, g.method.prompt) == (output, "default")]
    left, right = accuracies(wanted, across), accuracies(wanted, up)
    if not left:
        return None
    figure, axes = axes_of(1)
    for key in sorted(left):
        points = [(left[key][task], right[key][task]) for task in left[key] if task in right[key]]
        axes[0].scatter(*zip(*points, strict=True), label=_name(key), s=16)
    axes[0].plot([0, 1], [0, 1], color="0.7", linewidth=1, zorder=0)
    axes[0].set_xlabel(labels[0])
    axes[0].set_ylabel(labels[1])
    axes[0].legend(fontsize="x-small")
    return figure


def judges_figure(groups: Sequence[Group]) -> Any | None:
    """Fig. 7: accuracy by one judge against that by another, and CLIP's similarity, by task."""
    pairs = list(judge_pairs(groups))
    if not pairs:
        return None
    figure, axes = axes_of(2)
    for first, second in pairs:
        name = f"{first.method.judge}, {second.method.judge}"
        one, other = first.runs[0], second.runs[0]
        _by_task(axes[0], task_means(one, "joint"), task_means(other, "joint"), name)
        for accuracy, similarity in ((one, other), (other, one)):
            near = task_means(similarity, "similarity")
            if near:
                _by_task(axes[1], task_means(accuracy, "joint"), near, name)
    axes[0].set_ylabel("accuracy by the second judge")
    axes[1].set_ylabel("CLIP similarity")
    for axis in axes:
        axis.set_xlabel("accuracy by the first judge")
    axes[0].legend(fontsize="x-small")
    return figure


def write_figures(groups: Sequence[Group], folder: Workdir) -> list[str]:
    """Draw what there are runs for; Markdown that shows it."""
    figures = {}
    for output in ("image", "text"):
        figures[f"fig4_shots_{output}"] = shots_figure(groups, output, "default")
        figures[f"fig8_misleading_{output}"] = shots_figure(groups, output, "misleading")
        figures[f"fig6_alignment_{output}"] = scatter_figure(
            groups, output, "textual", "visual", ("textual alignment", "visual alignment")
        )
        figures[f"fig9_kinds_{output}"] = scatter_figure(
            groups, output, "object", "attribute", ("object accuracy", "attribute accuracy")
        )
    figures["fig7_judges"] = judges_figure(groups)
    parts = []
    for name, figure in figures.items():
        if figure is None:
            continue
        written = save_figure(figure, folder.file("figures"), f"cobsat_{name}")
        pictures = [f"![{file}](figures/{file})" for file in written if file.endswith(".png")]
        parts.append("\n".join([f"### {name.replace('_', ' ')}", "", *pictures, ""]))
    return parts


def _by_task(axis: Any, across: dict[str, float], up: dict[str, float], label: str) -> None:
    tasks = [task for task in across if task in up]
    axis.scatter([across[t] for t in tasks], [up[t] for t in tasks], label=label, s=16)


def _name(key: Key) -> str:
    return f"{key.model}, {key.shots}-shot ({key.source})"
