"""The requests of a CoBSAT run: each sample put into words, several times for self-consistency."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from mmgen.data.worlds.shape_captions import write_caption
from mmgen.data.worlds.shape_world import draw_again
from mmgen.prompting.cobsat.dataset import CobsatDataset
from mmgen.prompting.cobsat.facts import SampleFacts
from mmgen.prompting.cobsat.lists import Cell
from mmgen.prompting.cobsat.rendering import Sources, Style, make_request
from mmgen.prompting.cobsat.samples import Sample
from mmgen.prompting.requests import Answer, Decoding, Picture, Request, sample_seed


@dataclasses.dataclass(frozen=True)
class Asking:
    """Everything that the requests of a run depend on.

    Attributes:
      dataset: images and captions.
      samples: what is asked, by item: `task_<number>/<stem>`, the names of the release's files.
      style: how it is put.
      decoding: of the answers.
      thought: of the first step of a chain of thought.
      votes: answers drawn per sample.
      seed: of the run.
    """

    dataset: CobsatDataset
    samples: dict[str, Sample]
    style: Style
    decoding: Decoding
    thought: Decoding
    votes: int
    seed: int

    @property
    def sources(self) -> Sources:
        """Where pictures and captions come from."""
        return Sources(self.dataset.images.picture, self.dataset.images.caption)

    def ballots(self, item: str) -> list[str]:
        """Names of the requests of one sample."""
        if self.votes == 1:
            return [item]
        return [f"{item}/vote_{number}" for number in range(self.votes)]

    def analysis_requests(self) -> list[Request]:
        """First steps of chains of thought."""
        return [
            make_request(name, sample, self.style, self.sources, self.thought, seed=self.seed)
            for item, sample in self.samples.items()
            for name in self.ballots(item)
        ]

    def requests(self, analyses: dict[str, Answer] | None = None) -> list[Request]:
        """The questions themselves; second steps where `analyses` holds the replies to the first.

        A sample whose first step has no reply is left out.
        """
        requests = []
        for item, sample in self.samples.items():
            for name in self.ballots(item):
                if analyses is not None and name not in analyses:
                    continue
                analysis = None if analyses is None else analyses[name].text or ""
                requests.append(
                    make_request(
                        name,
                        sample,
                        self.style,
                        self.sources,
                        self.decoding,
                        seed=self.seed,
                        analysis=analysis,
                        facts=self._facts(name, sample),
                    )
                )
        return requests

    def _facts(self, name: str, sample: Sample) -> SampleFacts:
        seed = sample_seed(self.seed, name)

        def show(cell: Cell) -> Any:
            return self._shown(sample, cell, seed)

        return SampleFacts(sample, self.style.prompt_type, seed, show)

    def _shown(self, sample: Sample, cell: Cell, seed: int) -> str | Picture:
        theme = sample.task.theme
        is_world = self.dataset.info["world"]
        if self.style.output == "image":
            if is_world:
                return Picture(data=draw_again(theme, cell, seed))
            return self.dataset.images.picture(theme, cell)
        if is_world:
            return write_caption(theme, cell, f"fake/{seed}", 0)
        attribute, kind = theme.shown("attribute")[cell.attribute], theme.shown("object")
        return f"{kind[cell.object]}, {attribute}"


def item_name(sample: Sample) -> str:
    """Name of a sample's item: the path of its files in the release's tree of results."""
    return f"task_{sample.task.number}/{sample.stem}"


def needed_images(samples: Sequence[Sample]) -> set:
    """(theme, cell) of every picture or caption that the prompts show."""
    return {(sample.task.theme, cell) for sample in samples for cell in sample.demonstrations}
