"""Figures of the VisCOLL paper from the files of runs; matplotlib is needed for nothing else.

Each function takes the groups of one data set, model and profile and returns a matplotlib figure,
or None where no run offers what it shows.
"""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from etils import epath

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.evaluation.context import read_context
from mmgen.evaluation.scores import KINDS
from mmgen.report import curves
from mmgen.report.aggregate import Group, Run

MAX_TASKS = 50
"""Tasks drawn in the density figure, as in the paper."""

PANELS = 4
"""Tasks or compositions with a panel of their own."""

COLORS = 10
STYLES = ("-", "--", ":")
"""Thirty experiments can be told apart in one panel."""


def stream_density(groups: Sequence[Group]) -> Any | None:
    """Fig. 4: probability of each task over the stream, the largest tasks."""
    run = _shifting_run(groups)
    share = curves.density(run, "tasks")
    if share.shape[1] < 2:
        return None
    largest = np.argsort(-share.sum(axis=1), kind="stable")[:MAX_TASKS]
    figure, axis = axes_of(1)
    position = (np.arange(share.shape[1]) + 0.5) / share.shape[1]
    for task in largest:
        axis[0].plot(position, share[task], linewidth=1)
    axis[0].set_xlabel("position in the stream")
    axis[0].set_ylabel("share of the examples")
    axis[0].set_title(f"{run.summary['dataset']}: {len(largest)} tasks")
    return figure


def compositions(groups: Sequence[Group]) -> Any | None:
    """Fig. 6: seen and novel compositions across methods and memory sizes, by kind of atom."""
    shown = [
        (kind, [g for g in groups if g.summary_of(f"novel/{kind}/log_ppl_pair")]) for kind in KINDS
    ]
    shown = [(kind, found) for kind, found in shown if found]
    if not shown:
        return None
    width = 2 + 0.5 * max(len(found) for _, found in shown)
    figure, axes = axes_of(len(shown), max(width, 5.0), columns=1)
    for axis, (kind, found) in zip(axes, shown, strict=True):
        for offset, part in ((-0.2, "seen"), (0.2, "novel")):
            _bars(axis, found, offset, part, f"{part}/{kind}/log_ppl_pair")
        axis.set_xticks(range(len(found)), [g.label for g in found], rotation=30, ha="right")
        axis.set_ylabel("log-PPL of both atoms")
        axis.set_title(f"noun-{kind}")
        axis.legend()
    return figure


def task_curves(groups: Sequence[Group]) -> Any | None:
    """Fig. 7: loss of the largest tasks over time, the task's share of the stream shaded."""
    found = _curves(_of_one_pass(groups), curves.task_curves)
    if not found:
        return None
    run = _shifting_run(groups)
    names = read_context(run.path)["dataset"]["tasks"]
    share = curves.density(run, "tasks")
    largest = np.argsort(-curves.items_per_task(run), kind="stable")[:PANELS]
    figure, axes = axes_of(len(largest))
    for axis, task in zip(axes, largest, strict=True):
        _draw(axis, found, task)
        _shade(axis, share[task], found[0].examples[-1], "0.6")
        axis.set_title(names[task])
    _legend_below(figure, axes)
    return figure


def old_compositions(groups: Sequence[Group]) -> Any | None:
    """Fig. 8: the adjective's or verb's loss in seen compositions of one noun, over time."""
    found = _curves(_of_one_pass(groups), curves.pair_curves)
    if not found:
        return None
    run = _shifting_run(groups)
    pairs = read_context(run.path)["dataset"]["pairs"]
    items = curves.items_per_pair(run)
    chosen = _pairs_of_one_noun(pairs, items)
    if not chosen:
        return None
    share = curves.density(run, "pairs")
    figure, axes = axes_of(len(chosen))
    for axis, pair in zip(axes, chosen, strict=True):
        _draw(axis, found, pair)
        same_noun = [i for i, other in enumerate(pairs) if other["noun"] == pairs[pair]["noun"]]
        same_atom = [i for i, other in enumerate(pairs) if other["atom"] == pairs[pair]["atom"]]
        end = found[0].examples[-1]
        _shade(axis, share[same_noun].sum(axis=0), end, "0.6")
        _shade(axis, share[same_atom].sum(axis=0), end, "lightblue")
        axis.set_title(f"{pairs[pair]['name']} ({items[pair]} items)")
    _legend_below(figure, axes)
    return figure


def memory_policies(groups: Sequence[Group]) -> Any | None:
    """Fig. 9: log-PPL over time of ER with each way of filling a memory of the same size."""
    replay = [group for group in groups if _is_multimodal_er(group)]
    policies: dict[str, set[str]] = {}
    for group in replay:
        policies.setdefault(group.method.memory, set()).add(_config(group)["memory.policy"])
    compared = [group for group in replay if len(policies[group.method.memory]) > 1]
    found = _curves(compared, curves.mean_curves)
    if not found:
        return None
    figure, axes = axes_of(1)
    _draw(axes[0], found, 0)
    _legend_below(figure, axes)
    return figure


FIGURES: dict[str, Callable[[Sequence[Group]], Any | None]] = {
    "fig4_stream_density": stream_density,
    "fig6_compositions": compositions,
    "fig7_task_curves": task_curves,
    "fig8_old_compositions": old_compositions,
    "fig9_memory_policies": memory_policies,
}


def write_figures(groups: Sequence[Group], out: epath.PathLike, prefix: str) -> list[str]:
    """Draw every figure there are runs for, as PNG and SVG; returns the names of the files."""
    written = []
    for name, draw in FIGURES.items():
        figure = draw(groups)
        if figure is not None:
            written += save_figure(figure, out, f"{prefix}_{name}")
    return written


def save_figure(figure: Any, out: epath.PathLike, name: str) -> list[str]:
    """Write a figure as PNG and SVG, the same bytes each time; returns the names of the files."""
    files = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        data = io.BytesIO()
        figure.savefig(data, format=suffix, metadata=metadata, dpi=120)
        files.append(f"{name}.{suffix}")
        Workdir(out).write_bytes(files[-1], data.getvalue())
    return files


def axes_of(count: int, width: float = 5.0, columns: int = 2) -> tuple[Any, list[Any]]:
    """A figure with `count` axes of `width` inches, so many in a row."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(
            "figures need matplotlib: pip install matplotlib, or give --no-figures"
        ) from error
    # Names of SVG elements are random otherwise, and two equal reports would differ.
    matplotlib.rcParams["svg.hashsalt"] = "mmgen"
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]


def _bars(axis: Any, groups: Sequence[Group], offset: float, label: str, metric: str) -> None:
    """One bar per group with its standard error; a group without the metric has no bar."""
    summaries = [group.summary_of(metric) for group in groups]
    known = [(i, summary) for i, summary in enumerate(summaries) if summary is not None]
    axis.bar(
        [i + offset for i, _ in known],
        [summary.mean for _, summary in known],
        0.4,
        yerr=[0 if math.isnan(summary.se) else summary.se for _, summary in known],
        label=label,
    )


def _config(group: Group) -> dict[str, Any]:
    return group.runs[0].summary["config"]


def _of_one_pass(groups: Sequence[Group]) -> list[Group]:
    """Those that read every example once: of the others no step is a place in the stream."""
    return [group for group in groups if _config(group)["stream.kind"] != "iid_epochs"]


def _is_multimodal_er(group: Group) -> bool:
    config = _config(group)
    return config["algorithm.name"] == "er" and not config["text_only"]


def _curves(
    groups: Sequence[Group], read: Callable[[Group], curves.Curves | None]
) -> list[curves.Curves]:
    return [curve for group in groups if (curve := read(group)) is not None]


def _draw(axis: Any, found: Sequence[curves.Curves], row: int) -> None:
    """One line per experiment, told apart by colour and, beyond ten, by dashes."""
    for i, curve in enumerate(found):
        color, style = f"C{i % COLORS}", STYLES[i // COLORS % len(STYLES)]
        loss, spread = curve.loss[row], np.nan_to_num(curve.spread[row])
        axis.plot(curve.examples, loss, style, color=color, marker=".", label=curve.label)
        axis.fill_between(curve.examples, loss - spread, loss + spread, color=color, alpha=0.15)
    axis.set_xlabel("stream examples")
    axis.set_ylabel("log-PPL")


def _legend_below(figure: Any, axes: Sequence[Any]) -> None:
    """One legend for all axes, which show the same experiments."""
    handles, labels = axes[0].get_legend_handles_labels()
    columns = 2 * min(len(axes), 2)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small")


def _shade(axis: Any, share: np.ndarray, examples: int, color: str) -> None:
    """The share of the stream behind the curves, scaled to half the height of the axis."""
    bottom, top = axis.get_ylim()
    height = share / max(share.max(), 1e-9) * (top - bottom) * 0.5
    position = (np.arange(len(share)) + 0.5) / len(share) * examples
    axis.fill_between(position, bottom, bottom + height, color=color, alpha=0.4, zorder=0)
    axis.set_ylim(bottom, top)


def _shifting_run(groups: Sequence[Group]) -> Run:
    """A run on the shifting stream if there is one: an iid stream has nothing to shade."""
    runs = [run for group in groups for run in group.runs]
    shifting = [run for run in runs if run.summary["config"]["stream.kind"] == "shift"]
    return (shifting or runs)[0]


def _pairs_of_one_noun(pairs: list[dict[str, Any]], items: np.ndarray) -> list[int]:
    """The seen compositions with most items of the noun that has most items in so many."""
    seen = [i for i, pair in enumerate(pairs) if not pair["novel"] and items[i] > 0]
    largest = sorted(seen, key=lambda i: -int(items[i]))
    nouns = sorted({pairs[i]["noun"] for i in seen})
    shown = [[i for i in largest if pairs[i]["noun"] == noun][:PANELS] for noun in nouns]
    return max(shown, key=lambda chosen: int(items[chosen].sum()), default=[])
