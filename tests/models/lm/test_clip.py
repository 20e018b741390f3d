"""CLIP against transformers' own (tests/peers/make_clip_fixture.py), and the folder's files."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from models.tiny_models import quick_jit
from peers.pictures import pictures

from mmgen.errors import UserError
from mmgen.models.lm.clip import (
    LEGACY_EOS,
    clip_config,
    image_embedding,
    similarity,
    text_embedding,
    vision_hidden,
)
from mmgen.models.lm.clip_embedder import open_clip
from mmgen.models.lm.clip_weights import read_clip, reader
from mmgen.models.lm.images import ImageRule, decode_image, image_rule, preprocess, read_image_rule
from mmgen.models.lm.tensors import open_safetensors

FOLDER = pathlib.Path(__file__).parents[2] / "fixtures" / "clip"
TEXTS = ["a red cat", "a green bat on a mat", "ab"]


@pytest.fixture(scope="module")
def expected():
    with np.load(FOLDER / "expected.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def config():
    return clip_config(json.loads((FOLDER / "config.json").read_text()))


@pytest.fixture(scope="module")
def params(config):
    return read_clip(reader(open_safetensors(FOLDER), np.dtype(np.float32)), config)


@pytest.fixture(scope="module")
def embedder():
    return open_clip(FOLDER, batch_size=3)


def test_pixels_are_the_processors_to_the_last_bit(expected):
    rule = read_image_rule(FOLDER)
    for name, square in (("pixels", False), ("padded", True)):
        made = [preprocess(picture, rule._replace(square=square)) for picture in pictures()]
        np.testing.assert_array_equal(np.stack(made), expected[name])


def test_embeddings_and_logits_are_transformers(config, params, expected):
    images = quick_jit(lambda p, x: image_embedding(p, config, x))(params, expected["pixels"])
    texts = quick_jit(lambda p, x: text_embedding(p, config, x))(params, expected["tokens"])
    logits = similarity(images, texts, params["logit_scale"])
    np.testing.assert_allclose(images, expected["image"], atol=1e-5)
    np.testing.assert_allclose(texts, expected["text"], atol=1e-5)
    np.testing.assert_allclose(logits, expected["logits"], atol=1e-5)


def test_old_configs_read_a_text_at_its_highest_token(config, params, expected):
    legacy = config._replace(text=config.text._replace(eos=LEGACY_EOS))
    texts = quick_jit(lambda p, x: text_embedding(p, legacy, x))(params, expected["tokens"])
    np.testing.assert_allclose(texts, expected["text"], atol=1e-5)


def test_hidden_states_are_counted_as_in_transformers(config, params, expected):
    pixels = expected["pixels"][:1]
    depth = config.vision.tower.layers

    def states(vision, pixels):
        return [
            vision_hidden(vision, config.vision, pixels, i) for i in (0, depth - 1, depth, -2, -1)
        ]

    first, before, last, *from_the_end = quick_jit(states)(params["vision"], pixels)
    np.testing.assert_array_equal(from_the_end, [before, last])
    assert np.abs(first - last).max() > 0.1


def test_embedder_tokenises_batches_and_normalises(embedder, expected):
    images, texts = embedder.images(pictures()), embedder.texts(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(embedder.scale * images @ texts.T, expected["logits"], atol=1e-5)
    np.testing.assert_allclose(embedder.images(pictures()[3:]), images[3:], atol=1e-6)
    assert embedder.texts([]).shape == (0, 8)


def test_a_long_text_is_cut_to_the_models_length(embedder):
    assert np.isfinite(embedder.texts(["a red cat " * 30])).all()


def test_a_missing_tensor_and_a_wrong_shape_are_named(config):
    tensors = open_safetensors(FOLDER)
    read = reader(tensors, np.dtype(np.float32))
    with pytest.raises(UserError, match=r"lacks the tensor vision\.post_layernorm\.weight"):
        read("vision.post_layernorm.weight", (16,))
    with pytest.raises(UserError, match=r"text_projection\.weight .* \[8, 16\].* \[8, 12\]"):
        read("text_projection.weight", (8, 12))


def test_a_processor_for_another_image_size_is_refused(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "clip")
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"crop_size": 16}))
    with pytest.raises(UserError, match="two models"):
        open_clip(folder)
    path.unlink()
    with pytest.raises(UserError, match=r"holds no preprocessor_config\.json"):
        open_clip(folder)


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "clip")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="is no tokenizer"):
        open_clip(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="tokenizer files too"):
        open_clip(folder)


def test_another_models_config_is_refused():
    with pytest.raises(UserError, match='model type is "bert"'):
        clip_config({"model_type": "bert"})


def test_image_rules_of_old_and_new_processor_files(tmp_path):
    where = tmp_path / "preprocessor_config.json"
    assert image_rule({"size": 24, "crop_size": 24}, where).resize == 24
    plain = {"do_resize": False, "do_center_crop": False, "do_rescale": False}
    rule = image_rule({**plain, "do_normalize": False}, where)
    assert rule == ImageRule(resize=None, crop=None, scale=1.0, mean=(0,) * 3, std=(1,) * 3)
    grey = pictures()[2]
    np.testing.assert_array_equal(preprocess(grey, rule)[:, :, 1], np.asarray(grey))
    with pytest.raises(UserError, match="longest_edge"):
        image_rule({"size": {"longest_edge": 30}}, where)
    # transformers 5 writes the image part into the processor's own file.
    inner = {"image_processor": {"size": {"height": 6, "width": 8}}}
    (tmp_path / "processor_config.json").write_text(json.dumps(inner))
    assert read_image_rule(tmp_path).resize == (6, 8)


def test_what_does_not_decode_is_refused_by_name():
    with pytest.raises(UserError, match=r"the image cat\.png cannot be decoded"):
        decode_image(b"no picture", "cat.png")
