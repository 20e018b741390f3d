"""A prompted run from command line to report: killed, failing, in parts, scored again."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from plugged import Failing

from mmgen.compare import compare
from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.prompting import generate, respondent
from mmgen.prompting.describe import describe
from mmgen.prompting.rescore import rescore
from mmgen.prompting.run import INCOMPLETE, RECORDS, run
from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parent.parent
ITEMS = 30


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What the slow backend was asked, as a function."""
    path = tmp_path / "asked.txt"
    monkeypatch.setenv("MMGEN_TEST_ASKED", str(path))
    return lambda: path.read_text().split() if path.exists() else []


def config_of(data_dir, argument="", **keys):
    config = prompting_config()
    config.name = "macid"
    config.data_dir = data_dir
    config.logging.progress = False
    config.macid.scoring = "generate"
    config.update(keys)
    return apply_arguments(config, f"limit={ITEMS},{argument}")


def records(folder) -> str:
    return (folder / RECORDS).read_text()


def summary(folder) -> dict:
    return json.loads((folder / "summary.json").read_text())


def test_a_finished_run_has_everything_and_is_not_asked_again(data_dir, tmp_path, capsys):
    config = config_of(data_dir, "model=fake:perfect")
    folder = tmp_path / "run"
    assert run(config, str(folder), "--the command") == 0
    facts = summary(folder)
    assert facts["metrics"]["generate/accuracy"] == 1.0
    assert facts["stages"]["generate"]["answered"] == ITEMS
    assert (facts["dataset"], facts["world"], facts["command"]) == (
        "push_world",
        True,
        "--the command",
    )
    assert (folder / "DONE").exists()
    assert "built-in world" in (folder / "report.md").read_text()
    before = (folder / "answers" / "answers.jsonl").read_bytes()
    capsys.readouterr()
    assert run(config, str(folder)) == 0
    assert "This run is finished" in capsys.readouterr().out
    assert (folder / "answers" / "answers.jsonl").read_bytes() == before


def test_a_killed_run_loses_only_what_is_in_flight(data_dir, tmp_path, asked, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    model = "mmgen_test.plugged:make_slow"
    (tmp_path / "mmgen_test").mkdir()
    (tmp_path / "mmgen_test" / "plugged.py").write_text((HERE / "plugged.py").read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    config = config_of(data_dir, f"model={model}")
    run(config, str(tmp_path / "whole"))
    unbroken = asked()
    folder = tmp_path / "killed"
    environment = os.environ | {
        "PYTHONPATH": f"{REPOSITORY}:{tmp_path}",
        "MMGEN_TEST_PAUSE": "0.1",
        "JAX_PLATFORMS": "cpu",
    }
    arguments = [f"configs/macid.py:limit={ITEMS},scoring=generate,model={model}"]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mmgen.main", f"--config={arguments[0]}"),
            *(f"--config.data_dir={data_dir}", f"--workdir={folder}"),
            "--config.logging.progress=False",
        ],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    answers = folder / "answers" / "answers.jsonl"
    deadline = time.monotonic() + 60
    while not (answers.exists() and answers.read_bytes().count(b"\n") >= 5):
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(UserError, match="another process"):
        run(config, str(folder))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    there = answers.read_bytes().count(b"\n")
    assert 5 <= there < ITEMS
    before = len(asked())
    assert run(config, str(folder)) == 0
    assert len(asked()) - before == ITEMS - there
    assert before - len(unbroken) - there <= 1
    assert records(folder) == records(tmp_path / "whole")


def test_failures_are_counted_told_and_asked_again(data_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate, "RETRY_SECONDS", 0.0)
    (tmp_path / "mmgen_test2").mkdir()
    (tmp_path / "mmgen_test2" / "again.py").write_text("from plugged import make_failing\n")
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.syspath_prepend(str(tmp_path))
    config = config_of(data_dir, "model=mmgen_test2.again:make_failing")
    folder = tmp_path / "run"
    Failing.failures = 7
    assert run(config, str(folder)) == INCOMPLETE
    out = capsys.readouterr().out
    assert "7 requests failed" in out
    assert "out of luck" in out
    assert "**7 requests have no answer" in out
    facts = summary(folder)
    assert facts["metrics"]["generate/accuracy"] == 1.0
    assert facts["metrics"]["generate/accuracy/n"] == ITEMS - 7
    assert not (folder / "DONE").exists()
    assert run(config, str(folder)) == 0
    assert summary(folder)["metrics"]["generate/accuracy/n"] == ITEMS
    assert (folder / "DONE").exists()


def test_parts_give_the_answers_of_the_whole(data_dir, tmp_path):
    whole = tmp_path / "whole"
    run(config_of(data_dir, "model=fake:random"), str(whole))
    parts = [str(tmp_path / f"part{number}") for number in range(2)]
    for number, part in enumerate(parts):
        config = config_of(data_dir, "model=fake:random", shard=f"{number}/2")
        assert run(config, part) == 0
        assert not (pathlib.Path(part) / "summary.json").exists()
    again = tmp_path / "again"
    assert run(config_of(data_dir, "model=fake:random", reuse=tuple(parts)), str(again)) == 0
    assert records(again) == records(whole)
    assert summary(again)["stages"]["generate"]["seconds"] == 0.0


def test_each_stage_alone(data_dir, tmp_path):
    folder = tmp_path / "run"
    argument = "model=fake:biased"
    assert run(config_of(data_dir, argument, only="generate"), str(folder)) == 0
    assert not (folder / "summary.json").exists()
    assert run(config_of(data_dir, argument, only="score"), str(folder)) == 0
    first = summary(folder)
    (folder / "summary.json").unlink()
    scores = rescore(Workdir(folder), from_checkpoint=False)
    assert scores == first["metrics"] == summary(folder)["metrics"]


def test_answers_alone_are_judged_later_by_another_run(data_dir, shape_world, tmp_path):
    def config(**keys):
        made = prompting_config()
        made.benchmark = made.name = "cobsat"
        made.data_dir = data_dir
        made.dataset.name = str(shape_world.root)
        made.limit = 2
        made.logging.progress = False
        made.cobsat.task = ("Color-I",)
        made.model.spec = "fake:perfect"
        made.update(keys)
        return made

    alone, judged = tmp_path / "alone", tmp_path / "judged"
    assert run(config(only="generate"), str(alone)) == 0
    again = config(reuse=(str(alone),))
    again.judge.spec = "words"
    assert run(again, str(judged)) == 0
    assert summary(judged)["metrics"]["joint"] == 1.0
    assert summary(judged)["stages"]["generate"]["seconds"] == 0.0
    with pytest.raises(UserError, match="holds no answers of a model"):
        run(config(reuse=(str(tmp_path / "nothing"),)), str(tmp_path / "third"))


def test_scoring_alone_opens_no_model(data_dir, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    run(config_of(data_dir, "model=fake:biased", only="generate"), str(folder))
    monkeypatch.setattr(
        respondent, "open_backend", lambda *_, **__: pytest.fail("a model was opened")
    )
    assert run(config_of(data_dir, "model=fake:biased", only="score"), str(folder)) == 0
    with pytest.raises(UserError, match="holds no answers yet"):
        run(config_of(data_dir, "model=fake:biased", only="score"), str(tmp_path / "new"))


def test_score_without_answers_and_other_refusals(data_dir, tmp_path):
    empty = tmp_path / "empty"
    config = config_of(data_dir, "model=fake:biased", only="score")
    with pytest.raises(UserError, match="holds no answers yet"):
        run(config, str(empty))
    assert not (empty / "summary.json").exists()
    with pytest.raises(UserError, match=r"model\.spec"):
        run(config_of(data_dir, "model=fake:random"), str(empty))
    with pytest.raises(UserError, match="has no checkpoint"):
        rescore(Workdir(empty), from_checkpoint=True)
    with pytest.raises(UserError, match="Unknown argument 'shot'"):
        config_of(data_dir, "shot=5")
    with pytest.raises(UserError, match=r"config\.macid\.prompt is 'papers'"):
        run(config_of(data_dir, "prompt=papers"), str(tmp_path / "x"))
    with pytest.raises(UserError, match=r"config\.shard is '4/4'"):
        run(config_of(data_dir, "", shard="4/4"), str(tmp_path / "y"))


@pytest.mark.parametrize("role", ["model", "judge"])
@pytest.mark.parametrize(
    "address",
    [
        "https://me:sk-secret@host/v1#m",
        "https://host/v1?api-key=sk-secret#m",
        "https://host/v1#m?api-key=sk-secret",
        "me:sk-secret@host/v1#m",
        "https://me:sk-secret#1@host/v1#m",
    ],
)
def test_an_address_that_holds_a_key_is_refused_before_anything_is_written(
    data_dir, tmp_path, role, address
):
    folder = tmp_path / "run"
    config = config_of(data_dir, "model=fake:perfect")
    with config.unlocked():
        config[role].spec = f"server:{address}"
    with pytest.raises(UserError, match="MMGEN_API_KEY") as refused:
        run(config, str(folder), command=f"--config.{role}.spec=server:{address}")
    assert "sk-secret" not in str(refused.value)
    assert not folder.exists()


@pytest.mark.parametrize(
    "address", ["http://localhost:8000/v1#org/name@r1", "https://[::1]:80/v1#m", "http://host#m"]
)
def test_an_ordinary_address_is_taken(data_dir, address):
    assert f"server:{address}" in describe(config_of(data_dir, f"model=server:{address}"))


def test_describe_shows_the_first_prompt_without_asking(data_dir):
    text = describe(config_of(data_dir, "prompt=harness,model=jax:/nowhere"))
    assert "stage generate asks the model: 30 requests" in text
    assert "[text] In questo task" in text
    assert "Intruso: " in text


def test_two_runs_are_compared_item_by_item(data_dir, tmp_path):
    for name in ("perfect", "constant"):
        run(config_of(data_dir, f"model=fake:{name}"), str(tmp_path / name))
    scores, flips = compare(str(tmp_path / "perfect"), str(tmp_path / "constant"))
    ((part, measure, items, first, second, difference, *_, away),) = scores.rows
    assert (part, measure, items, first, away) == ("generate", "right", ITEMS, 1.0, "yes")
    assert difference == pytest.approx(first - second)
    assert flips.rows
    assert {row[0] for row in flips.rows} == {"A right"}
    assert all(row[2] == row[3] != row[4] == "1" for row in flips.rows)
    run(config_of(data_dir, "model=fake:perfect,data_seed=1"), str(tmp_path / "other"))
    with pytest.raises(UserError, match="different data"):
        compare(str(tmp_path / "perfect"), str(tmp_path / "other"))
