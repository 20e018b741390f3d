"""Predictions of a trained run on its own and on other data; the run is only read."""

# ruff: noqa: F401, F811 (fixtures of another folder are imported)

import json
import shutil
import sys

import numpy as np
import pytest
from e2e.conftest import bench, unbroken
from e2e.running import run_command

from mmgen import predict
from mmgen.data.columns import open_dataset
from mmgen.data.locate import locate
from mmgen.errors import UserError
from mmgen.trained import open_trained


@pytest.fixture
def data(unbroken):
    """Folder of the data set that the run was trained on."""
    return locate(open_trained(unbroken).config).root


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_its_own_split_is_predicted_as_when_it_was_evaluated(unbroken, tmp_path):
    """Bit for bit, hence compiled as the run was."""
    before = files(unbroken)
    out = tmp_path / "new" / "novel.jsonl"
    command = (sys.executable, "-m", "mmgen.predict", "--workdir", str(unbroken))
    result = run_command(*command, "--split=novel", "--out", str(out))
    assert result.returncode == 0, result.stderr
    assert out.read_bytes() == (unbroken / "evals" / "novel" / "00000020.jsonl").read_bytes()
    assert files(unbroken) == before
    score = json.loads((unbroken / "summary.json").read_text())["metrics"]["novel/log_ppl"]
    assert f"{score:.4f}" in result.stdout


def test_other_data_with_the_same_words_are_predicted(unbroken, data, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(data, other)
    info = json.loads((other / "dataset.json").read_text())
    # Only what is predicted has to be there.
    info |= {"name": "other", "splits": {"validation": info["splits"]["validation"]}}
    (other / "dataset.json").write_text(json.dumps(info))
    out = tmp_path / "out.jsonl"
    arguments = ["--workdir", str(unbroken), "--data", str(other), "--split=validation"]
    predict.main([*arguments, "--out", str(out)])
    assert len(out.read_text().splitlines()) == 64


def test_other_words_are_refused(unbroken, data, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(data, other)
    words = (other / "vocab.txt").read_text().splitlines()
    words[20], words[21] = words[21], words[20]
    (other / "vocab.txt").write_text("\n".join(words) + "\n")
    out = tmp_path / "out.jsonl"
    with pytest.raises(UserError, match=r"another vocabulary .* the first difference is id 20"):
        predict.predict(open_trained(unbroken), open_dataset(other), "test", out)
    assert not out.exists()


def test_other_features_are_refused(unbroken, data, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(data, other)
    manifest = json.loads((other / "features" / "manifest.json").read_text())
    for name in ("features", "whole_image"):
        file = other / "features" / f"{name}.npy"
        np.save(file, np.load(file)[:, :16])
        manifest["shapes"][name][1] = 16
    (other / "features" / "manifest.json").write_text(json.dumps(manifest))
    info = json.loads((other / "dataset.json").read_text()) | {"feature_dim": 16}
    (other / "dataset.json").write_text(json.dumps(info))
    with pytest.raises(UserError, match="same feature width"):
        predict.predict(open_trained(unbroken), open_dataset(other), "test", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_folder_without_a_run_and_an_unknown_split_are_one_sentence(unbroken, tmp_path):
    out = ["--out", str(tmp_path / "out.jsonl")]
    with pytest.raises(UserError, match="no workdir of a run"):
        predict.main(["--workdir", str(tmp_path), *out])
    with pytest.raises(UserError, match="no split 'tes'"):
        predict.main(["--workdir", str(unbroken), "--split=tes", *out])


def test_a_run_of_another_kind_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"identity": {"kind": "compact"}}))
    out = tmp_path / "out.jsonl"
    with pytest.raises(UserError, match="is a run of kind compact"):
        predict.main(["--workdir", str(tmp_path), "--out", str(out)])
    assert not out.exists()
