"""Ways to run `mmgen.main`: as a stranger would, and, cheaper, forked from a warm server."""

import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = "--config=configs/visCOLL_er10k.py:smoke"
CONTEXT = multiprocessing.get_context("forkserver")
# Everything that takes long to import and touches no device; not mmgen.main, which declares flags.
CONTEXT.set_forkserver_preload(["mmgen.run", "mmgen.core.loop", "mmgen.core.writers"])
UNOPTIMISED = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
OPTIMISED = "--xla_backend_optimization_level=3 --xla_cpu_use_fusion_emitters=true"
"""The defaults: for a run as a stranger's; the later of two flags holds."""
LIMIT = 500
"""Seconds after which a run is taken for hanging."""


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, for a run on the CPU that shares compiled programs.

    Programs are compiled in a fifth of the time, without optimisation; `XLA_FLAGS` adds to that.
    """
    quick = {"JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    flags = f"{UNOPTIMISED} {variables.pop('XLA_FLAGS', '')}".strip()
    return os.environ | quick | variables | {"XLA_FLAGS": flags}


def run_command(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command in the root of the repository; ended with all its children if it hangs."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=LIMIT)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def run_main(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m mmgen.main` in a fresh interpreter."""
    return run_command(sys.executable, "-m", "mmgen.main", *arguments, **variables)


class Run:
    """A forked `python -m mmgen.main`; `output` and `errors` are what it has printed so far."""

    def __init__(self, log: pathlib.Path, *arguments: str, **variables: str):
        log.mkdir(parents=True, exist_ok=True)
        number = len(list(log.iterdir()))
        self._output, self._errors = log / f"{number}.out", log / f"{number}.err"
        files = (str(self._output), str(self._errors))
        for file in files:
            pathlib.Path(file).touch()
        self._process: Any = CONTEXT.Process(
            target=_main, args=(arguments, environment(**variables), *files), daemon=True
        )
        self._process.start()

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def status(self) -> int:
        """The exit status, once it has ended; -9 if it was killed."""
        self._process.join(LIMIT)
        if self._process.is_alive():
            self._process.kill()
            raise TimeoutError(f"still running after {LIMIT} s:\n{self.errors}")
        return self._process.exitcode

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Waits until the condition holds; False if the run ended before."""
        while not condition():
            if not self.is_running:
                return condition()
            time.sleep(0.02)
        return True


def _main(arguments: tuple[str, ...], variables: Mapping[str, str], out: str, err: str) -> None:
    """The body of a forked run."""
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(ROOT)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    import jax

    # The server read its environment when it started.
    jax.config.update("jax_platforms", variables["JAX_PLATFORMS"])
    jax.config.update("jax_compilation_cache_dir", variables.get("JAX_COMPILATION_CACHE_DIR"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    sys.argv = ["mmgen.main", *arguments]
    try:
        runpy.run_module("mmgen.main", run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
