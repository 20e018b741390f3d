"""Training and held-out prompts of CoBSAT with the captions that answer them (section 7.1)."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from ml_collections import ConfigDict

from mmgen.core.rng import numpy_generator
from mmgen.prompting.cobsat.dataset import CobsatDataset
from mmgen.prompting.cobsat.locate import locate_images
from mmgen.prompting.cobsat.rendering import Sources, Style, make_request
from mmgen.prompting.cobsat.samples import Sample, leave_one_out, make_samples, train_samples
from mmgen.prompting.cobsat.tasks import choose_tasks
from mmgen.prompting.requests import Decoding, Request


class Example(NamedTuple):
    """A prompt and its right answer.

    Attributes:
      request: the prompt, as the benchmark asks it.
      answer: the caption of the true next image.
      sample: where both come from.
    """

    request: Request
    answer: str
    sample: Sample


class Examples(NamedTuple):
    """What a run learns and what it is tested on; the two share no word of either list."""

    train: list[Example]
    heldout: list[Example]


def open_data(config: ConfigDict) -> CobsatDataset:
    """The data set that `config.dataset.name` names; UserError if there is none."""
    return locate_images(pathlib.Path(config.data_dir), config.dataset.name, config.data_seed)


def make_examples(dataset: CobsatDataset, config: ConfigDict) -> Examples:
    """The examples of `config.finetune`.

    "all" trains on every ordered choice of the first five words of both lists (300 prompts per task
    at 2 shots, 600 at 4); "leave_one_out" on the 1,000 prompts of each task of the other themes.
    Tested are the 250 prompts over the last five words, of all tasks or of the left-out theme's.

    Raises:
      UserError: no such task or theme, or too many shots.
    """
    finetune = config.finetune
    tasks = choose_tasks(finetune.tasks, dataset.tasks)
    tested = tasks
    if finetune.split == "leave_one_out":
        trained = tuple(leave_one_out(tasks, finetune.theme))
        tested = tuple(task for task in tasks if task not in trained)
    else:
        trained = tasks
    learned = [s for task in trained for s in train_samples(task, finetune.shots, finetune.split)]
    asked = [s for task in tested for s in make_samples(task, finetune.shots, "ft_test")]
    return Examples(
        _examples(dataset, config, _some(learned, finetune.limit, config.seed, "train")),
        _examples(dataset, config, _some(asked, config.evaluation.limit, config.data_seed, "test")),
    )


def _some(samples: Sequence[Sample], limit: int | None, seed: int, name: str) -> list[Sample]:
    """At most `limit` of them, drawn over all tasks, in their order."""
    if limit is None or limit >= len(samples):
        return list(samples)
    chosen = numpy_generator(seed, f"finetune/{name}").permutation(len(samples))[:limit]
    return [samples[place] for place in sorted(chosen)]


def _examples(
    dataset: CobsatDataset, config: ConfigDict, samples: Sequence[Sample]
) -> list[Example]:
    finetune, images = config.finetune, dataset.images
    style = Style(finetune.prompt, "text", finetune.instructions, finetune.table)
    decoding = Decoding(max_tokens=config.evaluation.max_tokens)
    sources = Sources(images.picture, images.caption)
    return [
        Example(
            make_request(_item(one), one, style, sources, decoding, seed=config.seed),
            images.caption(one.task.theme, one.target),
            one,
        )
        for one in samples
    ]


def _item(sample: Sample) -> str:
    return f"{sample.task.name}/{sample.stem}"
