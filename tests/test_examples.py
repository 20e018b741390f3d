"""The templates for parts of one's own: each runs, and is as short as it is promised to be."""

import ast
import json
import pathlib

import jax
import numpy as np
import pytest

from examples import own_metric, own_model
from mmgen.data import build
from mmgen.errors import UserError
from mmgen.evaluation.own_metrics import own_metrics
from mmgen.evaluation.predictions import as_table, read_records
from mmgen.run import run
from mmgen.settings.command_line import parse_config

ROOT = pathlib.Path(__file__).parents[1]
TEMPLATES = sorted((ROOT / "examples").glob("own_*.py"))
PARTS = (
    "--config.algorithm.name=examples.own_algorithm:make",
    "--config.model.factory=examples.own_model:make",
    "--config.metrics=examples.own_metric:measure",
    "--config.logging.progress=False",
    "--config.checkpoint.every=100",
)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_is_short_and_says_how_it_is_used(path):
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert "python -m mmgen." in docstring and f"examples.{path.stem}:" in docstring
    code = text.split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 24


def test_the_readme_shows_the_template_of_an_algorithm():
    assert (ROOT / "examples" / "own_algorithm.py").read_text() in (ROOT / "README.md").read_text()


def trained(workdir, config, *arguments):
    run(parse_config([f"--config={ROOT}/configs/{config}", *PARTS, *arguments]), str(workdir))
    return json.loads((workdir / "summary.json").read_text())


def test_algorithm_model_and_metric_on_the_smoke_world(tmp_path):
    summary = trained(
        tmp_path / "run", "visCOLL_er10k.py:smoke", f"--config.data_dir={tmp_path}/prepared"
    )
    metrics = summary["metrics"]
    assert summary["dataset"] == "scene_world" and summary["steps"] == 20
    assert 0 < metrics["test/last_word_accuracy"] <= 1
    assert metrics["test/span_accuracy"] <= metrics["test/last_word_accuracy"]
    assert metrics["test/accuracy_token"] > 0
    (last, *_) = sorted((tmp_path / "run/evals/test").iterdir(), reverse=True)
    table = as_table(read_records(last))
    right = [
        all(table.prediction[i, j] == table.target[i, j] for j in np.flatnonzero(table.mask[i]))
        for i in range(len(table))
    ]
    assert metrics["test/span_accuracy"] == pytest.approx(np.mean(right))
    assert own_metric.measure(table, {})["span_accuracy"] == pytest.approx(np.mean(right))


def test_a_data_set_of_ones_own(tmp_path, capsys):
    build.main(["examples.own_dataset:build", f"--out={tmp_path}", "--no-tfds"])
    assert "data set toys" in capsys.readouterr().out
    summary = trained(
        tmp_path / "run",
        "visCOLL_er10k.py:text_only,dataset=toys,size=smoke",
        f"--config.data_dir={tmp_path}",
        "--config.total.steps=8",
    )
    assert (summary["dataset"], summary["licences"]) == ("toys", ["CC0"])
    assert summary["metrics"]["test/log_ppl"] > 0


def test_what_cannot_be_imported_is_named():
    with pytest.raises(UserError, match=r"config\.metrics='nowhere:f' cannot be imported"):
        own_metrics("examples.own_metric:measure, nowhere:f")
    with pytest.raises(UserError, match=r"NAME='examples.own_dataset:biuld' cannot be imported"):
        build.main(["examples.own_dataset:biuld", "--out=x"])


def test_padding_does_not_change_the_model():
    def outputs(length):
        tokens = np.zeros((1, length), np.int32)
        tokens[0, :4] = 1, 2, 5, 3
        batch = {
            "tokens": tokens,
            "text_mask": tokens != 0,
            "image_feature": np.ones((1, 6), np.float16),
            "span_positions": np.array([[2, 0]], np.int32),
        }
        model = own_model.make(vocabulary_rows=9, hidden=8, layers=1)
        params = model.init(jax.random.key(0), batch)
        return np.asarray(model.apply(params, batch))

    np.testing.assert_allclose(outputs(4), outputs(16), rtol=1e-6)
