"""Kinds of experiments: what reads, describes, runs and scores a config of each."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from mmgen.settings.suggest import check_choice

DEFAULT = "masked_span"


class Kind(NamedTuple):
    """Import paths `package.module:name`, so that a kind costs no import until it is used.

    Attributes:
      operational: the top-level keys that change how a run is executed, not what it computes.
      defaults: `() -> ConfigDict`, the full, unlocked tree of keys.
      run: `(config, workdir, command) -> exit status`.
      describe: `(config) -> str`, what a run would be.
      rescore: `(workdir, from_checkpoint) -> scores`, every metric of a run again; writes
        summary.json and report.md.
    """

    operational: str
    defaults: str
    run: str
    describe: str
    rescore: str


KINDS = {
    # VisCOLL: fill the masked phrase of a caption, from a stream.
    "masked_span": Kind(
        "mmgen.settings.defaults:OPERATIONAL",
        "mmgen.settings.defaults:default_config",
        "mmgen.run:run",
        "mmgen.describe:describe",
        "mmgen.evaluation.rescore:rescore",
    ),
    # CompAct: the next utterance, verb or noun of a video, trained on windows of three clips.
    "compact": Kind(
        "mmgen.settings.compact:OPERATIONAL",
        "mmgen.settings.compact:compact_config",
        "mmgen.compact.run:run",
        "mmgen.compact.describe:describe",
        "mmgen.compact.rescore:rescore",
    ),
    # MACID, CoBSAT and few-shot CompAct: ask a model, judge, score.
    "prompting": Kind(
        "mmgen.settings.prompting:OPERATIONAL",
        "mmgen.settings.prompting:prompting_config",
        "mmgen.prompting.run:run",
        "mmgen.prompting.describe:describe",
        "mmgen.prompting.rescore:rescore",
    ),
    # CoBSAT's fine-tuning: low-rank adapters of a prompted model.
    "finetune": Kind(
        "mmgen.settings.finetune:OPERATIONAL",
        "mmgen.settings.finetune:finetune_config",
        "mmgen.prompting.finetune:run",
        "mmgen.prompting.finetune:describe",
        "mmgen.prompting.finetune:rescore",
    ),
}
"""`config.kind` -> its parts."""


def kind_of(config: Mapping[str, Any]) -> Kind:
    """The kind of a config, or of the identity keys that a workdir records."""
    name = config.get("kind") or DEFAULT
    check_choice("config.kind", name, KINDS)
    return KINDS[name]


def load(path: str) -> Any:
    """What stands at `package.module:name`."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)
