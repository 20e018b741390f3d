"""A run whose encoders skip padding against the same run that computes it."""

import pytest

from . import running
from .test_meshes import SETTINGS, assert_close, one_device

__all__ = ["one_device"]


@pytest.mark.parametrize("residency", ["host", "device"])
def test_packed_batches(bench, one_device, tmp_path, residency):
    workdir = tmp_path / "run"
    settings = (*SETTINGS, "--config.packing=on", f"--config.residency={residency}")
    described = running.run_main(*bench.arguments(workdir, *settings), "--describe")
    assert ", packed to " in described.stdout, described.stderr
    bench.finish(workdir, *settings)
    assert_close(workdir, one_device)


def test_what_cannot_be_packed_is_refused(bench, tmp_path):
    settings = ("--config.packing=on", "--config.model.object_mask=False", "--describe")
    refused = running.run_main(*bench.arguments(tmp_path / "run", *settings))
    assert refused.returncode == 2
    assert "config.packing is 'on', but config.model.object_mask=False attends" in refused.stderr
