"""Prompts of a task as positions in its lists: records read at a number of shots, and variants.

A sample says everything that a prompt shows and what the answer must show; `texts` and `requests`
put it into words.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mmgen.core.rng import numpy_generator
from mmgen.errors import UserError
from mmgen.prompting.cobsat.lists import Cell
from mmgen.prompting.cobsat.records import (
    Indices,
    Record,
    heldout_records,
    make_records,
    read_record,
    train_indices,
)
from mmgen.prompting.cobsat.tasks import Task
from mmgen.settings.suggest import check_choice

SPLITS = ("default", "ft_test")
"""Prompts of the benchmark (1,000 a task), and of the test of fine-tuning (250 a task)."""

SELECTIONS = ("record", "fixed", "similar", "dissimilar")
"""How demonstrations are chosen (section 9): as the record has them; the first of the list; those
whose word is nearest to, or farthest from, the query's word."""

Embed = Callable[[Sequence[str]], Float[np.ndarray, "n d"]]
"""Texts -> their vectors."""


class Sample(NamedTuple):
    """One prompt.

    Attributes:
      task: its task.
      record: number of its record.
      texts: positions of the given words: those of the demonstrations and, last, of the query.
      latent: position of the latent word.
      misleading: positions of one other latent word for each text.
    """

    task: Task
    record: int
    texts: tuple[int, ...]
    latent: int
    misleading: tuple[int, ...]

    @property
    def shots(self) -> int:
        """Number of demonstrations."""
        return len(self.texts) - 1

    @property
    def query(self) -> int:
        """Position of the query's word."""
        return self.texts[-1]

    @property
    def target(self) -> Cell:
        """What the answer must show."""
        return self.task.cell(self.query, self.latent)

    @property
    def demonstrations(self) -> tuple[Cell, ...]:
        """What the images of the prompt show."""
        return tuple(self.task.cell(text, self.latent) for text in self.texts[:-1])

    @property
    def stem(self) -> str:
        """Name of its result files in the release: record, raw latent, shown words."""
        shown = self.task.theme.shown(self.task.given)
        words = "_".join(shown[text] for text in self.texts)
        return f"{self.record}_{self.task.latents[self.latent]}_{words}"

    @property
    def cluster(self) -> tuple[int, int]:
        """The (query, latent) cell: samples of one cell have one right answer."""
        return self.query, self.latent


def make_samples(
    task: Task,
    shots: int,
    split: str = "default",
    *,
    count: int | None = None,
    seed: int = 123,
    records: Sequence[Record] | None = None,
) -> list[Sample]:
    """The first `count` samples of a task; None means all of the split.

    Args:
      seed: of the records; 123 gives the published ones.
      records: of a file of one's own, instead of `seed`.

    Raises:
      UserError: unknown split, or too many shots for the task's lists.
    """
    check_choice("config.split", split, SPLITS)
    heldout = split == "ft_test"
    length = len(task.words)
    if records is None:
        records = heldout_records(seed, length) if heldout else make_records(range(length), seed)
    if any(place >= length for record in records for place in (*record.texts, *record.latents)):
        raise UserError(f"the prompt file has positions beyond the {length} words of {task.name}.")
    return [
        _sample(task, index, read_record(record, shots, wrap=heldout))
        for index, record in enumerate(records[:count])
    ]


def train_samples(task: Task, shots: int, mode: str = "all") -> list[Sample]:
    """Training prompts of fine-tuning: "all" (first halves of the lists) or "leave_one_out".

    For "leave_one_out" take the tasks of the other four themes; they use the 1,000 records.

    Raises:
      UserError: unknown mode, or too many shots.
    """
    check_choice("config.finetune.split", mode, ("all", "leave_one_out"))
    if mode == "leave_one_out":
        return make_samples(task, shots)
    return [
        _sample(task, index, indices)
        for index, indices in enumerate(train_indices(shots, len(task.words)))
    ]


def leave_one_out(tasks: Sequence[Task], theme: str) -> list[Task]:
    """The tasks of every theme but `theme`; UserError if that is none of theirs."""
    check_choice("theme", theme, sorted({task.theme.name for task in tasks}))
    return [task for task in tasks if task.theme.name != theme]


def select_demonstrations(sample: Sample, rule: str, embed: Embed) -> Sample:
    """The same query and latent with other demonstrations, see `SELECTIONS`.

    The most similar one comes last, next to the query.

    Args:
      embed: vectors of the shown words, for "similar" and "dissimilar".
    """
    check_choice("config.selection", rule, SELECTIONS)
    if rule == "record" or sample.shots == 0:
        return sample
    others = [place for place in range(len(sample.task.words)) if place != sample.query]
    if rule == "fixed":
        chosen = others[: sample.shots]
    else:
        vectors = embed(sample.task.theme.shown(sample.task.given))
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        score = unit[others] @ unit[sample.query]
        order = np.argsort(-score if rule == "similar" else score, kind="stable")
        chosen = [others[place] for place in order[: sample.shots]][::-1]
    return sample._replace(texts=(*chosen, sample.query))


def show_query_before(sample: Sample) -> Sample:
    """The same with the query's word in one demonstration, the record's number modulo the shots.

    For words without meaning: a letter that no demonstration explains cannot be answered.

    Raises:
      UserError: there is no demonstration.
    """
    if not sample.shots:
        raise UserError("words=letters needs a demonstration: give shots of 1 or more.")
    texts = list(sample.texts)
    texts[sample.record % sample.shots] = sample.query
    return sample._replace(texts=tuple(texts))


def letters(sample: Sample, seed: int = 0) -> tuple[str, ...]:
    """A letter for each given word, in an order of the sample's own (low-semantic words)."""
    order = numpy_generator(seed, "cobsat/letters", sample.record).permutation(
        len(sample.task.words)
    )
    return tuple(chr(ord("A") + int(place)) for place in order)


def trigram_counts(texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
    """Counts of letter triples, the vectors of words where no model is at hand."""
    triples = [[f"^{text}$"[i : i + 3] for i in range(len(text))] for text in texts]
    place = {triple: i for i, triple in enumerate(sorted({t for row in triples for t in row}))}
    counts = np.zeros((len(texts), len(place)))
    for row, found in enumerate(triples):
        for triple in found:
            counts[row, place[triple]] += 1
    return counts


def _sample(task: Task, index: int, indices: Indices) -> Sample:
    return Sample(task, index, indices.texts, indices.latent, indices.misleading)
