"""What every training run does around its training, whatever it trains."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import jax
from etils import epath
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from mmgen.core import provenance
from mmgen.core.mesh import Mesh, param_shardings, placed_shapes
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState
from mmgen.core.workdir import CONFIG, Workdir
from mmgen.errors import UserError
from mmgen.report.seeds import SEEDS_JSON
from mmgen.settings.identity import identity, operational, recorded_config


class DataSet(Protocol):
    """What a prepared data set has, whatever its kind: its folder, and its manifest."""

    root: Any
    info: dict[str, Any]


Data = TypeVar("Data", bound=DataSet)


def run_once(
    folder: Workdir,
    config: ConfigDict,
    info: Mapping[str, Any],
    train: Callable[[], bool],
    report: Callable[[epath.PathLike], str],
) -> int:
    """Claims the workdir, trains unless that is done, and prints the report.

    Args:
      folder: the run's workdir.
      config: the resolved config.
      info: `dataset.json` of the data set.
      train: trains to the end and writes everything, report.md and the mark of the end included;
        True if it was stopped before.
      report: the report of a finished run, from its workdir.

    Returns:
      The exit status: 0 for a finished run and for one that was asked to stop.

    Raises:
      UserError: another process or another run has the workdir.
    """
    main_process = jax.process_index() == 0
    with folder.lock():
        folder.claim(identity(config, info), operational(config))
        if folder.is_done:
            if main_process:
                print(report(folder.root))
                print(f"This run is finished: {folder.root}")
            return 0
        stopped = train()
        if main_process:
            if stopped:
                print(f"Stopped as asked; the same command continues: {folder.root}")
            else:
                print(folder.file("report.md").read_text())
                print(f"Results: {folder.root}")
    return 0


def seed_configs(config: ConfigDict) -> list[ConfigDict]:
    """The config of each of `config.num_seeds` runs, with seeds from `config.seed` on."""
    configs = []
    for seed in range(config.seed, config.seed + config.num_seeds):
        one = config.copy_and_resolve_references().unlock()
        one.seed, one.num_seeds = seed, 1
        configs.append(one.lock())
    return configs


def claim_seeds(folder: Workdir, seeds: Sequence[int]) -> None:
    """Makes `folder` that of these seeds, for ever.

    Raises:
      UserError: it is the workdir of a single run, or of other seeds.
    """
    if folder.file(CONFIG).exists():
        raise UserError(
            f"{folder.root} is the workdir of a single run; give another --workdir for "
            f"{len(seeds)} seeds."
        )
    if folder.file(SEEDS_JSON).exists():
        held = folder.read_json(SEEDS_JSON)["seeds"]
        if held != list(seeds):
            raise UserError(
                f"{folder.root} is of the seeds {held}, and these are {list(seeds)}; give another "
                "--workdir, or the same config.seed and config.num_seeds."
            )
    elif jax.process_index() == 0:
        folder.write_json(SEEDS_JSON, {"seeds": list(seeds)})


def open_recorded(folder: Workdir, locate: Callable[[ConfigDict], Data]) -> tuple[ConfigDict, Data]:
    """The resolved config of a workdir, and the data set that its run was trained on.

    Args:
      folder: the workdir.
      locate: opens the data set of a config.

    Raises:
      UserError: no run, or its data set is not there or another one by now.
    """
    record = folder.read_json(CONFIG)
    config = recorded_config(record)
    dataset = locate(config)
    expected, found = record["identity"]["dataset.fingerprint"], dataset.info["fingerprint"]
    if found != expected:
        raise UserError(
            f"{folder.root} was trained on {config.dataset.name} with fingerprint "
            f"{expected[:12]}, but the one at {dataset.root} has {found[:12]}; give its folder by "
            "config.data_dir."
        )
    return config, dataset


def common_summary(
    config: ConfigDict, info: Mapping[str, Any], wall_seconds: float, command: str
) -> dict[str, Any]:
    """What summary.json says of every run: what it was, and where its numbers come from.

    Args:
      wall_seconds: of all processes that worked at it, each up to its last checkpoint. What a kill
        undid, and was done again, counts once.
    """
    return {
        "name": config.name,
        "dataset": info["name"],
        "fingerprint": info["fingerprint"],
        "profile": config.profile,
        "seed": config.seed,
        "data_seed": config.data_seed,
        "wall_seconds": round(wall_seconds, 3),
        "device": provenance.device(),
        "versions": provenance.versions("sacrebleu"),
        "git": provenance.git_state(),
        "command": command,
        "licences": info["licences"],
        "config": identity(config, info),
    }


def placed_state(init: Callable[[Key[Array, ""]], TrainState], seed: int, mesh: Mesh) -> TrainState:
    """`ShapeDtypeStruct`s of a run's state with the shardings of `mesh`, to restore to."""
    shapes = jax.eval_shape(init, stream_key(seed, "init"))
    return placed_shapes(shapes, param_shardings(shapes, mesh))
