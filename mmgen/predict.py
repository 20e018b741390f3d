"""Predicts a prepared data set with a trained run.

    python -m mmgen.predict --workdir RUN [--data DATASET] [--split test] --out FILE.jsonl

DATASET is the folder of any prepared data set with the vocabulary of the run; without it the run's
own data are predicted. FILE gets one prediction record per item, as in the run's evals/ (see
mmgen/evaluation/predictions.py); the scores are printed. The run is only read.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import jax
from etils import epath

from mmgen.core.mesh import make_mesh, param_shardings, placed_shapes
from mmgen.core.rng import stream_key
from mmgen.core.weights import read_weights
from mmgen.data.columns import Dataset, open_dataset
from mmgen.data.locate import locate
from mmgen.data.run_data import check_features, example_batch, split_buckets
from mmgen.errors import UserError
from mmgen.evaluate import score_table
from mmgen.evaluation.predictions import RecordWriter, as_table, read_records
from mmgen.evaluation.scores import Scores, score_split
from mmgen.experiment import make_task
from mmgen.report.tables import markdown
from mmgen.run import predict_split
from mmgen.settings.command_line import fail
from mmgen.tasks.base import Task
from mmgen.trained import Trained, open_trained


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for.

    Raises:
      UserError: no trained masked-span run, no such split, or data that the run cannot read.
    """
    parser = argparse.ArgumentParser(
        "python -m mmgen.predict",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--data", help="folder of a prepared data set (default: the run's own)")
    parser.add_argument("--split", default="test", help="test, novel, ... (default: test)")
    parser.add_argument("--out", required=True, help="file for the predictions")
    options = parser.parse_args(arguments)
    trained = open_trained(options.workdir)
    dataset = open_dataset(options.data) if options.data else locate(trained.config)
    scores = predict(trained, dataset, options.split, options.out)
    print(f"{trained.config.name} on {dataset.info['name']}, {options.split}: {options.out}")
    print(markdown(score_table(scores)))


def predict(trained: Trained, dataset: Dataset, split: str, out: epath.PathLike) -> Scores:
    """Writes the prediction records of a split to `out`; returns its scores.

    Raises:
      UserError: `dataset` has no such split, another vocabulary, or other features than the run.
    """
    trained.check_vocabulary(dataset)
    config = trained.config
    dataset.split(split)
    check_features(config, dataset)
    task, _ = make_task(config, dataset)
    mesh = make_mesh()
    buckets = split_buckets(config, dataset, split, config.evaluation.batch_size)
    example = example_batch(config, dataset, split, buckets[0])
    params = _weights(trained, task, example, mesh)
    path = epath.Path(out)
    with RecordWriter(path) as records:
        for batch in predict_split(config, dataset, task, params, mesh, split):
            records.add(batch)
    return score_split(as_table(read_records(path)), split, trained.context, final=False)


def _weights(trained: Trained, task: Task, example: dict[str, Any], mesh: jax.sharding.Mesh) -> Any:
    shapes = jax.eval_shape(lambda key: task.init(key, example), stream_key(0, "init"))
    placed = placed_shapes(shapes, param_shardings(shapes, mesh))
    return read_weights(trained.checkpoints, placed).params


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        fail(error)
