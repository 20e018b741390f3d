"""A prepared data set as a TFDS data set, for tools that read those. Training reads the columns."""

import contextlib
import io
import pathlib
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from mmgen.data.columns import Dataset, Split
from mmgen.errors import UserError

FOLDER = "tfds"
VERSION = "1.0.0"


def export_tfds(dataset: Dataset) -> pathlib.Path:
    """Write `dataset` as array records into its folder `tfds` and return that folder.

    Row number = integer key = position, so `builder_from_directory(folder).as_data_source(split)`
    has row i of the columns at i. Features are the columns, `tokens` without `token_start`; images
    stay in the feature store. An existing folder is replaced.

    Raises:
      UserError: tensorflow-datasets is not installed, or the disk is full.
    """
    try:
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        raise UserError(
            "a TFDS copy needs tensorflow-datasets: pip install 'tensorflow-datasets>=4.9.10', or "
            "build with --no-tfds"
        ) from error
    target = dataset.root / FOLDER
    partial = dataset.root / f".{FOLDER}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        builder = _builder_class(tfds, dataset)(data_dir=partial, file_format="array_record")
        # One shard per split keeps the bytes independent of the machine.
        config = tfds.download.DownloadConfig(num_shards=1, compute_stats="skip")
        tfds.disable_progress_bar()
        with contextlib.redirect_stdout(io.StringIO()):
            builder.download_and_prepare(download_config=config)
        shutil.rmtree(target, ignore_errors=True)
        pathlib.Path(builder.data_dir).rename(target)
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror or error}; the data set itself is complete"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _builder_class(tfds: Any, dataset: Dataset) -> Any:
    base: Any = tfds.core.GeneratorBasedBuilder

    class Builder(base, skip_registration=True):  # type: ignore[call-arg]
        name = dataset.info["name"]
        # Set, or TFDS looks for metadata files beside this module.
        pkg_dir_path = None

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(
                builder=self,
                description=f"{dataset.info['name']}, fingerprint {dataset.info['fingerprint']}",
                features=_features(tfds, dataset),
                disable_shuffling=True,
            )

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {name: self._generate_examples(name) for name in dataset.info["splits"]}

        def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
            return _examples(dataset.split(split))

        def _example_writer(self) -> _SortedWriter:
            return _SortedWriter(super()._example_writer())

    Builder.VERSION = tfds.core.Version(VERSION)
    return Builder


class _SortedWriter:
    """Writes examples with their features in sorted order, which differs by process otherwise."""

    def __init__(self, writer: Any):
        from tensorflow_datasets.proto import tf_example_pb2

        self._writer = writer
        self._parse = tf_example_pb2.Example.FromString
        self.file_format = writer.file_format

    def write(self, path: Any, examples: Iterable[tuple[Any, bytes]]) -> Any:
        """Write (key, serialised example) pairs to the file `path`."""
        pairs = (
            (key, self._parse(data).SerializeToString(deterministic=True)) for key, data in examples
        )
        return self._writer.write(path, pairs)


def _features(tfds: Any, dataset: Dataset) -> Any:
    split = dataset.split(next(iter(dataset.info["splits"])))
    shapes: dict[str, tuple[int | None, ...]] = {
        name: value.shape[1:] for name, value in split.columns.items() if name != "token_start"
    }
    shapes["tokens"] = (None,)
    return tfds.features.FeaturesDict(
        {
            # The default encoding writes element by element, ten times slower.
            name: tfds.features.Tensor(
                shape=shape, dtype=split.columns[name].dtype.type, encoding="bytes"
            )
            for name, shape in shapes.items()
        }
    )


def _examples(split: Split) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    # Plain arrays: indexing a memory map row by row is many times slower.
    columns = {name: np.asarray(value) for name, value in split.columns.items()}
    tokens, start = columns.pop("tokens"), columns.pop("token_start")
    for row in range(len(split)):
        example = {name: value[row] for name, value in columns.items()}
        yield row, example | {"tokens": tokens[start[row] : start[row + 1]]}
