"""What decides, besides a run's identity, whether its numbers come out bit-equal."""

from collections.abc import Mapping
from typing import Any

import flax
import jax
import jaxlib
import optax
from jax.sharding import Mesh

from mmgen.core.cpu import usable_cores, vector_units
from mmgen.core.workdir import differences


def environment(mesh: Mesh) -> dict[str, Any]:
    """Devices, processor, processes, threads and versions, as JSON values.

    They are the same on every process if the hosts are alike.
    """
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    return {
        "device_kind": mesh.devices.flat[0].device_kind,
        "devices": mesh.devices.size,
        "mesh": dict(mesh.shape),
        "processes": jax.process_count(),
        # XLA's thread pool has one thread per core the process may use, and splits sums by it.
        "cpu_threads": usable_cores(),
        "cpu_vector_units": vector_units() if on_cpu else None,
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "flax": flax.__version__,
        "optax": optax.__version__,
    }


def not_bit_equal(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """A sentence naming the facts that differ, or "" if none does."""
    differing = [
        f"{key} was {was}, is {current}"
        for key, was, current in differences(dict(saved), dict(now))
    ]
    if not differing:
        return ""
    return (
        "not bit-equal: the run goes on, but its numbers will differ in the last digits from those "
        f"of an unbroken run ({'; '.join(differing)})"
    )
