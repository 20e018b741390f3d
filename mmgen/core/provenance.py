"""Where a number comes from: code, machine and versions, for `summary.json`."""

import importlib.metadata
import pathlib
import platform
import subprocess
from typing import Any

import jax

import mmgen
from mmgen.core.cpu import usable_cores

_VERSIONED = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "mmgen")


def versions(*metrics: str) -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers.

    Args:
      metrics: packages that the scores of this run rest on besides.
    """
    found = {"python": platform.python_version()}
    for name in (*_VERSIONED, *metrics):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = mmgen.__version__ if name == "mmgen" else "unknown"
    return found


def device() -> dict[str, Any]:
    """Kind and number of devices, processes and CPU threads."""
    return {
        "platform": jax.default_backend(),
        "kind": jax.devices()[0].device_kind,
        "devices": jax.device_count(),
        "processes": jax.process_count(),
        "cpu_threads": usable_cores(),
    }


def git_state() -> dict[str, Any] | None:
    """Commit of the code and whether it was changed since; None outside a git checkout."""
    root = pathlib.Path(mmgen.__file__).resolve().parent.parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return None
