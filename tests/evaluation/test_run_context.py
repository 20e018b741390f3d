"""When the tasks of a run end, by what the run itself read."""

from types import SimpleNamespace

import numpy as np
import pytest

from mmgen.data.run_data import training_stream
from mmgen.run import run_context
from mmgen.settings.defaults import default_config


def exposure(dataset, kind, **total):
    """Size and end of the two tasks, whose four examples are read two at a time."""
    config = default_config()
    config.stream.kind, config.stream.bin_width, config.stream.spread_floor = kind, 1, 0
    config.stream.order, config.stream.reshuffle = "ascending", False
    config.batch_size, config.evaluation.splits = 2, ("test",)
    config.total.update(total)
    dataset.info["splits"]["test"] = {}
    rows, steps = training_stream(config, dataset)
    experiment = SimpleNamespace(
        config=config, dataset=dataset, stream_rows=rows, eval_steps=(steps,)
    )
    task = np.asarray(dataset.split("train").columns["task"])[rows[rows >= 0]]
    found = run_context(experiment)["exposure"]
    return task.tolist(), found["size"], found["end_example"]


@pytest.mark.parametrize(
    ("total", "shown"), [({}, 4), ({"steps": 1}, 2), ({"epochs": 0.75}, 3), ({"epochs": 2.0}, 8)]
)
def test_a_shifting_run_is_measured_by_what_it_read(dataset, total, shown):
    task, size, end = exposure(dataset, "shift", **total)
    assert sum(size) == len(task) == shown
    assert size == [task.count(k) for k in (0, 1)]
    # Of so few examples 98 % are all: a task ends with its last one, in the last pass.
    assert end == [len(task) - 1 - task[::-1].index(k) if k in task else -1 for k in (0, 1)]


def test_an_iid_run_is_measured_by_the_shifting_stream(dataset):
    _, *shifting = exposure(dataset, "shift")
    assert exposure(dataset, "iid")[1:] == tuple(shifting)
    assert exposure(dataset, "iid_epochs", epochs=2.0)[1:] == tuple(shifting)
