"""What a judge is: it is asked about each output and says which attribute and object it shows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mmgen.prompting.cobsat.lists import Cell, Theme
from mmgen.prompting.requests import Answer, Picture, Request

NOTHING = -1
"""No option: the judge abstains, or its reply cannot be read."""


class Subject(NamedTuple):
    """An output to be judged.

    Attributes:
      item: its name.
      theme: whose lists the options come from.
      picture: the output, or None where it is text.
      text: the description, or None where it is a picture.
      target: what it should show, which no judge is told; CLIP's similarity is to it.
      shown: what it shows where that is known, for fake judges.
    """

    item: str
    theme: Theme
    picture: Picture | None = None
    text: str | None = None
    target: Cell | None = None
    shown: Cell | None = None


class Judgement(NamedTuple):
    """What a judge says of one output.

    Attributes:
      attribute, object: positions in the theme's lists, or `NOTHING`.
      unread: replies that are there and say nothing that can be read.
      similarity: CLIP's similarity to the right attribute, object and both; None of other judges.
    """

    attribute: int
    object: int
    unread: int = 0
    similarity: tuple[float, float, float] | None = None


Replies = Mapping[str, Mapping[str, Answer]]


class Judge(NamedTuple):
    """A way to judge.

    Attributes:
      name: "model", "clip", "pixel" or "words".
      stages: names of the questions it is asked, in order.
      requests: `(stage, subjects, seed) -> requests`, items named like the subjects.
      read: `(replies by stage, subjects) -> judgements by item`; subjects that a reply is missing
        of are left out.
    """

    name: str
    stages: tuple[str, ...]
    requests: Callable[[str, Sequence[Subject], int], list[Request]]
    read: Callable[[Replies, Sequence[Subject]], dict[str, Judgement]]


def judge_kind(spec: str) -> str:
    """Which way of judging a `judge=SPEC` means: that of its backend, "model" for any other."""
    name = spec.partition(":")[0]
    return name if name in ("clip", "pixel", "words") else "model"


def make_judge(spec: str, settings: Mapping[str, Any]) -> Judge:
    """The judge that `judge=SPEC` names.

    Args:
      settings: "parser" ("official" or "robust") and "cut" of `model_judge`.
    """
    kind = judge_kind(spec)
    if kind == "clip":
        from mmgen.prompting.judges.clip_judge import clip_judge

        return clip_judge(settings["parser"])
    if kind in ("pixel", "words"):
        from mmgen.prompting.judges.world_judges import world_judge

        return world_judge(kind)
    from mmgen.prompting.judges.model_judge import model_judge

    return model_judge(settings["parser"], settings["cut"])
