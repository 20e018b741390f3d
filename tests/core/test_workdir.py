"""A workdir has whole files, one owner at a time, and one run for ever."""

import errno
import os
import time

import pytest

from mmgen.core.workdir import TEMPORARY, Workdir
from mmgen.errors import UserError

from . import children


def files(path):
    """Names of everything in a folder."""
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    workdir = Workdir(tmp_path)
    workdir.write_lines("evals/test/5.jsonl", ["old"])

    def lines():
        yield "new"
        raise RuntimeError("while making the second line")

    with pytest.raises(RuntimeError):
        workdir.write_lines("evals/test/5.jsonl", lines())
    assert (tmp_path / "evals/test/5.jsonl").read_text() == "old\n"
    assert files(tmp_path) == ["evals", "evals/test", "evals/test/5.jsonl"]


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "Permission denied")]
)
def test_a_disk_error_is_one_sentence_naming_the_file(tmp_path, monkeypatch, code, words):
    def fail(descriptor):
        raise OSError(code, os.strerror(code))

    workdir = Workdir(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match=f"{words}.*|summary.json") as caught:
        workdir.write_json("summary.json", {"a": 1})
    assert words in str(caught.value)
    assert "summary.json" in str(caught.value)
    assert files(tmp_path) == []


def test_a_second_process_is_refused_until_the_first_ends(tmp_path):
    other = children.start(children.hold, str(tmp_path), 60)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    with pytest.raises(UserError, match=f"process {other.pid}.*is using {tmp_path}"):
        Workdir(tmp_path).lock().__enter__()
    other.kill()
    children.status(other)
    with Workdir(tmp_path).lock():
        pass


def test_a_lock_may_be_nested_and_is_given_back(tmp_path):
    workdir = Workdir(tmp_path)
    with workdir.lock():
        with workdir.lock():
            pass
        with pytest.raises(UserError, match="is using"):
            Workdir(tmp_path).lock().__enter__()
    with Workdir(tmp_path).lock():
        pass


def test_the_next_owner_clears_what_a_killed_one_left(tmp_path):
    left = tmp_path / "evals" / "test" / f".5.jsonl{TEMPORARY}123"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    with Workdir(tmp_path).lock():
        assert not left.exists()


def test_the_same_run_may_come_back(tmp_path):
    identity = {"optimizer": {"learning_rate": 1e-4, "betas": (0.9, 0.999)}, "seed": 1}
    Workdir(tmp_path).claim(identity, {"name": "a"})
    Workdir(tmp_path).claim(identity, {"name": "b"})
    config = Workdir(tmp_path).read_json("config.json")
    assert config["identity"]["optimizer"]["learning_rate"] == 1e-4
    assert config["operational"] == {"name": "b"}


def test_another_run_is_refused_and_the_differing_keys_are_named(tmp_path):
    Workdir(tmp_path).claim({"optimizer": {"eps": 1e-4, "name": "adamw"}, "seed": 1})
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(UserError) as caught:
        Workdir(tmp_path).claim({"optimizer": {"eps": 1e-8, "name": "adamw"}, "data_seed": 2})
    sentence = str(caught.value)
    assert "optimizer.eps (0.0001 there, 1e-08 now)" in sentence
    assert "data_seed (absent there, 2 now)" in sentence
    assert "seed (1 there, absent now)" in sentence
    assert "optimizer.name" not in sentence
    assert (tmp_path / "config.json").read_bytes() == before


@pytest.mark.parametrize("text", ["{", "[]", '{"identity": 3}'])
def test_a_broken_config_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json"):
        Workdir(tmp_path).claim({"seed": 1})


def test_results_without_a_config_are_not_taken_over(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(UserError, match=r"metrics\.jsonl but no config\.json"):
        Workdir(tmp_path).claim({"seed": 1})


def test_done_is_said_once_everything_is_written(tmp_path):
    workdir = Workdir(tmp_path)
    assert not workdir.is_done
    workdir.mark_done()
    assert Workdir(tmp_path).is_done
