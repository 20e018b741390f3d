"""A multimodal model as judge, asked with CoBSAT's own two questions (section 4.2).

The strings are those of the released code, with which the published numbers were made: two spaces
before "(1)", and "based on the description" for texts, where the paper prints one space and says
that the image is replaced by its caption.
"""

import functools
from collections.abc import Sequence

from mmgen.prompting.cobsat.lists import Theme
from mmgen.prompting.judges.base import Judge, Judgement, Replies, Subject
from mmgen.prompting.judges.parsing import parse
from mmgen.prompting.requests import Decoding, Part, Request, Text, Turn, sample_seed
from mmgen.settings.suggest import check_choice

STAGES = ("judge_object", "judge_attribute")

CUTS = ("none", "official", "description")
"""What happens to questions beyond `LONGEST`: nothing; they lose their end, as released; the
description loses its end, never the question."""

LONGEST = 2047
"""Characters of a question in the release."""

MAX_TOKENS = 16


def model_judge(parser: str, cut: str = "none") -> Judge:
    """The judge; `parser` is "official" or "robust", `cut` one of `CUTS`."""
    check_choice("config.cobsat.judge_cut", cut, CUTS)
    return Judge(
        "model", STAGES, functools.partial(_requests, cut), functools.partial(_read, parser)
    )


def question(theme: Theme, kind: str, description: str | None = None) -> str:
    """The question for "attribute" or "object", about an image or about a description."""
    options = " ".join(f"({place}){word}" for place, word in enumerate(theme.shown(kind), start=1))
    what = "main object" if kind == "object" else f"{theme.attribute} (of the main object)"
    # The object is asked for "in this image" in both cases, the attribute only of an image.
    if description is None:
        head = f"What is the {what} in this image?"
    else:
        where = "this" if kind == "object" else "the"
        head = (
            f"Image caption: {description}. What is the {what} in {where} image based on the "
            "description?"
        )
    return (
        f"{head} Answer from the following options:  {options}. Answer the number only and do not "
        "include any other texts (e.g., 1)."
    )


def cut_question(theme: Theme, kind: str, description: str, cut: str) -> str:
    """The question about a description under a rule of `CUTS`."""
    text = question(theme, kind, description)
    if cut == "official":
        return text[:LONGEST]
    if cut == "description" and len(text) > LONGEST:
        return question(theme, kind, description[: len(description) - (len(text) - LONGEST)])
    return text


def _requests(cut: str, stage: str, subjects: Sequence[Subject], seed: int) -> list[Request]:
    kind = stage.removeprefix("judge_")
    requests = []
    for subject in subjects:
        theme = subject.theme
        parts: list[Part] = []
        if subject.picture is not None:
            parts = [subject.picture, Text(question(theme, kind))]
        else:
            parts = [Text(cut_question(theme, kind, subject.text or "", cut))]
        options = [str(place) for place in range(1, len(theme.items(kind)) + 1)]
        facts: dict[str, object] = {"options": options}
        if subject.shown is not None:
            facts["perfect"] = options[getattr(subject.shown, kind)]
        name = f"{stage}/{subject.item}"
        requests.append(
            Request(
                item=subject.item,
                system="",
                turns=(Turn("user", tuple(parts)),),
                decoding=Decoding(max_tokens=MAX_TOKENS),
                seed=sample_seed(seed, name),
                facts=facts,
            )
        )
    return requests


def _read(parser: str, replies: Replies, subjects: Sequence[Subject]) -> dict[str, Judgement]:
    found = {}
    for subject in subjects:
        answers = [replies.get(stage, {}).get(subject.item) for stage in STAGES]
        if None in answers:
            continue
        seen = [
            parse(answer.text or "", subject.theme.shown(kind), parser)
            for answer, kind in zip(answers, ("object", "attribute"), strict=True)
            if answer is not None
        ]
        unread = sum(place < 0 for place in seen)
        found[subject.item] = Judgement(attribute=seen[1], object=seen[0], unread=unread)
    return found
