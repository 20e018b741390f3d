"""The notebook: what it shows was really run, and its cells still run."""

import importlib.util
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOK = json.loads((ROOT / "examples" / "visCOLL.ipynb").read_text())


def code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(cell):
    """What a cell's outputs are, without what they say."""
    return [output.get("name") or next(iter(output["data"])) for output in cell["outputs"]]


def printed(cell):
    return "".join(
        "".join(output.get("text", ())) + output.get("data", {}).get("text/plain", "")
        for output in cell["outputs"]
    )


@pytest.fixture(scope="module")
def executor():
    path = ROOT / "examples" / "execute_notebook.py"
    spec = importlib.util.spec_from_file_location("execute_notebook", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_cell_was_run_in_order_and_shows_something():
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert [cell["execution_count"] for cell in code(NOTEBOOK)] == [1, 2, 3, 4, 5]
    assert all(cell["outputs"] for cell in code(NOTEBOOK))
    assert kinds(code(NOTEBOOK)[-1]) == ["image/png"]
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
    for cell in code(NOTEBOOK):
        assert not re.search(r"(^|[\s'\"])/\w", printed(cell)), "no path of the machine it ran on"


def test_outputs_are_captured(executor):
    names = {}
    assert executor.run_cell("x = 2\nprint(x)\nx + 1", names) == [
        {"output_type": "stream", "name": "stdout", "text": ["2\n"]},
        {"output_type": "display_data", "data": {"text/plain": "3"}, "metadata": {}},
    ]
    assert executor.run_cell("x + 1;", names) == [] and names["x"] == 2


@pytest.mark.slow
def test_the_cells_run(executor, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    executed = executor.execute(NOTEBOOK, {})
    for ours, shown in zip(code(executed), code(NOTEBOOK), strict=True):
        assert kinds(ours) == kinds(shown)
    # The world is the same everywhere; a trained model only to rounding.
    scores = [printed(code(notebook)[1]).split() for notebook in (executed, NOTEBOOK)]
    exact = [words[words.index("test/optimum") :][:5] for words in scores]
    assert exact[0] == exact[1]
    for ours, shown in zip(*scores, strict=True):
        if "." in ours:
            assert float(ours) == pytest.approx(float(shown), abs=0.1)
