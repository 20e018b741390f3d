"""Figs. 4 and 8 of the paper for a division; matplotlib is needed for nothing else."""

import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mmgen.data.compact.dataset import target_compound
from mmgen.data.compact.samples import Instance

SHOWN = 60
"""Atoms or compounds drawn in Fig. 4."""
BARS = 50
"""Verbs or nouns in a panel of Fig. 8."""
NOUN_PANELS = 2

Splits = Mapping[str, Sequence[Instance]]


def draw_figures(folder: pathlib.Path, splits: Splits, level: str) -> dict[str, str]:
    """Draw what can be drawn.

    Returns:
      File below the data set's folder -> caption; without matplotlib one line that says so.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return {"none": "Left out: pip install 'matplotlib>=3.10' and build again to have them."}
    (folder / "figures").mkdir()
    drawn = {
        "figures/distributions.png": (
            distributions(Figure, splits, level),
            "Atoms and compounds of the targets by split (Fig. 4)",
        ),
        "figures/verbs_and_nouns.png": (
            verbs_and_nouns(Figure, splits),
            "Verbs and nouns of the targets, validation and test on top of train (Fig. 8)",
        ),
    }
    for name, (figure, _) in drawn.items():
        # No version in the file: the same data give the same bytes.
        figure.savefig(folder / name, dpi=100, metadata={"Software": None})
    return {name: caption for name, (_, caption) in drawn.items()}


def distributions(kind: Any, splits: Splits, level: str) -> Any:
    """Fig. 4: share of the most frequent atoms (top) and compounds (bottom) in every split.

    In the order of train's counts, so that compounds that only held-out targets have stand right.
    """
    figure = kind(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(2)
    atoms = {
        name: Counter(
            atom
            for one in part
            for atom in (("verb", one["verb_classes"][-1]), ("noun", one["noun_classes"][-1]))
        )
        for name, part in splits.items()
    }
    compounds = {
        name: Counter(target_compound(one, level) for one in part) for name, part in splits.items()
    }
    titles = "atoms of the targets (class)", f"compounds of the targets ({level})"
    for axis, counts, title in zip(axes, (atoms, compounds), titles, strict=True):
        total = sum(counts.values(), Counter())
        shown = sorted(total, key=lambda key: (-total[key], str(key)))[:SHOWN]
        shown.sort(key=lambda key: (-counts["train"][key], -total[key]))
        for name, count in counts.items():
            shares = [count[key] / count.total() for key in shown]
            axis.plot(shares, label=name, marker=".", linewidth=1)
        axis.set_title(f"{len(shown)} most frequent {title}")
        axis.set_ylabel("share of the split")
        axis.set_xticks([])
    axes[0].legend()
    return figure


def verbs_and_nouns(kind: Any, splits: Splits) -> Any:
    """Fig. 8: verbs (top) and nouns of the targets, held-out counts lighter on top of train."""
    figure = kind(figsize=(14, 10), layout="constrained")
    axes = figure.subplots(1 + NOUN_PANELS)
    panels = [("trgverb", 0)] + [("trgnoun", number) for number in range(NOUN_PANELS)]
    for axis, (field, number) in zip(axes, panels, strict=True):
        train = Counter(one[field] for one in splits["train"])
        heldout = Counter(
            one[field] for name, part in splits.items() if name != "train" for one in part
        )
        names = sorted(train | heldout, key=lambda n: (-train[n] - heldout[n], n))
        names = names[number * BARS : (number + 1) * BARS]
        below = [train[name] for name in names]
        axis.bar(names, below, color="tab:blue", label="train")
        above = [heldout[name] for name in names]
        axis.bar(names, above, bottom=below, color="lightblue", label="validation and test")
        axis.tick_params(axis="x", rotation=90, labelsize=7)
        axis.set_ylabel("targets")
    axes[0].legend()
    return figure
