"""From a name to CoBSAT's images: a prepared folder, any other folder, or the built-in world."""

import pathlib

from mmgen.data.locate import build_once, world_folder
from mmgen.data.worlds.shape_world import NAME, ShapeWorldSettings, build_shape_world
from mmgen.errors import UserError
from mmgen.prompting.cobsat.dataset import CobsatDataset, open_cobsat


def locate_images(
    data_dir: pathlib.Path, name: str, data_seed: int, size: int = 128
) -> CobsatDataset:
    """The data set of that name in `data_dir`; the world is drawn on first use.

    Args:
      name: a path, absolute or with a slash in it, is a folder in the official layout.
      data_seed, size: of the world.

    Raises:
      UserError: there is no such data set.
    """
    if name == NAME:
        settings = ShapeWorldSettings(data_seed, size)
        root = world_folder(data_dir, name, settings)
        build_once(root, name, lambda: build_shape_world(root, settings))
        return open_cobsat(root)
    root = pathlib.Path(name).expanduser() if "/" in name else data_dir / name
    if not root.is_dir():
        raise UserError(
            f"there is no CoBSAT data set at {root}; build it with `python -m mmgen.data.build "
            f"cobsat --raw DIR --out {data_dir}`, or take dataset={NAME}."
        )
    return open_cobsat(root)
