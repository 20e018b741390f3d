"""What held-out windows have in common with training windows besides the target's compound.

Windows overlap and inputs are not part of the divergences, so that a new composition is new only as
a target: most of them stand in the inputs of training windows.
"""

from typing import Any

import numpy as np
from jaxtyping import Int

from mmgen.data.compact.windows import TARGET, ClipTable

Clips4 = Int[np.ndarray, "n 4"]

MEANING = {
    "compounds_in_inputs": "different held-out target compounds that occur in a training input",
    "targets_compound_in_inputs": "held-out windows whose target compound occurs in a training "
    "input",
    "targets_narration_in_inputs": "... whose target narration occurs word by word in a training "
    "input",
    "targets_narration_in_train": "... whose target narration occurs word by word in train",
    "targets_clip_in_inputs": "... whose target clip is itself a training input",
    "windows_overlapping": "... that share a clip with a training window",
    "videos_shared": "... whose video has a training window",
}
"""Rate -> what it is the share of, in per cent."""


def leakage(table: ClipTable, train: Clips4, heldout: Clips4, level: str) -> dict[str, float]:
    """The rates of `MEANING`; compounds are those of `level` ("string" or "class")."""
    compound = table.pair if level == "string" else table.class_pair
    inputs, targets = train[:, :TARGET], heldout[:, TARGET]
    shown, asked = np.unique(compound[inputs]), compound[targets]
    return {
        "compounds_in_inputs": _share(np.isin(np.unique(asked), shown)),
        "targets_compound_in_inputs": _share(np.isin(asked, shown)),
        "targets_narration_in_inputs": _share(
            np.isin(table.narration[targets], np.unique(table.narration[inputs]))
        ),
        "targets_narration_in_train": _share(
            np.isin(table.narration[targets], np.unique(table.narration[train]))
        ),
        "targets_clip_in_inputs": _share(np.isin(targets, inputs)),
        "windows_overlapping": _share(np.isin(heldout, train).any(axis=1)),
        "videos_shared": _share(np.isin(table.video[targets], table.video[train[:, TARGET]])),
    }


def _share(good: Any) -> float:
    return round(100 * float(np.mean(good)), 2)
