"""LLaVA-1.5 against transformers' own (tests/peers/make_llava_fixture.py), and its files."""

import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from models.tiny_models import quick_jit
from peers.pictures import pictures

from mmgen.core.mesh import make_mesh
from mmgen.errors import UserError
from mmgen.models.lm import llama
from mmgen.models.lm.images import preprocess, read_image_rule
from mmgen.models.lm.llava import (
    TEXT,
    embed,
    expand,
    image_features,
    llava_config,
    load_llava,
)
from mmgen.models.lm.tensors import open_safetensors

FOLDER = pathlib.Path(__file__).parents[2] / "fixtures" / "llava"


@pytest.fixture(scope="module")
def expected():
    with np.load(FOLDER / "expected.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def values():
    return json.loads((FOLDER / "config.json").read_text())


@pytest.fixture(scope="module")
def config(values):
    return llava_config(values)


@pytest.fixture(scope="module")
def params(config):
    return load_llava(open_safetensors(FOLDER), config, make_mesh(data=1))


def padded_batch(expected, config):
    """Both prompts, the shorter one padded on the left, with their positions and sources."""
    rows = [expected["ids/0"], expected["ids/1"]]
    width = max(map(len, rows))
    ids = np.zeros((2, width), np.int32)
    positions = np.full((2, width), llama.NOWHERE, np.int32)
    sources = np.full((2, width), TEXT, np.int32)
    first = 0
    for row, given in enumerate(rows):
        # The fixture's prompts hold every image token as often as transformers wants it.
        short = [t for i, t in enumerate(given) if t != config.image_token or given[i - 1] != t]
        shown = range(first, first + short.count(config.image_token))
        expanded, source = expand(short, config, shown)
        assert expanded == given.tolist()
        ids[row, -len(given) :], sources[row, -len(given) :] = expanded, source
        positions[row, -len(given) :] = np.arange(len(given))
        first = shown.stop
    return ids, positions, sources


def test_features_and_logits_of_interleaved_images_are_transformers(params, config, expected):
    rule = read_image_rule(FOLDER)
    pixels = np.stack([preprocess(picture, rule) for picture in pictures()])
    ids, positions, sources = padded_batch(expected, config)

    def run(params, pixels):
        features = image_features(params, config, pixels)
        # Row 0 shows pictures 0 and 1, row 1 picture 0.
        shown = features[jnp.array([0, 1, 0])]
        embeddings = embed(params, ids, sources, shown)
        hidden, _ = llama.forward(params["text"], config.text, embeddings, positions)
        return features, llama.logits(params["text"], hidden)

    features, logits = quick_jit(run)(params, pixels)
    np.testing.assert_allclose(features, expected["features"], atol=2e-5)
    for row in range(2):
        reference = expected[f"logits/{row}"]
        np.testing.assert_allclose(logits[row, -len(reference) :], reference, atol=1e-4)


# transformers 5.24 wrote the fixture; these are the names of 4.x files and of 5.x modules.
SPELLINGS = {
    "transformers 4": {"vision_tower.": "vision_tower.vision_model."},
    "transformers 5 modules": {
        "language_model.lm_head.": "lm_head.",
        "language_model.model.": "model.language_model.",
        "vision_tower.": "model.vision_tower.vision_model.",
        "multi_modal_projector.": "model.multi_modal_projector.",
    },
}


def respelt(name, spelling):
    for old, new in spelling.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_both_spellings_of_tensor_names_load_the_same(tmp_path, spelling, params, config):
    tensors = {}
    for shard in FOLDER.glob("*.safetensors"):
        tensors |= safetensors.numpy.load_file(shard)
    renamed = {respelt(name, spelling): tensor for name, tensor in tensors.items()}
    safetensors.numpy.save_file(renamed, tmp_path / "model.safetensors")
    again = load_llava(open_safetensors(tmp_path), config, make_mesh(data=1))
    jax.tree.map(np.testing.assert_array_equal, again, params)


def test_a_missing_shard_is_named(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "llava")
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match=r"lacks 1 of 2 weight files, model-00002"):
        open_safetensors(folder)


def test_foreign_and_mismatched_weights_are_refused(config, values):
    tensors = open_safetensors(FOLDER)
    foreign = tensors._replace(shapes={**tensors.shapes, "model.mm_projector.0.weight": (1,)})
    with pytest.raises(UserError, match="llava-hf publishes it"):
        load_llava(foreign, config, make_mesh(data=1))
    vision = {**values["vision_config"], "image_size": 16}
    other = llava_config({**values, "vision_config": vision})
    with pytest.raises(UserError, match=r"position_embedding\.weight .*two models"):
        load_llava(tensors, other, make_mesh(data=1))


def test_configs_of_the_released_7b_are_filled_in():
    # llava-hf's config.json leaves out what equals the class's defaults.
    config = llava_config(
        {
            "model_type": "llava",
            "image_token_index": 32000,
            "text_config": {"model_type": "llama", "vocab_size": 32064, "rms_norm_eps": 1e-05},
            "vision_config": {"model_type": "clip_vision_model"},
        }
    )
    assert config.image_length == 576
    assert (config.text.hidden_size, config.text.num_layers) == (4096, 32)
    assert config.vision.tower.layers == 24


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "llama"}, "not 'llava'"),
        ({"vision_config": None, "text_config": None}, "own code"),
        ({"vision_feature_layer": [-2, -5]}, "only one layer"),
        ({"vision_feature_select_strategy": "cls"}, "not one of 'default', 'full'"),
        ({"multimodal_projector_bias": False}, "without biases"),
    ],
)
def test_configs_that_would_give_wrong_numbers_are_refused(values, changes, message):
    changed = {k: v for k, v in {**values, **changes}.items() if v is not None}
    with pytest.raises(UserError, match=message):
        llava_config(changed)
