"""CoBSAT's folder of images: found, checked, copied; its prompt file from the command line."""

import json
import shutil

import pytest

from mmgen.data.build import main
from mmgen.errors import UserError
from mmgen.prompting.cobsat.dataset import open_cobsat
from mmgen.prompting.cobsat.images import ImageFolder, image_name
from mmgen.prompting.cobsat.lists import THEMES, Cell
from mmgen.prompting.cobsat.records import prompt_file

COLOR = THEMES[0]
RED_CAR = Cell(COLOR.attributes.index("red"), COLOR.objects.index("car"))


@pytest.fixture
def folder(tmp_path):
    """Two images of the colour theme and a caption of one of them."""
    from PIL import Image

    raw = tmp_path / "raw"
    for name, suffix in (("red_car", ".jpg"), ("blue_car", ".png")):
        path = raw / "color_car" / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), name.split("_")[0]).save(path)
    (raw / "color_object.csv").write_text('image,caption\nred_car.jpg,"A car, red."\n')
    return raw


def test_images_are_found_by_cell_under_any_suffix(folder):
    images = ImageFolder(folder, THEMES)
    assert image_name(COLOR, RED_CAR) == "color_car/red_car.jpg"
    blue = Cell(COLOR.attributes.index("blue"), RED_CAR.object)
    assert images.present(COLOR) == [RED_CAR, blue]
    assert images.path(COLOR, blue).suffix == ".png"
    assert images.caption(COLOR, RED_CAR) == "A car, red."
    with pytest.raises(UserError, match="no caption of blue_car"):
        images.caption(COLOR, blue)


def test_a_missing_image_is_named(folder):
    with pytest.raises(UserError, match=r"yellow_leaf\.jpg is missing"):
        ImageFolder(folder, THEMES).picture(COLOR, Cell(0, 0))
    with pytest.raises(UserError, match="no image in CoBSAT's layout"):
        ImageFolder(folder.parent / "empty", THEMES)


def test_an_image_that_does_not_decode_is_named(folder):
    (folder / "color_car" / "red_car.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"red_car\.jpg is no image that can be decoded"):
        open_cobsat(folder)


def test_a_captions_file_without_its_columns_is_refused(folder):
    (folder / "color_object.csv").write_text("file,text\na,b\n")
    with pytest.raises(UserError, match="columns image and caption"):
        open_cobsat(folder)


def test_build_check_and_damage(folder, tmp_path, capsys):
    main(["cobsat", "--raw", str(folder), "--out", str(tmp_path / "out")])
    assert "color              2         1" in capsys.readouterr().out
    built = tmp_path / "out" / "cobsat"
    main(["--check", str(built)])
    dataset = open_cobsat(built)
    assert [task.name for task in dataset.tasks] == ["Color-I", "Color-II"]
    assert dataset.info["fingerprint"] == open_cobsat(folder).info["fingerprint"]
    shutil.copyfile(built / "color_car" / "blue_car.png", built / "color_car" / "red_car.jpg")
    with pytest.raises(UserError, match="fingerprint of its files"):
        main(["--check", str(built)])


def test_a_theme_of_ones_own_is_built_from_its_folder(folder, tmp_path):
    theme = {
        "name": "paint",
        "attribute": "color",
        "object": "object",
        "attributes": ["red", "blue"],
        "objects": ["car", "bus"],
    }
    (folder / "theme.json").write_text(json.dumps(theme))
    out = tmp_path / "out"
    main(["cobsat", "--raw", str(folder), "--out", str(out), "--name=paint"])
    assert [task.name for task in open_cobsat(out / "paint").tasks] == ["Paint-I", "Paint-II"]


def test_prompts_only_writes_the_released_file(tmp_path, capsys):
    path = tmp_path / "prompts.json"
    main(["cobsat", "--prompts-only", "--seed=123", "--out", str(path)])
    assert path.read_text() == prompt_file()
    main(["cobsat", "--prompts-only", "--out", str(path), "--mode=ft_test"])
    assert "those of the release have seed 123" in capsys.readouterr().out
    with pytest.raises(UserError, match="only cobsat has it"):
        main(["scene_world", "--prompts-only", "--out", str(path)])
    with pytest.raises(UserError, match="prompt files are"):
        main(["cobsat", "--prompts-only", "--out", str(path), "--mode=test"])


def test_the_real_images_open(real_data):
    dataset = open_cobsat(real_data / "cobsat")
    assert dataset.info["images"] == 64
    assert len(dataset.tasks) == 10
