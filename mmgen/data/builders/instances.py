"""Labelled spans in memory, and how they become a prepared data set."""

import itertools
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int

from mmgen.core.rng import numpy_generator
from mmgen.data.builders.request import BuildRequest
from mmgen.data.columns import DatasetWriter, masked_span_columns
from mmgen.data.composition import PairTable, find_pairs
from mmgen.data.tokenizer import Vocabulary
from mmgen.errors import UserError

if TYPE_CHECKING:
    from mmgen.data.features import FeatureStore


class Instances(NamedTuple):
    """Labelled spans of a stream, in its order.

    Attributes:
      tokens: token ids of every row's caption; rows of one caption share the list.
      span: half-open spans over those tokens.
      task: task indices.
      caption: source caption ids.
      image_id: source image ids.
    """

    tokens: Sequence[Sequence[int]]
    span: Int[np.ndarray, "n 2"]
    task: Int[np.ndarray, " n"]
    caption: Int[np.ndarray, " n"]
    image_id: Int[np.ndarray, " n"]

    def take(self, rows: Int[np.ndarray, " k"]) -> "Instances":
        """The instances `rows`, in that order."""
        return Instances(
            [self.tokens[row] for row in rows.tolist()],
            self.span[rows],
            self.task[rows],
            self.caption[rows],
            self.image_id[rows],
        )


def make_instances(rows: Sequence[tuple[Sequence[int], int, int, int, int, int]]) -> Instances:
    """Instances from (tokens, start, stop, task, caption, image id) rows."""
    numbers = np.array([row[1:] for row in rows], np.int64).reshape(len(rows), 5)
    return Instances(
        [row[0] for row in rows], numbers[:, :2], numbers[:, 2], numbers[:, 3], numbers[:, 4]
    )


def cut_by_image(
    instances: Instances, shares: Mapping[str, float], *, data_seed: int, stream: str
) -> dict[str, Instances]:
    """Cut a stream into parts that share no image, keeping the order of rows.

    Args:
      instances: the stream.
      shares: name -> share of the images; they add up to 1.
      data_seed: seed of the draw.
      stream: name of the random stream, see `mmgen.core.rng`.
    """
    images = np.unique(instances.image_id)
    order = numpy_generator(data_seed, stream).permutation(len(images))
    edges = np.round(np.cumsum([0.0, *shares.values()]) * len(images)).astype(int)
    part = np.empty(len(images), np.int64)
    for index, (start, stop) in enumerate(itertools.pairwise(edges)):
        part[order[start:stop]] = index
    of_row = part[np.searchsorted(images, instances.image_id)]
    parts = {}
    for index, name in enumerate(shares):
        rows = np.flatnonzero(of_row == index)
        if not len(rows):
            raise UserError(f"{len(images)} images are too few for a {name} part of their own")
        parts[name] = instances.take(rows)
    return parts


def write_instances(
    request: BuildRequest,
    name: str,
    splits: Mapping[str, Instances],
    vocabulary: Vocabulary,
    info: Mapping[str, Any],
    pair_table: PairTable | None = None,
) -> pathlib.Path:
    """Write a prepared data set from instances; returns its folder.

    Args:
      request: where to, and which feature store.
      name: name of the data set, also that of its folder.
      splits: instances by split.
      vocabulary: of their tokens.
      info: what `DatasetWriter` needs besides: builder, settings, tasks, licences, sources,
        paper_scale, paper_size.
      pair_table: held-out pairs to find in the spans.

    Raises:
      UserError: an image is not in the feature store, a rule of the columns is broken.
    """
    store = _open_store(request.features)
    wanted = np.unique(np.concatenate([part.image_id for part in splits.values()]))
    images = wanted if store is None else np.asarray(store.image_ids)
    rows = np.arange(len(wanted)) if store is None else store.rows_of(wanted)
    pairs, found = ([], {}) if pair_table is None else find_pairs(splits, vocabulary, pair_table)
    manifest = dict(
        info,
        name=name,
        data_seed=request.data_seed,
        pairs=pairs,
        world=False,
        max_objects=0 if store is None else int(store.counts.max()),
        feature_dim=0 if store is None else store.dim,
    )
    root = request.out / name
    with DatasetWriter(root, manifest, force=request.force) as writer:
        writer.write_vocabulary(vocabulary)
        if store is not None and request.features is not None:
            _attach(request.features, writer.folder / "features")
        writer.write_images(images)
        for split, part in splits.items():
            pair, pair_tokens = found.get(split, (None, None))
            columns = masked_span_columns(
                part.tokens,
                span=part.span,
                task=part.task,
                image=rows[np.searchsorted(wanted, part.image_id)],
                caption=part.caption,
                image_id=part.image_id,
                pair=pair,
                pair_tokens=pair_tokens,
            )
            writer.write_split(split, columns)
    return root


def _open_store(path: pathlib.Path | None) -> "FeatureStore | None":
    if path is None:
        return None
    from mmgen.data.features import FeatureStore

    return FeatureStore.open(path, verify=True)


def _attach(store: pathlib.Path, target: pathlib.Path) -> None:
    """Hard-link the files of a feature store where the file system can, copy them elsewhere."""
    target.mkdir()
    for file in sorted(store.iterdir()):
        if not file.is_file():
            continue
        try:
            (target / file.name).hardlink_to(file)
        except OSError:
            shutil.copyfile(file, target / file.name)
