"""Workdirs of CompAct runs that never took place: right names, predictions made up."""

import json

import numpy as np
from small_compact import make_dataset

from mmgen.compact.context import make_context
from mmgen.compact.records import CURVE, TASKS, make_records
from mmgen.compact.scores import score_run
from mmgen.core.workdir import Workdir
from mmgen.evaluation.context import write_context
from mmgen.evaluation.predictions import record_path, write_records

INPUTS = {"L": (), "VL": ("vision+objects",), "AVL": ("vision+objects", "audio")}
EPOCHS, STEPS = 2, 20


def make_run(
    root, model="L", seed=0, task="utterance", right=1, curves=False, extra=(), keys=None, **data
):
    """A workdir below `root` whose first `right` test items are right; returns its path.

    Args:
      extra: names of what a built-in world knows, each 0.5 everywhere.
      keys: of its config, besides the usual ones.
      data: see `make_dataset`.
    """
    name = (
        f"{data.get('split', 'mcd')}{''.join(key[0] for key in ('world', 'own') if data.get(key))}"
    )
    folder = root / "data" / name
    dataset = make_dataset(folder, **data) if not folder.exists() else reopen(folder)
    path = root / "runs" / f"{name}-{model}-{task}-s{seed}"
    context = make_context(dataset, task=task, splits=["validation", "test"])
    write_context(path, context)
    instances = dataset.split("test")
    truth = [one[TASKS[task]] for one in instances]
    wrong = {"utterance": "put_down knife", "verb": "put_down", "noun": "lid"}[task]

    def save(split, step, count):
        answers = [*truth[:count], *[wrong] * (len(truth) - count)]
        known = {key: np.full(len(truth), 0.5) for key in extra}
        rows = np.arange(len(truth))
        records = make_records(instances, dataset.unseen("test"), task, rows, answers, extra=known)
        write_records(record_path(path, split, step), records)

    for split in ("validation", "test"):
        save(split, STEPS, right)
    if curves:
        for step in (10, 20):
            save("test" + CURVE, step, right * step // STEPS)
    config = {
        "kind": "compact",
        "seed": seed,
        "data_seed": 0,
        "task": task,
        "model.language": "words",
        "model.classifier": 64 if data.get("world") else 128,
        "model.inputs": list(INPUTS[model]),
        "dataset.name": dataset.info["name"],
        "dataset.fingerprint": dataset.info["fingerprint"],
        **(keys or {}),
    }
    workdir = Workdir(path)
    workdir.write_json("config.json", {"identity": config, "operational": {}})
    workdir.write_json(
        "summary.json",
        {
            "name": f"compact_{model.lower()}",
            "kind": "compact",
            "dataset": dataset.info["name"],
            "fingerprint": dataset.info["fingerprint"],
            "profile": "paper",
            "seed": seed,
            "data_seed": 0,
            "task": task,
            "steps": STEPS,
            "epochs": EPOCHS,
            "metrics": score_run(path, context),
            "parameters": 4_500_000,
            "labels": None if task == "utterance" else {"rows": 825, "fingerprint": "0"},
            "small": False,
            "wall_seconds": 600.0,
            "device": {"kind": "cpu", "devices": 1},
            "git": {"commit": "0123456789abcdef", "dirty": False},
            "config": config,
        },
    )
    return path


def reopen(folder):
    from mmgen.data.compact.dataset import open_compact

    return open_compact(next(folder.iterdir()))


def read_json(path):
    return json.loads(path.read_text())
