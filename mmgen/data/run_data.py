"""What a run reads of a prepared data set, as its resolved config says: stream, shapes, splits."""

import numpy as np
from ml_collections import ConfigDict

from mmgen.data.assemble import LEADING, assemble, object_counts, text_lengths
from mmgen.data.buckets import Bucket, choose_buckets
from mmgen.data.columns import Dataset, Split
from mmgen.data.schema import IGNORE_ID
from mmgen.data.streams import FLICKR_SIZE, iid_stream, shift_stream
from mmgen.errors import UserError
from mmgen.settings.durations import total_steps
from mmgen.settings.resolve import attends_padding

PUBLISHED_FEATURE_DIM = 2048
RELEASED_TEXT_WINDOW = 64
RELEASED_OBJECTS = 99
"""Object slots of the release besides the whole image, which is the first of its 100."""


def check_features(config: ConfigDict, dataset: Dataset) -> None:
    """Raises UserError for a multimodal run on data without features."""
    if dataset.features is None and not config.text_only:
        raise UserError(
            f"The data set '{dataset.info['name']}' has no feature store, so a multimodal run is "
            "impossible; add ':text_only' to the config, or rebuild the data set with --features."
        )


def seen_split(config: ConfigDict, dataset: Dataset, name: str) -> Split:
    """A split as a run sees it.

    Under `shuffle_features` it has other examples' images. The release ends Flickr-shift's spans
    with its text window (`INK-USC/VisCOLL data/flickr30k.py:226-229`; on COCO-shift it would stop).
    """
    split = dataset.split(name)
    changed = {}
    if config.dataset.shuffle_features:
        image = np.asarray(split.columns["image"])
        own = np.unique(image)
        # A rotation by half leaves no image in its place.
        other = np.roll(own, len(own) // 2)
        changed["image"] = other[np.searchsorted(own, image)]
    if config.profile == "release" and dataset.info["paper_size"] == FLICKR_SIZE:
        start, stop = np.asarray(split.columns["span"]).T
        window = RELEASED_TEXT_WINDOW - LEADING
        # One that begins beyond would have no target at all: `check_inputs` refuses it.
        inside = np.where(start < window, np.minimum(stop, window), stop)
        changed["span"] = np.stack([start, inside], axis=1)
    return Split(name, {**split.columns, **changed}) if changed else split


def shifting_stream(config: ConfigDict, dataset: Dataset) -> np.ndarray:
    """Rows of the train split, task after task; also for iid runs, which are compared with it."""
    task = np.asarray(dataset.split("train").columns["task"])
    rows = shift_stream(
        task,
        seed=config.data_seed,
        bin_width=config.stream.bin_width,
        spread_floor=config.stream.spread_floor,
        order=config.stream.order,
    )
    return rows[: int(len(task) * config.stream.share)]


def training_stream(config: ConfigDict, dataset: Dataset) -> tuple[np.ndarray, int]:
    """Rows of the train split in the order of training, padded to whole batches."""
    shifting = shifting_stream(config, dataset)
    num_examples = len(shifting)
    num_steps = total_steps(config.total, num_examples, config.batch_size)
    length = num_steps * config.batch_size
    epochs = -(-length // num_examples)
    if config.stream.kind == "shift":
        passes = [shifting] * epochs
    else:
        fresh = config.stream.kind == "iid_epochs" and config.stream.reshuffle
        passes = [
            shifting[iid_stream(num_examples, config.data_seed, epoch if fresh else 0)]
            for epoch in range(epochs)
        ]
    rows = np.concatenate(passes)[:length]
    # Only the end of the last pass is padded, and only if no further example was asked for.
    if config.total.steps is None:
        wanted = config.total.examples or round((config.total.epochs or 1) * num_examples)
        rows = rows[:wanted]
    padding = np.full(length - len(rows), IGNORE_ID, rows.dtype)
    return np.concatenate([rows, padding]), num_steps


def split_buckets(
    config: ConfigDict, dataset: Dataset, split: str, batch: int
) -> tuple[Bucket, ...]:
    """Padded shapes for the batches of a split: as configured, or from its length tables.

    A model that attends its padding has the release's one number of object slots: with others an
    example's loss would be another.

    Args:
      batch: examples that share a bucket, replay rows included.
    """
    buckets = config.buckets
    if buckets.text is not None:
        return tuple(Bucket(t, o) for t, o in zip(buckets.text, buckets.objects, strict=True))
    data = dataset.split(split)
    lengths = text_lengths(data)
    if config.profile == "release":
        # The released window: three captions of the validation stream lose their [SEP] to it.
        lengths = np.minimum(lengths, RELEASED_TEXT_WINDOW)
    # A model without any object slot would be another program; one empty slot costs nothing.
    counts = np.maximum(object_counts(data, dataset.features, config.text_only), 1)
    if attends_padding(config):
        return (Bucket(int(lengths.max()), RELEASED_OBJECTS),)
    return choose_buckets(lengths, counts, buckets.max, batch=batch)


def feature_dim(dataset: Dataset) -> int:
    """Width of region features; the published one where text-only runs have no store."""
    return dataset.info["feature_dim"] or PUBLISHED_FEATURE_DIM


def max_span(dataset: Dataset) -> int:
    """Largest number of masked tokens of an example, over all splits."""
    return max(split["max_span"] for split in dataset.info["splits"].values())


def example_batch(
    config: ConfigDict, dataset: Dataset, split: str, bucket: Bucket
) -> dict[str, np.ndarray]:
    """The first row of a split, for shapes."""
    return assemble(
        dataset.split(split),
        dataset.features,
        dataset.vocabulary,
        np.zeros(1, np.int64),
        bucket,
        max_span=max_span(dataset),
        feature_dim=feature_dim(dataset),
        text_only=config.text_only,
    )
