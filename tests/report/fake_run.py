"""Workdirs of runs that never took place: files with the right names and plausible numbers."""

import json

import numpy as np

from mmgen.core.workdir import Workdir
from mmgen.evaluation.context import write_context
from mmgen.evaluation.predictions import record_path, write_records
from mmgen.evaluation.scores import SUBSET, score_run

TASKS = ["dog", "cat", "bird"]
PAIRS = [
    {"name": "red_dog", "atom": "red", "noun": "dog", "kind": "adjective", "novel": False},
    {"name": "big_dog", "atom": "big", "noun": "dog", "kind": "adjective", "novel": False},
    {"name": "red_cat", "atom": "red", "noun": "cat", "kind": "adjective", "novel": True},
    {"name": "sit_cat", "atom": "sit", "noun": "cat", "kind": "verb", "novel": False},
    {"name": "sit_dog", "atom": "sit", "noun": "dog", "kind": "verb", "novel": True},
]
TOKENS = ["[PAD]", "a", "red", "big", "sit", "dog", "cat", "bird", "##s"]
STEPS = (10, 20, 30)
ITEMS = 60

CONFIG = {
    "seed": 0,
    "data_seed": 0,
    "profile": "paper",
    "text_only": "",
    "dataset.name": "coco_shift_devtrain",
    "dataset.fingerprint": "f" * 64,
    "stream.kind": "shift",
    "stream.order": "random",
    "model.factory": "vlbert",
    "algorithm.name": "plain",
    "algorithm.aggregate": "avg",
    "memory.policy": "none",
    "memory.size": None,
    "memory.capacity": 0,
    "optimizer.learning_rate": 1e-4,
}
ER = {"algorithm.name": "er", "memory.policy": "reservoir", "memory.size": "10k"}


def make_context():
    share = np.eye(3, dtype=int).repeat(4, axis=1) * 10
    return {
        "dataset": {
            "name": "coco_shift_devtrain",
            "fingerprint": "f" * 64,
            "tasks": TASKS,
            "pairs": PAIRS,
            "vocabulary": {"rows": 9, "size": 9},
            "world": False,
            "paper_size": 639_592,
            "splits": {"train": {"examples": 120, "tasks": 3}, "test": {"examples": ITEMS}},
        },
        "batch_size": 4,
        "steps": list(STEPS),
        "schedule": "even",
        "min_task_items": 5,
        "task_items": [20, 20, 20],
        "determiners": [1],
        "exposure": {
            "size": [40, 40, 40],
            "end_example": [39, 79, 119],
            "seen": [[1, 1, 1], [0, 1, 1], [0, 0, 1]],
        },
        "pairs_in_stream": [5, 5, 0, 5, 0],
        "density": {
            "examples": 120,
            "tasks": share.tolist(),
            "pairs": [row.tolist() for row in np.tile(share[:1], (5, 1))],
        },
        "baselines": {"test/unigram/log_ppl": 4.85, "test/span_unigram/log_ppl": 4.13},
        "tokens": TOKENS,
        "examples": [
            {"id": 0, "caption": [1, 2, 5, 8], "span": [0, 3]},
            {"id": 1, "caption": [4, 1, 6], "span": [1, 3]},
        ],
    }


def make_records(novel, loss, rng):
    wanted = [i for i, pair in enumerate(PAIRS) if pair["novel"] == novel]
    rows = []
    for identity in range(ITEMS):
        pair = wanted[identity % len(wanted)]
        noise = np.round(loss + 0.1 * rng.random(3), 6).tolist()
        target = [1, 2, 5 + identity % 3]
        rows.append(
            {
                "id": identity,
                "task": identity % 3,
                "image": 100 + identity // 2,
                "target": target,
                "prediction": target if identity % 2 == 0 else [1, 3, 6],
                "nll": noise,
                "pair": pair,
                "pair_nll": noise[1:],
            }
        )
    return rows


def make_run(root, seed=0, loss=3.0, finished=True, fingerprint="f" * 64, **config):
    """A workdir below `root` whose final loss is about `loss`; returns its path."""
    config = CONFIG | config | {"seed": seed, "dataset.fingerprint": fingerprint}
    label = f"{config['algorithm.name']}{config['memory.size']}{config['text_only']}"
    path = root / f"{label}-{config['stream.order']}-{fingerprint[0]}-s{seed}"
    workdir = Workdir(path)
    workdir.write_json("config.json", {"identity": config, "operational": {}})
    if not finished:
        return path
    context = make_context()
    write_context(path, context)
    rng = np.random.default_rng([seed, int(100 * loss)])
    for step in STEPS:
        at = loss + (STEPS[-1] - step) / 20 + 0.01 * seed
        final = step == STEPS[-1]
        write_file(path, "test" if final else "test" + SUBSET, step, make_records(False, at, rng))
        if final:
            write_file(path, "novel", step, make_records(True, at + 1, rng))
    workdir.write_json(
        "summary.json",
        {
            "name": f"visCOLL_{label}",
            "dataset": "coco_shift_devtrain",
            "fingerprint": fingerprint,
            "profile": config["profile"],
            "seed": seed,
            "data_seed": 0,
            "steps": STEPS[-1],
            "metrics": score_run(path, context),
            "parameters": 1234,
            "small": True,
            "memory": {"capacity": config["memory.capacity"], "share": 0.1},
            "stream": {"task_time_information": 0.71},
            "wall_seconds": 3600.0,
            "device": {"kind": "cpu", "devices": 1},
            "git": {"commit": "0123456789abcdef", "dirty": False},
            "config": config,
        },
    )
    return path


def write_file(path, split, step, records):
    file = record_path(path, split, step)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_records(file, records)


def read_json(path):
    return json.loads(path.read_text())
