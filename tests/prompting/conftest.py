"""A small `shape_world`, built once."""

import pytest

from mmgen.data.worlds.shape_world import ShapeWorldSettings, build_shape_world
from mmgen.prompting.cobsat.dataset import open_cobsat


@pytest.fixture(scope="session")
def shape_world(tmp_path_factory):
    """All 500 images at 64 pixels."""
    root = tmp_path_factory.mktemp("worlds") / "shape_world"
    build_shape_world(root, ShapeWorldSettings(size=64))
    return open_cobsat(root)
