"""From groups to requests: examples in front, sentences and frames, content-free twins."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from mmgen.data.macid.groups import Group
from mmgen.errors import UserError
from mmgen.prompting.macid.items import Item, pairs, quadruples
from mmgen.prompting.macid.prompts import Prompt, conversation, make_prompt, question
from mmgen.prompting.requests import Decoding, Part, Picture, Request, Text, sample_seed

CONTENT_FREE = ("N/A", "", "[MASK]")
"""What stands for every sentence of a content-free prompt (Zhao et al. 2021)."""

ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


class Asking(NamedTuple):
    """How items become requests.

    Attributes:
      config: the run's resolved config.
      items: what is asked.
      examples: solved groups shown first, when examples are shown.
    """

    config: ConfigDict
    items: tuple[Item, ...]
    examples: tuple[Group, ...]

    @property
    def prompt(self) -> Prompt:
        """The way of asking."""
        macid = self.config.macid
        return make_prompt(macid.prompt, macid.language, pairs=macid.format == "pairs")

    def requests(self, *, shots: int, scored: bool) -> list[Request]:
        """One request per item.

        Args:
          shots: examples shown first.
          scored: score the choices; otherwise generate.

        Raises:
          UserError: a frame is missing.
        """
        return [self._request(item, shots, scored) for item in self.items]

    def content_free(self, *, shots: int) -> list[Request]:
        """Prompts whose sentences say nothing, scored to see what a model prefers anyway."""
        places = len(self.items[0].order)
        requests = []
        for number, text in enumerate(CONTENT_FREE):
            asked = question(self.prompt, [(Text(text),)] * places)
            turns, choices = conversation(
                self.prompt, self._examples(shots), asked, raw=not self._chat, scored=True
            )
            name = f"content_free/{number}"
            requests.append(
                Request(name, "", turns, choices, seed=self._seed(name), raw=not self._chat)
            )
        return requests

    def _request(self, item: Item, shots: int, scored: bool) -> Request:
        decoding = self.config.decoding
        examples = self._examples(shots)
        asked = self._question(item.group, item.order)
        turns, choices = conversation(
            self.prompt, examples, asked, raw=not self._chat, scored=scored
        )
        facts = {"perfect": self.prompt.answers[item.target - 1], "options": self.prompt.answers}
        if examples:
            facts["copy"] = examples[-1][1]
        return Request(
            item=item.name,
            system="",
            turns=turns,
            choices=choices,
            decoding=Decoding(decoding.max_tokens, decoding.temperature, decoding.top_p),
            seed=self._seed(item.name),
            raw=not self._chat,
            facts=facts,
        )

    @property
    def _chat(self) -> bool:
        return self.config.macid.chat

    def _seed(self, name: str) -> int:
        return sample_seed(self.config.seed, name)

    def _examples(self, shots: int) -> list[tuple[tuple[Part, ...], str]]:
        """(question, answer) of the first groups held out; of pairs one of each, yes and no."""
        found = []
        for number, group in enumerate(self.examples[:shots]):
            (first, *_), other = quadruples(group, "given"), pairs(group, "given")
            item = first
            if self.config.macid.format == "pairs":
                item = next(pair for pair in other if pair.target == 1 + number % 2)
            answer = self.prompt.answers[item.target - 1]
            found.append((self._question(group, item.order), answer))
        return found

    def _question(self, group: Group, order: Sequence[int]) -> tuple[Part, ...]:
        macid = self.config.macid
        shown: list[tuple[Part, ...]] = []
        for place in order:
            text = Text(group.sentences[macid.language][place - 1])
            frames: tuple[Part, ...] = ()
            if macid.modality != "text":
                frames = video_frames(
                    pathlib.Path(macid.frames), group, place, macid.frames_per_video
                )
            shown.append({"text": (text,), "frames": frames}.get(macid.modality, (text, *frames)))
        return question(self.prompt, shown)


def video_frames(folder: pathlib.Path, group: Group, place: int, count: int) -> tuple[Picture, ...]:
    """`count` frames of a sentence's video, evenly spread: VIDEO.jpg, or VIDEO/*.jpg by name.

    Raises:
      UserError: no frames of that video.
    """
    video = group.videos[place - 1]
    single = [folder / f"{video}{ending}" for ending in ENDINGS]
    found = [path for path in single if video and path.is_file()]
    if not found and video and (folder / video).is_dir():
        found = sorted(p for p in (folder / video).iterdir() if p.suffix.lower() in ENDINGS)
    if not found:
        raise UserError(
            f"group {group.id}, sentence {place}: there are no frames of video {video!r} in "
            f"{folder}; put them there as {video or 'VIDEO'}.jpg or in a folder of that name, or "
            "ask with config.macid.modality='text'."
        )
    count = min(count, len(found))
    chosen = [found[(2 * i + 1) * len(found) // (2 * count)] for i in range(count)]
    return tuple(Picture(str(path)) for path in chosen)
