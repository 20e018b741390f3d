"""Samples as requests: turns of words and pictures that any backend understands."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from mmgen.errors import UserError
from mmgen.prompting.cobsat.instructions import Instruction, instruction, second_step
from mmgen.prompting.cobsat.lists import Cell, Theme
from mmgen.prompting.cobsat.samples import Sample, letters, show_query_before
from mmgen.prompting.cobsat.texts import sample_texts
from mmgen.prompting.requests import Decoding, Part, Picture, Request, Text, Turn, sample_seed

Output = Literal["image", "text"]


class Style(NamedTuple):
    """How prompts are put into words; one of these is one column of the paper's tables.

    Attributes:
      prompt_type: "default", "exact", "misleading", "instruct", "caption" or "cot".
      output: what the model shall give.
      model: whose instruction it is given.
      table: "paper" or "repo" instructions.
      leak: latent words raw, as released.
      words: "display", or "letters" for low-semantic words.
    """

    prompt_type: str
    output: Output
    model: str = "none"
    table: str = "paper"
    leak: bool = False
    words: str = "display"


class Sources(NamedTuple):
    """Where pictures and captions come from.

    Attributes:
      picture: `(theme, cell) -> Picture`.
      caption: `(theme, cell) -> str`.
    """

    picture: Callable[[Theme, Cell], Picture]
    caption: Callable[[Theme, Cell], str]


def prompt_turn(sample: Sample, style: Style, sources: Sources) -> tuple[str, Turn]:
    """System message, and the user's turn with demonstrations and query."""
    if style.words == "letters":
        sample = show_query_before(sample)
        texts = sample_texts(sample, style.prompt_type, leak=style.leak, given=letters(sample))
    else:
        texts = sample_texts(sample, style.prompt_type, leak=style.leak)
    around = instruction(sample.task, style.prompt_type, style.output, style.model, style.table)
    parts: list[Part] = []
    for text, cell in zip(texts, sample.demonstrations, strict=False):
        parts.append(Text(text))
        if style.prompt_type == "caption":
            parts.append(Text(f"{sources.caption(sample.task.theme, cell)} "))
        else:
            parts.append(sources.picture(sample.task.theme, cell))
    parts.append(Text(texts[-1]))
    return around.system, Turn("user", _joined(around, parts))


def second_turn(sample: Sample, style: Style) -> Turn:
    """The second question of a chain of thought."""
    texts = sample_texts(sample, style.prompt_type, leak=style.leak)
    return Turn("user", (Text(second_step(style.output, texts[-1], style.table)),))


def make_request(
    item: str,
    sample: Sample,
    style: Style,
    sources: Sources,
    decoding: Decoding,
    *,
    seed: int,
    analysis: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Request:
    """The request of a sample; of both steps of a chain of thought.

    Args:
      item: its name.
      seed: of the run; each item gets one of its own.
      analysis: the reply to the first step, for the second.
      facts: for fakes.
    """
    system, first = prompt_turn(sample, style, sources)
    turns = [first]
    if analysis is not None:
        turns += [Turn("assistant", (Text(analysis),)), second_turn(sample, style)]
    thinking = style.prompt_type == "cot" and analysis is None
    return Request(
        item=item,
        system=system,
        turns=tuple(turns),
        want="text" if thinking else style.output,
        decoding=decoding,
        seed=sample_seed(seed, item),
        facts=facts or {},
    )


def check_style(style: Style, samples: Sequence[Sample]) -> None:
    """Refuse what has no meaning; UserError says what."""
    if style.words == "letters" and style.prompt_type in ("exact", "cot"):
        raise UserError(
            f"words=letters has no meaning for prompt={style.prompt_type}; give default, "
            "misleading, instruct or caption."
        )
    if style.prompt_type == "misleading":
        bare = next((sample for sample in samples if not sample.misleading), None)
        if bare is not None:
            raise UserError("prompt=misleading has no misleading words in this split.")


def _joined(around: Instruction, parts: list[Part]) -> tuple[Part, ...]:
    """Start, parts and end, neighbouring texts in one."""
    if around.start:
        start = around.start if around.start[-1].isspace() else f"{around.start} "
        parts = [Text(start), *parts]
    if around.end:
        parts = [*parts, Text(around.end)]
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Text) and isinstance(last, Text):
            joined[-1] = Text(last.text + part.text)
        else:
            joined.append(part)
    return tuple(joined)
