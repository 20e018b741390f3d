"""Scores that need no training: how a rebuilt data set is recognised, and what a model must beat.

Everything is in per cent. EM compares strings, CA classes. "seen" is the share of held-out windows
whose target compound is that of a training window.
"""

from collections import Counter
from typing import Any

import numpy as np
from jaxtyping import Int

from mmgen.data.compact.windows import TARGET, ClipTable
from mmgen.report.published import published

Scores = dict[str, float]

PAPER: Scores = {
    f"mrh_{row['task']}_{score}": row[score]
    for row in published("compact")["table2"]
    if row["model"] == "MRH"
    for score in ("em", "ca")
}
"""Most Recent Heuristic on the test split (Table 2)."""

Clips4 = Int[np.ndarray, "n 4"]


def recent(table: ClipTable, clips: Clips4) -> Scores:
    """Most Recent Heuristic: the first noun, and the verb, of the last input clip."""
    last, target = clips[:, TARGET - 1], clips[:, TARGET]
    return {
        "mrh_noun_em": _share(table.noun[last] == table.noun[target]),
        "mrh_noun_ca": _share(table.noun_class[last] == table.noun_class[target]),
        "mrh_verb_em": _share(table.verb[last] == table.verb[target]),
        "mrh_verb_ca": _share(table.verb_class[last] == table.verb_class[target]),
    }


def majority(table: ClipTable, train: Clips4, heldout: Clips4) -> Scores:
    """The most frequent verb (EM) and verb class (CA) among the targets of train."""
    return {
        f"majority_verb_{name}": _share(values[heldout[:, TARGET]] == _mode(values, train))
        for name, values in (("em", table.verb), ("ca", table.verb_class))
    }


def seen(table: ClipTable, train: Clips4, heldout: Clips4) -> Scores:
    """Held-out windows whose target compound is a target of train, by strings and by classes."""
    return {
        f"seen_{name}": _share(np.isin(values[heldout[:, TARGET]], values[train[:, TARGET]]))
        for name, values in (("string", table.pair), ("class", table.class_pair))
    }


def scores(table: ClipTable, train: Clips4, heldout: Clips4) -> Scores:
    """All of them."""
    return recent(table, heldout) | majority(table, train, heldout) | seen(table, train, heldout)


def _mode(values: np.ndarray, train: Clips4):
    # Of equals the first in the data: deterministic, whatever the values are.
    return Counter(values[train[:, TARGET]].tolist()).most_common(1)[0][0]


def _share(good: Any) -> float:
    return round(100 * float(np.mean(good)), 2)
