"""Features of clips in the plane, by t-SNE (Fig. 11 of the paper).

    python -m mmgen.compact.projection DATASET --modality=audio --verb=rinse --out DIR
    python -m mmgen.compact.projection DATASET --modality=vision --noun=fridge --out DIR

DATASET is the folder of a prepared data set with features. Options:
  --modality=NAME    whose features; an array per clip is read as one vector
  --verb, --noun     compounds with this verb or noun are highlighted ("pick-up", "pan:frying")
  --compounds=20     most frequent compounds that are drawn
  --clips=25         clips of each of them; rarer compounds are left out
  --seed=0           of the draw and of t-SNE
  --out=DIR          gets MODALITY_tsne.png, .svg and .csv

It needs scikit-learn: pip install -e '.[projection]'.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from mmgen.core.rng import numpy_generator
from mmgen.core.workdir import Workdir
from mmgen.data.compact.dataset import CompactDataset, open_compact
from mmgen.errors import UserError
from mmgen.report import tables
from mmgen.report.figures import axes_of, save_figure
from mmgen.settings.command_line import fail

PERPLEXITY = 30.0
"""scikit-learn's default; a third of the clips where they are fewer than 90."""


class Sample(NamedTuple):
    """Clips to draw.

    Attributes:
      clips: narration ids.
      compounds: (verb, noun) of each, as in the csv.
      features: one vector each.
    """

    clips: list[str]
    compounds: list[tuple[str, str]]
    features: Float[np.ndarray, "n d"]


def sample_clips(
    dataset: CompactDataset, modality: str, *, compounds: int = 20, clips: int = 25, seed: int = 0
) -> Sample:
    """Equally many clips of each of the most frequent compounds of a data set.

    Raises:
      UserError: no features of that name, or no compound has so many clips with a feature.
    """
    store = dataset.features(modality)
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for split in dataset.info["splits"]:
        for one in dataset.split(split):
            # A clip is in several windows.
            for clip, verb, noun in zip(
                one["narration_ids"], one["verbs"], one["nouns"], strict=True
            ):
                found[verb, noun][clip] = None
    here = {
        compound: [clip for clip, row in zip(names, store.rows(names).tolist(), strict=True)
                   if row >= 0 and store.present[row]]
        for compound, names in found.items()
    }  # fmt: skip
    counts = Counter({compound: len(names) for compound, names in here.items()})
    frequent = [compound for compound, count in counts.most_common(compounds) if count >= clips]
    if not frequent:
        raise UserError(
            f"no compound of {dataset.info['name']} has {clips} clips with features of "
            f"{modality}; the most frequent has {max(counts.values())}: ask for fewer with --clips."
        )
    random = numpy_generator(seed, "compact/projection")
    chosen = [
        (here[compound][place], compound)
        for compound in frequent
        for place in sorted(random.permutation(len(here[compound]))[:clips].tolist())
    ]
    names = [clip for clip, _ in chosen]
    features, _ = store.gather(store.rows(names)[:, None])
    return Sample(names, [compound for _, compound in chosen], features.reshape(len(names), -1))


def project(features: Float[np.ndarray, "n d"], seed: int) -> Float[np.ndarray, "n 2"]:
    """Features in the plane.

    Raises:
      UserError: scikit-learn is not installed.
    """
    try:
        from sklearn.manifold import TSNE
    except ModuleNotFoundError as error:
        raise UserError(
            "t-SNE needs scikit-learn: pip install -e '.[projection]', then repeat the command."
        ) from error
    perplexity = min(PERPLEXITY, len(features) / 3)
    model = TSNE(perplexity=perplexity, init="pca", random_state=seed)
    return model.fit_transform(features)


def draw(sample: Sample, points: Float[np.ndarray, "n 2"], verb: str, noun: str, title: str) -> Any:
    """The figure: highlighted compounds in colours, the others in grey."""
    figure, (axis,) = axes_of(1, width=7.0)
    groups = dict.fromkeys(sample.compounds)
    shown = [c for c in groups if (verb and c[0] == verb) or (noun and c[1] == noun)]
    rest = np.array([compound not in shown for compound in sample.compounds])
    axis.scatter(*points[rest].T, s=8, color="0.8", label="other")
    for compound in shown:
        mine = np.array([compound == other for other in sample.compounds])
        axis.scatter(*points[mine].T, s=14, label=" ".join(compound))
    axis.set_title(title)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize="small")
    return figure


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for.

    Raises:
      UserError: see `sample_clips` and `project`; or nothing is highlighted, or a number is out of
        range.
    """
    options = _parse(arguments)
    for name, least in (("compounds", 1), ("clips", 1), ("seed", 0)):
        value = getattr(options, name)
        if value < least:
            raise UserError(f"--{name} is {value}; it must be {least} or more.")
    dataset = open_compact(options.dataset)
    counts = {"compounds": options.compounds, "clips": options.clips, "seed": options.seed}
    sample = sample_clips(dataset, options.modality, **counts)
    drawn = {name for compound in sample.compounds for name in compound}
    for name in (options.verb, options.noun):
        if name and name not in drawn:
            raise UserError(
                f"none of the {options.compounds} compounds drawn has {name!r}: draw more with "
                "--compounds, or highlight another."
            )
    points = project(sample.features, options.seed)
    title, stem = f"{dataset.info['name']}, {options.modality}", f"{options.modality}_tsne"
    figure = draw(sample, points, options.verb, options.noun, title)
    written = save_figure(figure, options.out, stem)
    Workdir(options.out).write_text(f"{stem}.csv", tables.as_csv(_table(sample, points)))
    compounds = len(set(sample.compounds))
    print(f"{len(points)} clips of {compounds} compounds: {', '.join(written)}, {stem}.csv")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m mmgen.compact.projection",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dataset")
    parser.add_argument("--modality", required=True)
    parser.add_argument("--verb", default="")
    parser.add_argument("--noun", default="")
    parser.add_argument("--compounds", type=int, default=20)
    parser.add_argument("--clips", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True)
    return parser.parse_args(arguments)


def _table(sample: Sample, points: Float[np.ndarray, "n 2"]) -> tables.Table:
    columns = tuple(tables.Column(name) for name in ("clip", "verb", "noun", "x", "y"))
    rows = [
        [clip, *compound, *point]
        for clip, compound, point in zip(
            sample.clips, sample.compounds, points.tolist(), strict=True
        )
    ]
    return tables.Table("", columns, rows)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        fail(error)
