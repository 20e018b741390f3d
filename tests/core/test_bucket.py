"""A workdir in a bucket: the code for gs:// runs, over a file system in memory."""

import errno
import importlib.util
from types import SimpleNamespace

import pytest
from etils.epath import backend
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry
from orbax.checkpoint._src.path import gcs_utils

from mmgen.core.checkpoint import Checkpointer
from mmgen.core.workdir import Workdir
from mmgen.core.writers import RunWriter, read_metrics
from mmgen.errors import UserError
from mmgen.evaluation.predictions import (
    RecordWriter,
    read_records,
    record_path,
    saved_evaluations,
)


class Bucket(MemoryFileSystem):
    """fsspec's memory:// under the name that gcsfs has."""

    protocol = ("gs", "gcs")
    store = {}  # noqa: RUF012 (as in the parent class, one for all)
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("gs://").removeprefix("gcs://"))


@pytest.fixture
def bucket(monkeypatch):
    """The address of an empty bucket."""
    for name in Bucket.protocol:
        monkeypatch.setitem(_registry, name, Bucket)
    monkeypatch.setattr(Bucket, "store", {})
    monkeypatch.setattr(Bucket, "pseudo_dirs", [""])
    # epath keeps the file systems that it has opened.
    backend._FileSystemSpecBackend._get_filesystem.cache_clear()
    yield "gs://bucket"
    backend._FileSystemSpecBackend._get_filesystem.cache_clear()


def test_a_bucket_is_written_whole_and_not_locked(bucket):
    workdir = Workdir(f"{bucket}/run")
    assert not workdir.is_local
    assert str(workdir.file("a/b.json")) == "gs://bucket/run/a/b.json"
    with workdir.lock():
        workdir.write_json("summary.json", {"a": 1})
        workdir.write_lines("evals/test/5.jsonl", ["one", "two"])
    assert workdir.read_json("summary.json") == {"a": 1}
    assert workdir.file("evals/test/5.jsonl").read_text() == "one\ntwo\n"
    # No temporary file beside them: an object in a bucket appears whole.
    assert sorted(path.name for path in workdir.root.iterdir()) == ["evals", "summary.json"]
    assert set(Bucket.store) == {"/bucket/run/evals/test/5.jsonl", "/bucket/run/summary.json"}


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EACCES, UserError), (errno.ENOSPC, UserError), (errno.ECONNRESET, OSError)],
)
def test_only_errors_that_come_again_are_the_users(bucket, monkeypatch, number, kind):
    """A connection that broke is worth another start, which status 2 would prevent."""

    def refuse(*args, **settings):
        raise OSError(number, "no")

    monkeypatch.setattr(Bucket, "_open", refuse)
    with pytest.raises(kind):
        Workdir(f"{bucket}/run").write_text("a", "b")


def test_a_bucket_belongs_to_one_run_and_is_done_once(bucket):
    workdir = Workdir(f"{bucket}/run")
    assert not workdir.is_done
    workdir.claim({"seed": 1})
    workdir.claim({"seed": 1})
    with pytest.raises(UserError, match=r"gs://bucket/run belongs to another run: seed"):
        workdir.claim({"seed": 2})
    workdir.mark_done()
    assert Workdir(f"{bucket}/run").is_done
    with pytest.raises(UserError, match=r"summary\.json is missing"):
        workdir.read_json("summary.json")


def test_numbers_in_a_bucket_are_cut_back_when_a_run_is_resumed(bucket):
    workdir = Workdir(f"{bucket}/run")
    writer = RunWriter(workdir, console=False)
    writer.resume(None)
    for step in (1, 2, 3):
        writer.scalars(step, {"train/loss": float(step)})
    writer.flush()
    assert [line["step"] for line in read_metrics(workdir)] == [1, 2, 3]
    writer.close()
    again = RunWriter(workdir, console=False)
    again.resume(2)
    again.scalars(3, {"train/loss": 30.0})
    again.close()
    assert [line["train/loss"] for line in read_metrics(workdir)] == [1.0, 2.0, 30.0]
    assert list(workdir.file("tb").glob("events.out.tfevents.*"))


def test_records_in_a_bucket_are_written_listed_and_read(bucket):
    record = {"id": 1, "nll": [0.5], "target": [3], "prediction": [4]}
    path = record_path(Workdir(f"{bucket}/run").root, "test", 5)
    with RecordWriter(path) as writer:
        writer.add([record, {**record, "id": 0}])
    assert [line["id"] for line in read_records(path)] == [0, 1]
    assert saved_evaluations(f"{bucket}/run") == {"test": [5]}
    assert len(Bucket.store) == 1


def test_checkpoints_in_a_bucket_are_opened_and_listed(bucket, monkeypatch):
    # Their arrays are written by TensorStore, which has a driver of its own for buckets; and Orbax
    # asks Google what kind of bucket it is.
    monkeypatch.setattr(gcs_utils, "get_bucket", lambda name: SimpleNamespace(name=name))
    checkpoints = Checkpointer(Workdir(f"{bucket}/run").file("checkpoints"))
    assert checkpoints.steps == []
    checkpoints.close()


@pytest.mark.skipif(
    importlib.util.find_spec("gcsfs") is not None
    or importlib.util.find_spec("tensorflow") is not None,
    reason="what opens buckets is installed here",
)
def test_a_bucket_that_cannot_be_opened_says_what_to_install():
    with pytest.raises(UserError) as caught:
        Workdir("gs://bucket/run")
    sentence = str(caught.value)
    assert "gs://bucket/run" in sentence and "gcsfs" in sentence
    assert "pip install -e '.[gcs]'" in sentence


def test_an_address_of_another_kind_is_refused():
    with pytest.raises(UserError, match=r"nowhere://bucket/run.*gs://"):
        Workdir("nowhere://bucket/run")
