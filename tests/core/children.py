"""Runs of the toy in processes of their own, which may be killed.

They are forked from a server that has the heavy imports done but has touched no device: a child is
there in a fraction of the time that a fresh interpreter takes.
"""

import json
import multiprocessing
import os
import pathlib
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mmgen.algorithms.base import Feed
from mmgen.core.workdir import Workdir

from . import toy

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["jax", "optax", "orbax.checkpoint", "flax.struct"])
STATE = "state.npz"


def start(function: Callable[..., None], *args: Any) -> Any:
    """A started process."""
    process = CONTEXT.Process(target=function, args=args, daemon=True)
    process.start()
    return process


def status(process: Any, seconds: float = 120) -> int:
    """The exit status of a process, -9 if it was killed; ended by force if it takes too long."""
    process.join(seconds)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"still running after {seconds} s")
    return process.exitcode


def run(function: Callable[..., None], *args: Any) -> int:
    """The exit status of `function(*args)` in a process of its own."""
    return status(start(function, *args))


def use_cpu(devices: int) -> None:
    """As many CPU devices as wanted; before anything touches one."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def train(path: str, place: str = "", number: int = 0) -> None:
    """Train the toy and write its state beside its other files; die at a place if one is named."""
    use_cpu(1)
    result = toy.toy_train(path, toy.kill_at(place, number) if place else toy.no_hook)
    np.savez(pathlib.Path(path) / STATE, **toy.host_state(result))


def train_on(path: str, sizes: tuple[int, int, int]) -> None:
    """Train the toy on a mesh of eight devices; write where kernel, bias and a batch lie."""
    use_cpu(8)
    from mmgen.core.mesh import make_mesh, put_feed

    result = toy.toy_train(path, sizes=sizes)
    mesh = make_mesh(*sizes)
    batches = {
        str(size): put_feed(Feed({"ids": np.arange(size)}), mesh).stream["ids"] for size in (6, 8)
    }
    layout = {
        name: [
            str(array.sharding.spec),
            len(array.addressable_shards),
            array.addressable_data(0).size,
        ]
        for name, array in {**result.state.params["dense"], **batches}.items()
    }
    (pathlib.Path(path) / "layout.json").write_text(json.dumps(layout))
    np.savez(pathlib.Path(path) / STATE, **toy.host_state(result))


def train_together(path: str, index: int, count: int, port: int, stop_at: int = -1) -> None:
    """Train the toy as one of `count` processes; the last one gets SIGTERM at a step, if named."""
    use_cpu(1)
    import jax

    jax.distributed.initialize(f"127.0.0.1:{port}", count, index)

    def hook(place: str, number: int) -> None:
        if (place, number, index) == ("feed", stop_at, count - 1):
            os.kill(os.getpid(), signal.SIGTERM)
        if place == "feed" and number > stop_at >= 0:
            # The toy's steps are faster than the word of a signal on its way between processes.
            time.sleep(0.3)

    result = toy.toy_train(path, hook)
    outcome = {"stopped": result.stopped, "step": int(jax.device_get(result.state.step))}
    (pathlib.Path(path) / f"outcome{index}.json").write_text(json.dumps(outcome))
    if index == 0:
        np.savez(pathlib.Path(path) / STATE, **toy.host_state(result))
    jax.distributed.shutdown()


def hold(path: str, seconds: float) -> None:
    """Lock a workdir, say so with a file, and keep it."""
    use_cpu(1)
    with Workdir(path).lock():
        (pathlib.Path(path) / "held").touch()
        time.sleep(seconds)


def saved_state(path: Any) -> dict[str, np.ndarray]:
    """The last state that a child of this module has written."""
    with np.load(pathlib.Path(path) / STATE) as arrays:
        return dict(arrays)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]
