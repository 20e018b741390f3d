"""A run whose data lies in device memory against the same run fed from the host."""

import pytest

from . import traces
from .test_meshes import SETTINGS, assert_close, one_device

__all__ = ["one_device"]


@pytest.mark.parametrize("devices", [1, 2])
def test_data_in_device_memory(bench, one_device, tmp_path, devices):
    workdir = tmp_path / "run"
    flags = f"--xla_force_host_platform_device_count={devices}"
    # Evaluations and checkpoints every four iterations: chunks of four.
    settings = (*SETTINGS, "--config.residency=device", "--config.evaluation.count=4")
    run = bench.finish(workdir, *settings, XLA_FLAGS=flags)
    assert "4 iterations per dispatch" in run.errors
    assert traces.summary(workdir)["device"]["devices"] == devices
    assert_close(workdir, one_device)
