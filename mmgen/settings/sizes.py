"""Named sizes of the models, without the configuration library."""

from typing import Any

_RELEASED = {"dropout": 0.1, "init_std": 0.02}
_SMOKE = {"layers": 2, "hidden": 32, "heads": 2, "mlp": 64, **_RELEASED}
# BERT's .02 is for a width of 768: at 128 it is .05. With .02 and dropout, which short passes over
# new data have no use for, one pass over scene_world ends .05 higher.
_SMALL = {"layers": 2, "hidden": 128, "heads": 4, "mlp": 512, "dropout": 0.0, "init_std": 0.05}
_PAPER = {"layers": 6, "hidden": 384, "heads": 6, "mlp": 1536, **_RELEASED}
_CROSSED = {"visual_layers": 1, "cross_layers": 2}

SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "vlbert": {"smoke": _SMOKE, "small": _SMALL, "paper": _PAPER},
    "lxmert": {
        "smoke": {**_SMOKE, **_CROSSED},
        "small": {**_SMALL, **_CROSSED},
        # The paper says 6 layers; its own parameter total is that of 9 + 5 + 5, in both profiles.
        "paper": {**_PAPER, "layers": 9, "visual_layers": 5, "cross_layers": 5},
    },
}
"""`config.model.size` of each model: keys of `config.model` that it sets where none is given."""
