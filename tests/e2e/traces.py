"""What a run leaves behind, in a form that can be compared."""

import json
import pathlib
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp


def summary(workdir: pathlib.Path) -> dict[str, Any]:
    """summary.json."""
    return json.loads((workdir / "summary.json").read_text())


def metric_lines(workdir: pathlib.Path) -> list[dict[str, Any]]:
    """metrics.jsonl without the keys that depend on the clock."""
    lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines]


def records(workdir: pathlib.Path) -> dict[str, str]:
    """Prediction records by path."""
    paths = sorted(workdir.glob("evals/*/*.jsonl"))
    return {str(path.relative_to(workdir)): path.read_text() for path in paths}


def final_state(workdir: pathlib.Path) -> dict[str, np.ndarray]:
    """Arrays of the newest checkpoint by path: parameters, moments, memory, step."""
    steps = [int(path.name) for path in (workdir / "checkpoints").iterdir() if path.name.isdigit()]
    folder = (workdir / "checkpoints" / str(max(steps)) / "state").absolute()
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with ocp.StandardCheckpointer() as reader:
        # To this device, whatever the devices it was saved on.
        target = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here),
            reader.metadata(folder).item_metadata.tree,
        )
        state = reader.restore(folder, target)
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
        for path, leaf in leaves
    }


def assert_bit_equal(workdir: pathlib.Path, expected: pathlib.Path) -> None:
    """Parameters, moments, memory, logged metrics, records and scores agree to the last bit."""
    states = final_state(workdir), final_state(expected)
    assert states[0].keys() == states[1].keys()
    for path, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][path], err_msg=path)
    assert metric_lines(workdir) == metric_lines(expected)
    assert records(workdir) == records(expected)
    assert summary(workdir)["metrics"] == summary(expected)["metrics"]
