"""One small world and one unbroken run, made once for all tests and workers."""

import fcntl
import pathlib
from collections.abc import Callable

import pytest

from mmgen.data.locate import locate
from mmgen.settings.command_line import load_config

from . import running

# Short, but with everything: checkpoints between evaluations, log lines between checkpoints.
CADENCE = ("--config.checkpoint.every=4", "--config.logging.every=3")


class Bench:
    """Starts runs on the shared world.

    Attributes:
      shared: a folder that all workers see.
      prepared: where the world is, `--config.data_dir`.
    """

    def __init__(self, shared: pathlib.Path):
        self.shared = shared
        self.prepared = shared / "prepared"

    def start(
        self, workdir: pathlib.Path, *arguments: str, config: str = running.CONFIG, **env: str
    ) -> running.Run:
        """A forked run in `workdir`, which need not exist."""
        log = workdir.parent / f"{workdir.name}-log"
        return running.Run(log, *self.arguments(workdir, *arguments, config=config), **env)

    def arguments(
        self, workdir: pathlib.Path, *arguments: str, config: str = running.CONFIG
    ) -> tuple[str, ...]:
        """The command line of a run in `workdir`."""
        data = f"--config.data_dir={self.prepared}"
        return (config, f"--workdir={workdir}", data, *CADENCE, *arguments)

    def finish(self, workdir: pathlib.Path, *arguments: str, **env: str) -> running.Run:
        """The same, ended with status 0."""
        run = self.start(workdir, *arguments, **env)
        status = run.status()
        assert status == 0, run.errors
        return run

    def once(self, name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
        """The folder `name`, made by whoever comes first; if that fails, nobody tries again."""
        folder, state = self.shared / name, self.shared / f"{name}.state"
        with open(state, "a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.seek(0)
            if not (said := lock.read()):
                lock.write("failed")
                lock.flush()
                make(folder)
                said = "made"
                lock.truncate(0)
                lock.write(said)
        assert said == "made", f"{name} could not be made; see the test that tried"
        return folder


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Bench:
    """The shared folders, with the world built."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "e2e"
    shared.mkdir(exist_ok=True)
    bench = Bench(shared)
    config = load_config(f"{running.ROOT}/{running.CONFIG.removeprefix('--config=')}")
    config.data_dir = str(bench.prepared)
    locate(config)
    return bench


@pytest.fixture(scope="session")
def unbroken(bench: Bench) -> pathlib.Path:
    """The workdir of a finished run that nothing disturbed; not to be written to."""
    return bench.once("unbroken", bench.finish)
