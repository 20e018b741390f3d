"""What the fakes may know of a sample: answers of systems whose scores are known.

    perfect     the right answer                                named 1, shown 1, joint 1
    text_only   the named thing with a guessed latent           1, .1, .1 (1 for exact prompts)
    copy        what the last demonstration shows               0, 1, 0
    misled      the named thing with the misleading word        1, 0, 0
    majority    each demonstration misread with p = .3, the most frequent reading
    options     every pair, for a random answer                 .1, .1, .01

"Named" is textual, "shown" visual alignment. Pictures are drawn, or taken from the data set, when
they are asked for.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mmgen.core.rng import numpy_generator
from mmgen.prompting.cobsat.chance import possible_latents
from mmgen.prompting.cobsat.lists import Cell
from mmgen.prompting.cobsat.samples import Sample

MISREAD = 0.3
"""How often the majority fake misreads a demonstration."""

Show = Callable[[Cell], Any]
"""A cell as the text or the picture that a fake answers."""


class SampleFacts(Mapping[str, Any]):
    """The facts of one sample, each made when it is looked up."""

    def __init__(self, sample: Sample, prompt_type: str, seed: int, show: Show):
        """`seed` is the request's own: guesses depend on it alone."""
        self._cells = _cells(sample, prompt_type, seed)
        self._sample, self._show = sample, show

    def __getitem__(self, name: str) -> Any:
        """An answer, or the options; KeyError for what this sample has not."""
        if name == "options":
            return AllPairs(self._sample, self._show)
        return self._show(self._cells[name]())

    def __contains__(self, name: object) -> bool:
        return name in self._cells or name == "options"

    def __iter__(self) -> Iterator[str]:
        return iter((*self._cells, "options"))

    def __len__(self) -> int:
        return len(self._cells) + 1


class AllPairs(Sequence[Any]):
    """Every pair of an attribute and an object of a task's theme."""

    def __init__(self, sample: Sample, show: Show):
        self._objects = len(sample.task.theme.objects)
        self._count = len(sample.task.theme.attributes) * self._objects
        self._show = show

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place):
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._show(Cell(*divmod(place, self._objects)))


def _cells(sample: Sample, prompt_type: str, seed: int) -> dict[str, Callable[[], Cell]]:
    generator = numpy_generator(seed, "cobsat/fake")
    found: dict[str, Callable[[], Cell]] = {
        "perfect": lambda: sample.target,
        "text_only": lambda: _text_only(sample, prompt_type, generator),
    }
    if sample.shots:
        found["copy"] = lambda: sample.demonstrations[-1]
        found["majority"] = lambda: sample.task.cell(sample.query, _majority(sample, generator))
    if prompt_type == "misleading":
        found["misled"] = lambda: sample.task.cell(sample.query, sample.misleading[-1])
    return found


def _text_only(sample: Sample, prompt_type: str, generator: np.random.Generator) -> Cell:
    if prompt_type == "caption" and sample.shots:
        return sample.target
    latents = possible_latents(sample, prompt_type)
    return sample.task.cell(sample.query, latents[generator.integers(len(latents))])


def _majority(sample: Sample, generator: np.random.Generator) -> int:
    """The most frequent reading of the demonstrations, ties broken at random."""
    count = len(sample.task.latents)
    misread = generator.random(sample.shots) < MISREAD
    others = (sample.latent + generator.integers(1, count, sample.shots)) % count
    readings = Counter(np.where(misread, others, sample.latent).tolist())
    most = max(readings.values())
    tied = sorted(latent for latent, times in readings.items() if times == most)
    return tied[generator.integers(len(tied))]
