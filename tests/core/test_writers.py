"""Curves are readable without TensorFlow, and end where a resumed run begins."""

import io
import json
import math
import shutil

import numpy as np
import pytest

from mmgen.core.clu_writers import ConsoleWriter
from mmgen.core.event_files import TensorBoardWriter
from mmgen.core.workdir import Workdir
from mmgen.core.writers import NullWriter, RunWriter, make_writer, read_metrics


def curves(path):
    """(step, value) of every scalar, by tag, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    accumulator = EventAccumulator(str(path), size_guidance={"tensors": 0})
    accumulator.Reload()
    return {
        tag: [
            (event.step, tensor_util.make_ndarray(event.tensor_proto).item())
            for event in accumulator.Tensors(tag)
        ]
        for tag in accumulator.Tags()["tensors"]
    }


def write_steps(workdir, steps, scale=1.0):
    """Write a loss at some steps."""
    writer = make_writer(workdir, console=False)
    for step in steps:
        writer.scalars(step, {"train/loss": step * scale, "time/rate": 7.0})
    writer.close()


def test_every_line_is_there_at_once_for_whoever_reads_along(tmp_path):
    writer = make_writer(Workdir(tmp_path), console=False)
    writer.scalars(3, {"train/loss": np.float32(0.1), "test/bleu": float("nan")})
    line = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(line) == {"step": 3, "train/loss": float(np.float32(0.1)), "test/bleu": None}
    assert curves(tmp_path / "tb")["train/loss"] == [(3, pytest.approx(0.1))]
    writer.close()


def test_resuming_cuts_lines_and_curves_back_to_the_restored_step(tmp_path):
    workdir = Workdir(tmp_path)
    write_steps(workdir, [2, 4, 6, 8])
    before = read_metrics(workdir)
    # A kill in the middle of a line, and in the middle of an event.
    with open(tmp_path / "metrics.jsonl", "a") as handle:
        handle.write('{"step": 4, "train/lo')
    event_file = next((tmp_path / "tb").iterdir())
    event_file.write_bytes(event_file.read_bytes()[:-5])
    writer = make_writer(workdir, console=False)
    writer.resume(4)
    assert read_metrics(workdir) == before[:2]
    assert curves(tmp_path / "tb")["train/loss"] == [(2, 2.0), (4, 4.0)]
    writer.scalars(6, {"train/loss": 60.0})
    writer.close()
    make_writer(workdir, resume_step=6).close()
    assert curves(tmp_path / "tb")["train/loss"] == [(2, 2.0), (4, 4.0), (6, 60.0)]
    assert [line["step"] for line in read_metrics(workdir)] == [2, 4, 6]
    assert len(list((tmp_path / "tb").iterdir())) == 1


def test_a_kill_while_event_files_are_merged_leaves_nothing_twice(tmp_path):
    workdir = Workdir(tmp_path)
    write_steps(workdir, [1, 2])
    first = next((tmp_path / "tb").iterdir())
    # As if the merged file had been written but the second one not yet deleted.
    shutil.copy(first, tmp_path / "tb" / "events.out.tfevents.9999999999.host.1.0")
    make_writer(workdir, resume_step=2).close()
    assert curves(tmp_path / "tb")["train/loss"] == [(1, 1.0), (2, 2.0)]


def test_starting_anew_drops_everything(tmp_path):
    workdir = Workdir(tmp_path)
    write_steps(workdir, [0, 1])
    make_writer(workdir).resume(None)
    assert read_metrics(workdir) == []
    assert list((tmp_path / "tb").iterdir()) == []


def test_texts_images_histograms_and_settings_can_be_read_back(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = TensorBoardWriter(Workdir(tmp_path), ".")
    writer.write_texts(1, {"note": "über"})
    writer.write_images(1, {"picture": np.zeros((2, 3, 1), np.float32)})
    writer.write_histograms(1, {"weights": np.arange(9.0)})
    writer.write_hparams({"lr": 0.1, "betas": (0.9, 0.999)})
    writer.close()
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    plugins = {
        tag: accumulator.summary_metadata[tag].plugin_data.plugin_name
        for tag in ("note", "picture", "weights")
    }
    assert plugins == {"note": "text", "picture": "images", "weights": "histograms"}
    assert accumulator.Tensors("note")[0].tensor_proto.string_val[0].decode() == "über"
    assert accumulator.Tensors("picture")[0].tensor_proto.string_val[:2] == [b"3", b"2"]


def test_the_console_shows_evaluations_in_one_line():
    stream = io.StringIO()
    writer = ConsoleWriter(stream)
    writer.write_scalars(5, {"train/loss": 1.0, "time/rate": 2.0})
    assert stream.getvalue() == ""
    writer.write_scalars(5, {f"test/task{i}": i + math.pi for i in range(10)})
    line = stream.getvalue()
    assert line.startswith("step 5: test/task0 3.142, test/task1 4.142")
    assert line.endswith("and 2 more in metrics.jsonl\n")


def test_a_bucket_has_whole_objects_after_a_flush(tmp_path, monkeypatch):
    """A local folder that is treated like a bucket: no appending, no renaming."""
    workdir = Workdir(tmp_path)
    workdir.is_local = False
    writer = RunWriter(workdir, console=False)
    writer.scalars(1, {"train/loss": 1.0})
    assert not (tmp_path / "metrics.jsonl").exists()
    writer.flush()
    assert [line["step"] for line in read_metrics(workdir)] == [1]
    writer.close()
    writer.resume(1)
    writer.scalars(2, {"train/loss": 2.0})
    writer.close()
    assert [line["step"] for line in read_metrics(workdir)] == [1, 2]
    assert curves(tmp_path / "tb")["train/loss"] == [(1, 1.0), (2, 2.0)]


def test_only_the_first_process_writes(tmp_path, monkeypatch):
    monkeypatch.setattr("jax.process_index", lambda: 1)
    assert isinstance(make_writer(Workdir(tmp_path)), NullWriter)


def test_clu_makes_a_default_writer_without_tensorflow(tmp_path):
    from mmgen.core.clu_shim import metric_writers

    writer = metric_writers().create_default_writer(str(tmp_path))
    writer.write_scalars(1, {"a": 2.0})
    writer.close()
    assert curves(tmp_path)["a"] == [(1, 2.0)]
