"""Model folders that are whole are read as they are; others are refused in one sentence."""

import json

import ml_dtypes
import numpy as np
import pytest
from models.lm.tiny_lm import write_model
from peers import lm_folders
from safetensors.numpy import load_file, save_file

from mmgen.core.mesh import make_mesh
from mmgen.errors import UserError
from mmgen.models.lm.config import NO_WINDOW, from_hugging_face, read_config
from mmgen.models.lm.model import find_package, open_model
from mmgen.models.lm.tensors import open_safetensors
from mmgen.models.lm.weights import load_params

SHARD = "model-00002-of-00002.safetensors"


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path)


def refused(folder, saying, **settings):
    with pytest.raises(UserError, match=saying):
        open_model(folder, make_mesh(data=1), **settings)


def change(folder, **keys):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def test_a_missing_shard_is_named(folder):
    (folder / SHARD).unlink()
    refused(folder, rf"lacks 1 of 2 weight files, {SHARD}")


def test_a_cut_shard_is_named(folder):
    (folder / SHARD).write_bytes((folder / SHARD).read_bytes()[:-100])
    refused(folder, rf"{SHARD} is not a whole safetensors file")


def test_a_missing_tensor_is_named(folder):
    tensors = load_file(folder / SHARD)
    gone = sorted(tensors)[0]
    del tensors[gone]
    save_file(tensors, folder / SHARD)
    refused(folder, f"lacks the tensor {gone}")


def test_a_tensor_of_another_shape_is_named(folder):
    change(folder, intermediate_size=25)
    refused(folder, r"tensor model.layers.0.mlp.down_proj.weight .* \[16, 24\], .* \[16, 25\]")


def test_a_tensor_without_a_place_is_named(folder):
    change(folder, num_hidden_layers=2)
    refused(folder, r"holds the tensor model\.layers\.2\.\S+ and 8 more, for which")


def test_pickles_are_not_read(folder):
    (folder / "model.safetensors.index.json").unlink()
    (folder / "pytorch_model.bin").touch()
    refused(folder, "only pickled weights")


@pytest.mark.parametrize(
    ("keys", "saying"),
    [
        ({"model_type": "gpt2"}, "model type 'gpt2'; the JAX backend knows llama"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "incomplete"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"num_key_value_heads": 3}, "do not divide"),
        ({"vocab_size": 20}, "has 34 tokens, but .* 20"),
    ],
)
def test_models_that_would_come_out_wrong_are_refused(folder, keys, saying):
    change(folder, **keys)
    refused(folder, saying)


def test_a_folder_without_config_or_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    refused(folder, "no tokenizer")
    (folder / "config.json").unlink()
    refused(folder, "config.json is missing")
    refused(folder, "float32 and bfloat16", dtype="int8")


def test_weights_are_kept_in_the_wanted_dtype_whatever_they_are_stored_in(folder):
    config = read_config(folder)
    tensors = lm_folders.tensors_of(json.loads((folder / "config.json").read_text()))
    (folder / "model.safetensors.index.json").unlink()
    halves = {name: value.astype(ml_dtypes.bfloat16) for name, value in tensors.items()}
    save_file(halves, folder / "model.safetensors")
    params = load_params(open_safetensors(folder), config, make_mesh(data=1))
    kernel = np.asarray(params["layers"]["up_proj"]["kernel"])
    stored = halves["model.layers.1.mlp.up_proj.weight"].astype(np.float32)
    assert kernel.dtype == np.float32
    np.testing.assert_array_equal(kernel[1], stored.T)


def test_defaults_are_those_of_the_family():
    vicuna = from_hugging_face({"model_type": "llama", "vocab_size": 32064})
    assert (vicuna.num_kv_heads, vicuna.intermediate_size, vicuna.vocab_size) == (32, 11008, 32064)
    assert not vicuna.slides
    first_mistral = from_hugging_face({"model_type": "mistral"})
    assert first_mistral.windows == (4096,) * 32 and first_mistral.num_kv_heads == 8
    later = from_hugging_face({"model_type": "mistral", "sliding_window": None})
    assert later.windows == (NO_WINDOW,) * 32
    qwen = from_hugging_face({"model_type": "qwen2", "use_sliding_window": False})
    assert qwen.qkv_bias and not qwen.output_bias and not qwen.slides


def test_ends_of_turns_count_as_ends(folder):
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    assert read_config(folder).eos == (2, 7)


def test_an_unknown_package_is_refused():
    with pytest.raises(UserError, match="known: smollm2"):
        find_package("smollm3")
