"""From a config to a prepared data set on disk; built-in worlds are built on first use."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import pathlib
import time
from collections.abc import Callable, Iterator

from ml_collections import ConfigDict

from mmgen.core.announce import announce
from mmgen.data.columns import Dataset, open_dataset
from mmgen.data.worlds.scene_world import SceneWorldSettings, build_scene_world
from mmgen.errors import UserError

WORLDS = {"scene_world": (SceneWorldSettings, build_scene_world)}
"""Built-in data sets: name -> (frozen dataclass of settings, builder(root, settings))."""

OF_EVERY = ("name", "shuffle_features")
"""Keys of `config.dataset` that mean something for every data set; the others are a world's."""


def locate(config: ConfigDict) -> Dataset:
    """Opens the data set that `config.dataset` names.

    Raises:
      UserError: it is not a world and was not built, or a world's knob is given for it.
    """
    name = config.dataset.name
    folder = pathlib.Path(config.data_dir)
    if name in WORLDS:
        return open_dataset(_built_world(folder, name, config))
    given = [k for k, value in config.dataset.items() if k not in OF_EVERY and value is not None]
    if given:
        raise UserError(
            f"config.dataset.{given[0]} belongs to the built-in worlds, but config.dataset.name "
            f"is '{name}'; leave it out (the argument 'smoke' sets it, too)."
        )
    root = folder / name
    if not (root / "dataset.json").is_file():
        raise UserError(
            f"There is no finished data set at '{root}'; build it with "
            f"`python -m mmgen.data.build NAME --raw DIR --out {folder}` "
            "(`--list` shows the names), or name a built-in world: "
            f"{', '.join(sorted(WORLDS))}."
        )
    return open_dataset(root)


def world_settings(config: ConfigDict):
    """The world's settings: its defaults with the config's knobs."""
    kind, _ = WORLDS[config.dataset.name]
    fields = {field.name for field in dataclasses.fields(kind)}
    given = {
        key: value for key, value in config.dataset.items() if key in fields and value is not None
    }
    return kind(data_seed=config.data_seed, **given)


def world_folder(folder: pathlib.Path, name: str, settings) -> pathlib.Path:
    """Where a world with these settings lies below `folder`."""
    text = json.dumps(dataclasses.asdict(settings), sort_keys=True)
    return folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _built_world(folder: pathlib.Path, name: str, config: ConfigDict) -> pathlib.Path:
    settings = world_settings(config)
    root = world_folder(folder, name, settings)
    _, build = WORLDS[name]
    build_once(root, name, lambda: build(root, settings))
    return root


def build_once(root: pathlib.Path, name: str, build: Callable[[], object]) -> None:
    """Call `build` unless the world `name` is finished at `root`; one process at a time."""
    if (root / "dataset.json").is_file():
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(root.parent / f".{root.name}.lock"):
        if not (root / "dataset.json").is_file():
            announce(f"building {name}, once for all runs with these settings")
            start = time.perf_counter()
            build()
            announce(f"built {name} at {root} in {time.perf_counter() - start:.1f} s")


@contextlib.contextmanager
def _exclusive(path: pathlib.Path) -> Iterator[None]:
    """Holds a file lock, so that runs started together build a world once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
