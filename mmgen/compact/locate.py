"""From a config to a prepared CompAct data set; the built-in world is built on first use."""

import pathlib

from ml_collections import ConfigDict

from mmgen.data.compact.dataset import CompactDataset, open_compact
from mmgen.data.compact.splits import CHOICES
from mmgen.data.locate import build_once, world_folder
from mmgen.errors import UserError
from mmgen.settings.compact import check_early

WORLD = "kitchen_world"
REAL = "compact"
"""The data set whose folder tells split and target, see `mmgen.data.builders.compact`."""

SPLIT_KEYS = ("split", "target_dc", "validation")
WORLD_KEYS = ("videos", "sizes", "atom_limit")
"""Keys of `config.dataset` that only data sets with a choice, or only the world, have."""


def locate_compact(config: ConfigDict) -> CompactDataset:
    """Opens the data set that `config.dataset` names.

    Raises:
      UserError: it was not built, or a key is given that it has no use for.
    """
    check_early(config)
    name, folder = config.dataset.name, pathlib.Path(config.data_dir)
    given = {
        key: config.dataset[key]
        for key in (*SPLIT_KEYS, *WORLD_KEYS)
        if config.dataset[key] is not None
    }
    if name == WORLD:
        return open_compact(_built_world(folder, config.data_seed or 0, given))
    for key in WORLD_KEYS:
        if key in given:
            raise UserError(
                f"config.dataset.{key} belongs to the built-in {WORLD}, but config.dataset.name is "
                f"'{name}'; leave it out (the argument 'smoke' sets it, too)."
            )
    root = folder / (_real_name(config.data_seed or 0, given) if name == REAL else name)
    if not (root / "dataset.json").is_file():
        raise UserError(
            f"There is no finished data set at '{root}'; build it with "
            f"`{_build_command(name, folder, config.data_seed, given)}`, or name the built-in "
            f"'{WORLD}'."
        )
    dataset = open_compact(root)
    _check_given(config, dataset)
    return dataset


def _check_given(config: ConfigDict, dataset: CompactDataset) -> None:
    """A data set named as a whole is divided already: keys may repeat how, not ask for more."""
    own = dataset.info["settings"] | {"data_seed": dataset.info["data_seed"]}
    asked = {f"dataset.{key}": config.dataset[key] for key in SPLIT_KEYS}
    for path, value in (asked | {"data_seed": config.data_seed}).items():
        has = own.get(path.rsplit(".", 1)[-1])
        if value is not None and value != has:
            raise UserError(
                f"config.{path} is {value!r}, but the data set '{dataset.info['name']}' was built "
                f"with {has!r}; leave it out, or name a data set that was built so."
            )


def _build_command(name: str, folder: pathlib.Path, data_seed: int | None, given: dict) -> str:
    """What builds a data set that is not there, as far as config and name tell."""
    options = [f"--{key.replace('_', '-')}={value}" for key, value in given.items()]
    named = [split for split in CHOICES["split"] if f"{name}_".startswith(f"{REAL}_{split}_")]
    if named and "split" not in given:
        split = max(named, key=len)
        options.insert(0, f"--split={split}")
        if name != f"{REAL}_{split}":
            options.append("...")
    if data_seed:
        options.append(f"--seed={data_seed}")
    return " ".join([f"python -m mmgen.data.build {REAL} --raw DIR --out {folder}", *options])


def _real_name(data_seed: int, given: dict) -> str:
    from mmgen.data.builders.compact import DEFAULTS, dataset_name, make_recipe

    return dataset_name(REAL, make_recipe(DEFAULTS | given, data_seed))


def _built_world(folder: pathlib.Path, data_seed: int, given: dict) -> pathlib.Path:
    from mmgen.data.worlds.kitchen_world import KitchenWorldSettings, build_kitchen_world

    settings = KitchenWorldSettings(data_seed=data_seed, **given)
    root = world_folder(folder, WORLD, settings)
    build_once(root, WORLD, lambda: build_kitchen_world(root, settings))
    return root
