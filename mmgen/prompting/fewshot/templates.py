"""The prompts of Figs. 6, 7 and 10, and the narration that an answer begins with.

    llama2           Fig. 6:  "put down bowl . move jar . pick up egg => crack egg"
    idefics          Fig. 7:  the same with a picture after each narration
    idefics_unused   Fig. 10: "Narration 1: put down bowl Image 1: <picture>" ... "Narration 4: ..."

Each begins with its instruction and ends where the next narration is to follow. Line breaks are not
visible in the figures' text; here every example stands on a line of its own (in Fig. 10 every
narration). Texts are plain, words of several parts are not joined (A.3.2).
"""

from collections.abc import Sequence
from typing import NamedTuple

from mmgen.prompting.parts import merged
from mmgen.prompting.requests import Part, Picture, Text, Turn
from mmgen.prompting.thoughts import without_thinking

INSTRUCTIONS = {
    "llama2": "Predict the next narration given 3 sequential previous narrations from a cooking "
    "video",
    "idefics": "Predict the next action narration given 3 sequential previous actions "
    "(image-narration pairs) in a cooking video.",
    "idefics_unused": "Predict the next action narration given 3 sequential previous actions "
    "(image-narration pairs) in a cooking video.",
}

ARROW = "=>"


class Shown(NamedTuple):
    """A window as it is shown.

    Attributes:
      narrations: of the three input clips, plain.
      pictures: their key frames, or () without.
      target: the next narration; None for the query.
    """

    narrations: tuple[str, ...]
    pictures: tuple[Picture, ...]
    target: str | None


def few_shot_turns(
    template: str, examples: Sequence[Shown], query: Shown, *, chat: bool
) -> tuple[Turn, ...]:
    """The prompt: one text to be continued, or a chat with an example in each exchange.

    Args:
      template: one of `INSTRUCTIONS`.
      examples: in the order in which they are shown.
      query: the window whose target is asked for.
      chat: give the examples as turns; the published models continued one plain text.
    """
    instruction = INSTRUCTIONS[template] + "\n"
    if not chat:
        parts: list[Part] = [Text(instruction)]
        for shown in (*examples, query):
            parts += _window(template, shown)
        return (Turn("user", merged(parts)),)
    turns: list[Turn] = []
    for number, shown in enumerate((*examples, query)):
        before = [Text(instruction)] if number == 0 else []
        asked = _window(template, shown._replace(target=None))
        turns.append(Turn("user", merged([*before, *asked])))
        if shown.target is not None:
            turns.append(Turn("assistant", (Text(shown.target),)))
    return tuple(turns)


def _window(template: str, shown: Shown) -> list[Part]:
    """A window; that of a query ends without a space where the answer begins."""
    parts: list[Part] = []
    for number, narration in enumerate(shown.narrations, start=1):
        picture = shown.pictures[number - 1 : number]
        if template == "idefics_unused":
            parts.append(Text(f"Narration {number}: {narration}\n"))
            parts += [Text(f"Image {number}: "), *picture, Text("\n")] if picture else []
        else:
            before = " . " if number > 1 else ""
            parts += [Text(f"{before}{narration}"), *(Text(" ") for _ in picture), *picture]
    cue = f"Narration {len(shown.narrations) + 1}:"
    parts.append(Text(cue if template == "idefics_unused" else f" {ARROW}"))
    if shown.target is not None:
        parts.append(Text(f" {shown.target}\n"))
    return parts


def read_narration(text: str) -> str:
    """The narration that an answer begins with: its first line, up to what is no part of it.

    Lower case, without quotes and full stops; "" if there is none.
    """
    lines = [line.strip() for line in without_thinking(text).split("\n")]
    first = next((line for line in lines if line), "")
    first = first.removeprefix(ARROW)
    for end in (ARROW, " . ", "Narration ", "Image "):
        first = first.split(end)[0]
    return " ".join(first.lower().strip(" .\"'`*").split())
