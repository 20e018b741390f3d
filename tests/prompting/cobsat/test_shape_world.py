"""`shape_world` and its pixel judge: what is drawn can be read again, what is not drawn cannot."""

import io

import numpy as np
import pytest

from mmgen.data.worlds.shape_captions import named
from mmgen.data.worlds.shape_masks import Pose, coordinates, draw_mask, place
from mmgen.data.worlds.shape_world import (
    ShapeWorldSettings,
    build_shape_world,
    cells,
    draw,
    draw_again,
    encode,
)
from mmgen.errors import UserError
from mmgen.prompting.cobsat.dataset import open_cobsat
from mmgen.prompting.cobsat.images import image_name
from mmgen.prompting.cobsat.lists import THEMES, Cell
from mmgen.prompting.judges.pixel import ABSTAINED, judge_images
from mmgen.prompting.judges.pixel_features import CANVAS, color_mix, to_canvas

SETTINGS = ShapeWorldSettings()


def some_cells(count=10):
    """Every attribute and every object once, in other pairs than the n-th with the n-th."""
    return [Cell(place, (3 * place + 1) % 10) for place in range(count)]


def share_right(theme, chosen, pictures):
    images = [to_canvas(data, "a test") for data in pictures]
    verdicts = judge_images(theme, images)
    return np.mean([(v.attribute, v.object) == c for v, c in zip(verdicts, chosen, strict=True)])


def converted(data, kind, size=None, **options):
    from PIL import Image

    image = Image.open(io.BytesIO(data))
    if size:
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def noises(count):
    """Independent pixels, blocks of one colour, and one plain colour, in turns."""
    generator = np.random.default_rng(0)
    for number in range(count):
        shape = ((CANVAS, CANVAS, 3), (8, 8, 3), (1, 1, 3))[number % 3]
        coarse = generator.integers(0, 256, shape, dtype=np.uint8)
        yield np.kron(coarse, np.ones((CANVAS // shape[0],) * 2 + (1,), np.uint8))


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_the_judge_reads_what_was_drawn(theme):
    chosen = some_cells()
    files = [
        encode(draw(theme, cell, image_name(theme, cell), SETTINGS), "JPEG") for cell in chosen
    ]
    assert share_right(theme, chosen, files) == 1
    again = [draw_again(theme, cell, seed, 64) for seed, cell in enumerate(chosen)]
    assert share_right(theme, chosen, again) >= 0.9


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_the_judge_abstains_on_noise(theme):
    verdicts = judge_images(theme, list(noises(15)))
    assert all((v.attribute, v.object) == (ABSTAINED, ABSTAINED) for v in verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_the_judge_at_full_size(theme):
    chosen = cells(theme)
    files = [
        encode(draw(theme, cell, image_name(theme, cell), SETTINGS), "JPEG") for cell in chosen
    ]
    assert share_right(theme, chosen, files) == 1
    chosen = chosen * 4
    again = [draw_again(theme, cell, seed) for seed, cell in enumerate(chosen)]
    assert share_right(theme, chosen, again) >= 0.99
    compressed = [converted(data, "JPEG", quality=70) for data in again]
    assert share_right(theme, chosen, compressed) >= 0.99
    for size in (64, 256, 512):
        resized = [converted(data, "PNG", size) for data in again]
        assert share_right(theme, chosen, resized) >= 0.99
        drawn = [draw_again(theme, c, seed, size) for seed, c in enumerate(chosen[:100])]
        assert share_right(theme, chosen[:100], drawn) >= 0.99
    verdicts = judge_images(theme, list(noises(400)))
    assert np.mean([v.object == v.attribute == ABSTAINED for v in verdicts]) >= 0.99


def test_the_same_settings_give_the_same_bytes(shape_world, tmp_path):
    theme, cell = THEMES[2], Cell(8, 3)
    settings = ShapeWorldSettings(size=64)
    name = image_name(theme, cell)
    data = encode(draw(theme, cell, name, settings), "JPEG")
    assert shape_world.images.path(theme, cell).read_bytes() == data
    other = encode(draw(theme, cell, name, ShapeWorldSettings(1, 64)), "JPEG")
    assert other != data
    assert draw_again(theme, cell, 5) == draw_again(theme, cell, 5) != draw_again(theme, cell, 6)


def test_the_world_is_a_cobsat_data_set(shape_world):
    assert shape_world.info["images"] == 500
    assert shape_world.info["world"]
    assert [theme["captions"] for theme in shape_world.info["themes"]] == [100] * 5
    assert len(shape_world.tasks) == 10


def test_captions_name_attribute_and_object_and_half_of_them_another_word(shape_world):
    with_aside = 0
    for theme in THEMES:
        others = tuple(word for t in THEMES if t is not theme for word in t.shown("attribute"))
        for cell in cells(theme):
            text = shape_world.images.caption(theme, cell)
            assert named(theme.shown("attribute"), text) == cell.attribute
            assert named(theme.shown("object"), text) == cell.object
            with_aside += any(f" {word}." in text or f"word {word}" in text for word in others)
    assert 200 <= with_aside <= 300


def test_too_small_an_image_is_refused(tmp_path):
    with pytest.raises(UserError, match="at least 32"):
        build_shape_world(tmp_path / "w", ShapeWorldSettings(size=8))
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="layout"):
        open_cobsat(tmp_path)


def test_an_image_that_does_not_decode_is_an_error():
    with pytest.raises(UserError, match="broken"):
        to_canvas(b"no image", "broken.png")


def test_coordinates_invert_the_pose():
    pose = Pose(0.2, -0.1, 0.5, 8.0)
    u, v = coordinates(pose, 32)
    line = (np.arange(32) + 0.5) / 16 - 1
    back = place(np.stack([u[4], v[4]], axis=1), pose)
    np.testing.assert_allclose(back, np.stack([line, np.full(32, line[4])], axis=1), atol=1e-12)


def test_masks_grow_with_the_square_of_the_scale():
    small, large = (draw_mask("ball", Pose(scale=scale), 64).sum() for scale in (0.3, 0.6))
    assert large / small == pytest.approx(4, rel=0.03)


def test_a_mix_does_not_depend_on_the_place_of_colours():
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    inside = np.ones((16, 16), bool)
    np.testing.assert_allclose(color_mix(image, inside), color_mix(image[::-1], inside))
    assert np.square(color_mix(image, inside)).sum() == pytest.approx(1)
    assert not color_mix(image, ~inside).any()
