"""The tiny raw folder, and the real annotations read once."""

import pytest
from tiny_epic import write_raw

from mmgen.data.builders.compact import read_raw
from mmgen.data.compact.windows import ClipTable, WindowRules, find_windows


@pytest.fixture
def raw(tmp_path):
    return write_raw(tmp_path / "raw")


@pytest.fixture
def tiny(raw):
    """Clip table and windows of the tiny folder."""
    table = ClipTable(read_raw(raw, strict=True)[0].clips)
    return table, find_windows(table, WindowRules())


@pytest.fixture(scope="session")
def real(real_data):
    """Annotations and clip table of the real csv."""
    annotations, _ = read_raw(real_data / "epic100", strict=True)
    return annotations, ClipTable(annotations.clips)
