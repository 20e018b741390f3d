"""Adapters: what they add, that they begin as nothing, and their files."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from models.tiny_models import quick_jit

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.models.lm import llama, lora
from mmgen.models.lm.config import from_hugging_face

CONFIG = from_hugging_face(
    {
        "model_type": "llama",
        "vocab_size": 20,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 32,
    }
)
SETTINGS = lora.LoraConfig(rank=4, alpha=6.0, dropout=0.25, targets=("q_proj", "down_proj"))
IDS = np.arange(10, dtype=np.int32).reshape(2, 5)
POSITIONS = np.broadcast_to(np.arange(5, dtype=np.int32), (2, 5))


def random_tree(shapes, seed):
    """By numpy, which compiles nothing."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda s: 0.3 * rng.normal(size=s.shape).astype(np.float32), shapes)


@pytest.fixture(scope="module")
def params():
    return random_tree(llama.param_shapes(CONFIG), 0)


@pytest.fixture(scope="module")
def adapters():
    return random_tree(lora.adapter_shapes(CONFIG, SETTINGS), 1)


@pytest.fixture(scope="module")
def run():
    def states(params, adapters, key):
        adapter = None if adapters is None else lora.as_adapter(adapters, SETTINGS, key)
        embeddings = llama.embed(params, IDS)
        return llama.forward(params, CONFIG, embeddings, POSITIONS, adapter=adapter)[0]

    return quick_jit(states)


def test_a_fresh_adapter_changes_nothing(params, run):
    fresh = quick_jit(lambda key: lora.init(key, CONFIG, SETTINGS))(jax.random.key(1))
    assert np.abs(fresh["q_proj"]["a"]).max() == pytest.approx(0.25, abs=0.02)
    np.testing.assert_array_equal(run(params, fresh, None), run(params, None, None))


def test_adapted_and_merged_models_agree(params, adapters, run):
    adapted = run(params, adapters, None)
    assert np.abs(adapted - run(params, None, None)).max() > 0.05
    merged = quick_jit(lambda p, a: lora.merge(p, a, SETTINGS))(params, adapters)
    np.testing.assert_allclose(run(merged, None, None), adapted, atol=1e-5)


def test_dropout_depends_on_the_key_alone(params, adapters, run):
    first, again, other = (run(params, adapters, jax.random.key(i)) for i in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_layers_and_projections_drop_independently(adapters):
    adapter = lora.as_adapter(adapters, SETTINGS)
    sites = np.concatenate([leaves["site"] for leaves in adapter.leaves.values()])
    assert sorted(sites) == [1, 2, 3, 4]


def test_files_are_pefts_and_come_back_bit_for_bit(tmp_path, adapters):
    lora.save_adapters(Workdir(tmp_path), adapters, SETTINGS, "tiny")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 4, 6.0)
    assert config["target_modules"] == ["down_proj", "q_proj"]
    tensors = safetensors.numpy.load_file(tmp_path / "adapter_model.safetensors")
    name = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"
    np.testing.assert_array_equal(tensors[name], np.asarray(adapters["q_proj"]["a"][1]).T)
    assert len(tensors) == 2 * 2 * 2
    again, settings = lora.load_adapters(tmp_path, CONFIG)
    assert settings == SETTINGS._replace(targets=("down_proj", "q_proj"))
    jax.tree.map(np.testing.assert_array_equal, again, adapters)


def test_adapters_of_another_model_or_kind_are_refused(tmp_path, adapters):
    folder = Workdir(tmp_path)
    lora.save_adapters(folder, adapters, SETTINGS, "tiny")
    deeper = dataclasses.replace(CONFIG, num_layers=3, windows=CONFIG.windows[:1] * 3)
    with pytest.raises(UserError, match=r"lacks layers\.2"):
        lora.load_adapters(tmp_path, deeper)
    with pytest.raises(UserError, match="shape"):
        lora.load_adapters(tmp_path, dataclasses.replace(CONFIG, hidden_size=8))
    config = folder.read_json(lora.CONFIG)
    for key, value in (("use_dora", True), ("peft_type", "IA3"), ("target_modules", "all")):
        folder.write_json(lora.CONFIG, {**config, key: value})
        with pytest.raises(UserError):
            lora.load_adapters(tmp_path, CONFIG)
    folder.write_json(lora.CONFIG, {**config, "target_modules": ["q_proj"]})
    with pytest.raises(UserError, match="of another model"):
        lora.load_adapters(tmp_path, CONFIG)


@pytest.mark.parametrize(
    "changes", [{"rank": 0}, {"targets": ("qkv",)}, {"targets": ()}, {"dropout": 1.0}]
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(UserError, match=r"lora\."):
        lora.check_lora(SETTINGS._replace(**changes))


def test_gradients_reach_the_adapters_alone_once_b_has_moved(params, adapters):
    def loss(adapters):
        adapter = lora.as_adapter(adapters, SETTINGS, jax.random.key(5))
        hidden, _ = llama.forward(
            params, CONFIG, llama.embed(params, IDS), POSITIONS, adapter=adapter, remat=True
        )
        return jnp.square(hidden).mean()

    grads = quick_jit(jax.grad(loss))(adapters)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(grads))
