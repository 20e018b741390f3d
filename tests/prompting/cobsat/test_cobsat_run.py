"""A whole CoBSAT run on disk: asked, judged, scored again without asking, shown on a page."""

import pytest

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.prompting.gallery import main as show
from mmgen.prompting.rescore import rescore
from mmgen.prompting.run import run
from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments


def configure(world, argument):
    config = prompting_config()
    config.benchmark = config.name = "cobsat"
    config.logging.progress = False
    return apply_arguments(config, f"limit=2,task=Color-I,dataset={world.root},{argument}")


def test_both_steps_and_both_stages_end_in_a_page(shape_world, tmp_path):
    config = configure(shape_world, "model=fake:perfect,prompt=cot,output=image,judge=pixel")
    assert run(config, str(tmp_path)) == 0
    workdir = Workdir(tmp_path)
    assert workdir.is_done
    summary = workdir.read_json("summary.json")
    assert summary["metrics"]["joint"] == 1
    assert list(summary["stages"]) == ["analysis", "generate", "judge"]
    assert rescore(workdir, from_checkpoint=False) == summary["metrics"]
    show([str(tmp_path), "--count", "1"])
    page = (tmp_path / "gallery.html").read_text()
    assert page.count("<article class='right'>") == 1
    assert "step by step" in page
    assert "please generate the next image for the request" in page
    assert page.count("data:image/png;base64,") == 3


def test_another_judge_takes_over_the_answers(shape_world, tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    run(configure(shape_world, "model=fake:copy,judge=words"), str(first))
    config = configure(shape_world, "model=fake:copy,judge=fake:noise")
    with config.unlocked():
        config.reuse = (str(first),)
    assert run(config, str(second)) == 0
    summary = Workdir(second).read_json("summary.json")
    assert summary["stages"]["generate"]["answered"] == 2
    assert (summary["metrics"]["copied"], summary["metrics"]["unread"]) == (0, 1)


def test_only_wrong_ones_are_shown(shape_world, tmp_path):
    run(configure(shape_world, "model=fake:perfect,judge=words"), str(tmp_path))
    show([str(tmp_path), "--wrong", "--out", str(tmp_path / "page.html")])
    assert "<article" not in (tmp_path / "page.html").read_text()


def test_a_gallery_needs_a_prompted_run(tmp_path):
    Workdir(tmp_path).write_json("config.json", {"identity": {"kind": "compact"}})
    with pytest.raises(UserError, match="no prompted run"):
        show([str(tmp_path)])
