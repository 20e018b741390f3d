"""The Llama family against Hugging Face's implementation, and against itself."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.tiny_models import quick_jit
from peers import lm_folders

from mmgen.core.mesh import make_mesh
from mmgen.models.lm import llama
from mmgen.models.lm.config import from_hugging_face, read_config
from mmgen.models.lm.tensors import open_safetensors
from mmgen.models.lm.weights import load_params

TESTS = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fixture() -> dict[str, np.ndarray]:
    return dict(np.load(TESTS / "fixtures" / "lm.npz"))


def open_tiny(folder: pathlib.Path, name: str, shards: int = 2):
    lm_folders.write_folder(folder, lm_folders.config_of(name), shards)
    config = read_config(folder)
    return config, load_params(open_safetensors(folder), config, make_mesh(data=1))


def all_logits(params, config, ids, **settings):
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
    hidden, _ = llama.forward(params, config, llama.embed(params, ids), positions, **settings)
    return llama.logits(params, hidden)


@pytest.mark.parametrize("name", lm_folders.CONFIGS)
def test_logits_equal_hugging_faces(name, fixture, tmp_path):
    config, params = open_tiny(tmp_path, name)
    ours = quick_jit(lambda p, ids: all_logits(p, config, ids))(params, fixture["tokens"][:1])
    np.testing.assert_allclose(ours[0], fixture[f"{name}/logits"], atol=2e-5)


@pytest.mark.parametrize("name", ["mistral", "llama3"])
def test_reading_in_pieces_with_padding_equals_reading_at_once(name, fixture, tmp_path):
    config, params = open_tiny(tmp_path, name, shards=1)
    ids = fixture["tokens"][:1]
    whole = quick_jit(lambda ids: all_logits(params, config, ids))(ids)
    pad = 3
    padded = np.pad(ids, ((0, 0), (pad, 0)))
    positions = np.maximum(np.arange(padded.shape[1]) - pad, llama.NOWHERE)[None]

    @quick_jit
    def read(ids, positions, cache):
        room = 20 if cache is None else None
        hidden, cache = llama.forward(
            params, config, llama.embed(params, ids), positions, cache, room=room
        )
        return llama.logits(params, hidden), cache

    pieces, cache = [], None
    for start in range(0, padded.shape[1], 9):
        piece, cache = read(padded[:, start : start + 9], positions[:, start : start + 9], cache)
        pieces.append(piece)
    np.testing.assert_allclose(jnp.concatenate(pieces, 1)[:, pad:], whole, atol=2e-5)
    assert int(cache.filled) == padded.shape[1]


def test_blocks_of_queries_and_recomputed_layers_change_no_gradient(monkeypatch):
    config = from_hugging_face(lm_folders.config_of("mistral"))
    params = llama.init(jax.random.key(0), config)
    ids = np.arange(10)[None] + 3

    def loss(params, remat):
        return jnp.square(all_logits(params, config, ids, remat=remat)).sum()

    whole = quick_jit(jax.grad(functools.partial(loss, remat=False)))(params)
    monkeypatch.setattr(llama, "QUERY_BLOCK", 4)
    pieces = quick_jit(jax.grad(functools.partial(loss, remat=True)))(params)
    for one, other in zip(*map(jax.tree.leaves, (whole, pieces)), strict=True):
        assert float(jnp.abs(one).max()) > 0
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
