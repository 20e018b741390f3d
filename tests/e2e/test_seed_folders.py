"""What runs prepare and claim before they train: feeds once, the folder of seeds for ever."""

import pytest

from mmgen import run, seeds
from mmgen.compact.seeds import run_seeds
from mmgen.core.workdir import Workdir
from mmgen.data.pipeline import FeedSource
from mmgen.errors import UserError
from mmgen.settings.command_line import parse_config

from . import running


class Began(Exception):
    """Training would begin."""


@pytest.mark.parametrize(("module", "count"), [(run, 1), (seeds, 3)])
def test_feeds_are_built_once(bench, tmp_path, monkeypatch, module, count):
    built, specs = [], []
    make = FeedSource.__init__

    def counted(self, **settings):
        built.append(self)
        make(self, **settings)

    def began(spec, *_):
        specs.append(spec)
        raise Began

    monkeypatch.setattr(FeedSource, "__init__", counted)
    monkeypatch.setattr(module, "train", began)
    arguments = [
        running.CONFIG,
        f"--config.data_dir={bench.prepared}",
        "--config.residency=device",
        f"--config.num_seeds={count}",
        "--config.logging.progress=False",
    ]
    with pytest.raises(Began):
        run.run(parse_config(arguments), str(tmp_path / "run"))
    (spec,) = specs
    assert built == [spec.feeds]
    assert spec.resident is not None and len(spec.feed_rows) == 1 + count


@pytest.fixture
def folder(tmp_path):
    """Of the seeds 0 and 1."""
    folder = Workdir(tmp_path / "seeds")
    folder.write_json("seeds.json", {"seeds": [0, 1]})
    return folder


def test_compact_seeds_are_not_mixed_with_others(folder):
    arguments = ["--config=configs/compact_l.py:smoke", "--config.num_seeds=3"]
    with pytest.raises(UserError, match=r"is of the seeds \[0, 1\], and these are \[0, 1, 2\]"):
        run_seeds(parse_config(arguments), str(folder.root), "")
    assert not (folder.root / "s0").exists()
