"""What holds for the models whatever their weights: sizes, padding, scan, dtype, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.tiny_models import (
    FEATURES,
    LXMERT_SIZES,
    MODELS,
    padded,
    quick_jit,
    randomise,
    tiny_batch,
    tiny_lxmert,
    tiny_vlbert,
)

from mmgen.core.rng import stream_key
from mmgen.core.state import parameter_count
from mmgen.errors import UserError
from mmgen.models.lxmert import make_lxmert
from mmgen.models.vlbert import make_vlbert

KEY = stream_key(0, "test")
PUBLISHED_FEATURES = 2048


def shapes(model, batch=None):
    batch = tiny_batch() if batch is None else batch
    return jax.eval_shape(lambda key: model.init(key, batch, None)["params"], KEY)


def weights(model, batch=None):
    return randomise(jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), shapes(model, batch)))


def published_batch():
    batch = tiny_batch()
    for name in ("features", "image_feature"):
        shape = (*batch[name].shape[:-1], PUBLISHED_FEATURES)
        batch[name] = np.broadcast_to(np.float32(0), shape)
    return batch


@pytest.mark.parametrize(
    ("model", "total"),
    [
        (make_vlbert(), 23_564_040),
        (make_vlbert(profile="release"), 23_564_040),
        (make_vlbert(box_geometry=True), 23_564_040 + 5 * 384),
        (make_lxmert(profile="release"), 58_614_794),
        (make_lxmert(profile="paper"), 58_614_794 - 1_923_074),
    ],
)
def test_published_sizes_have_the_published_number_of_parameters(model, total):
    assert parameter_count(shapes(model, published_batch())) == total


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_no_logit(name):
    # LXMERT in the paper's profile, which masks its object slots.
    model = MODELS[name](profile="paper")
    params = weights(model)
    apply = quick_jit(lambda batch: model.apply({"params": params}, batch, None))
    batch = tiny_batch(rows=6)
    assert (~batch["object_mask"].any(-1)).any(), "an image without objects belongs here"
    narrow = apply(batch)
    wide = apply(padded(batch, text=7, objects=5, masked=2))[:, :3]
    np.testing.assert_allclose(narrow, wide, rtol=0, atol=1e-5)


def test_released_lxmert_attends_its_empty_slots():
    model = tiny_lxmert(profile="release", cross_layers=1)
    params = weights(model)
    apply = quick_jit(lambda batch: model.apply({"params": params}, batch, None))
    batch = tiny_batch()
    difference = np.abs(apply(batch) - apply(padded(batch, objects=5)))
    assert difference.max() > 1e-3


@pytest.mark.parametrize(
    ("name", "depth"),
    [("vlbert", {"layers": 3}), ("lxmert", {"layers": 1, "visual_layers": 0, "cross_layers": 3})],
)
def test_scanned_layers_equal_unrolled_ones_with_dropout(name, depth):
    batch = tiny_batch()
    results = []
    for unroll in (1, 2):
        model = MODELS[name](**depth, scan_unroll=unroll, dropout=0.2)
        params = weights(model)
        results.append(quick_jit(model.apply)({"params": params}, batch, KEY))
    np.testing.assert_allclose(*results, rtol=0, atol=1e-5)


def test_dropout_follows_the_key_alone():
    model = tiny_vlbert(layers=2, dropout=0.2)
    params, batch = weights(model), tiny_batch()
    apply = quick_jit(lambda key: model.apply({"params": params}, batch, key))
    keys = jnp.stack([KEY, stream_key(1, "test")])
    first, second = apply(keys[0]), apply(keys[1])
    np.testing.assert_array_equal(first, apply(keys[0]))
    assert np.abs(first - second).max() > 1e-3
    vmapped = quick_jit(jax.vmap(lambda key: model.apply({"params": params}, batch, key)))(keys)
    np.testing.assert_allclose(vmapped, jnp.stack([first, second]), rtol=0, atol=1e-5)


def test_at_first_no_region_reaches_the_logits_of_vlbert():
    model = tiny_vlbert(layers=2)
    params = quick_jit(lambda key: model.init(key, tiny_batch(), None)["params"])(KEY)
    assert not params["image_norm"]["scale"].any()
    assert not params["object_norm"]["scale"].any()
    bound = FEATURES**-0.5
    assert np.abs(params["visual"]["kernel"]).max() <= bound
    assert np.abs(params["visual"]["bias"]).max() > 0
    assert np.std(params["object_word"]) > 10 * np.std(params["end_word"])
    apply = quick_jit(lambda batch: model.apply({"params": params}, batch, None))
    batch = tiny_batch()
    changed = dict(batch, features=-2 * batch["features"], image_feature=0 * batch["image_feature"])
    np.testing.assert_array_equal(apply(batch), apply(changed))


def test_bfloat16_computes_near_float32_and_keeps_float32_parameters():
    batch = tiny_batch()
    params = weights(tiny_vlbert(layers=2))
    exact, rough = (
        quick_jit(tiny_vlbert(layers=2, dtype=dtype).apply)({"params": params}, batch, None)
        for dtype in ("float32", "bfloat16")
    )
    assert rough.dtype == jnp.float32
    assert 0 < np.abs(rough - exact).max() < 0.03 * np.abs(exact).max()
    model = tiny_vlbert(layers=2, dtype="bfloat16")
    gradient = jax.eval_shape(
        jax.grad(lambda p: model.apply({"params": p}, batch, None).sum()), params
    )
    assert {leaf.dtype for leaf in jax.tree.leaves((shapes(model), gradient))} == {
        np.dtype("float32")
    }


def test_released_lxmert_freezes_position_and_segment_zero_alone():
    model = tiny_lxmert(profile="release")
    params = shapes(model)
    mask = jax.tree.map(
        lambda m, leaf: np.broadcast_to(m, leaf.shape), model.gradient_mask(params), params
    )
    frozen = jax.tree.map(lambda m: int((m == 0).sum()), mask)
    hidden = LXMERT_SIZES["hidden"]
    assert frozen.pop("position_embedding") == hidden
    assert frozen.pop("segment_embedding") == hidden
    assert not any(jax.tree.leaves(frozen))
    assert not mask["position_embedding"][0].any()
    assert tiny_lxmert(profile="paper").gradient_mask is None
    # Nor is there a gradient, which AGEM would project with.
    batch, params = tiny_batch(), weights(model)
    gradient = quick_jit(
        jax.grad(lambda params: jnp.square(model.apply({"params": params}, batch, None)).sum())
    )(params)
    for name in ("position_embedding", "segment_embedding"):
        assert not gradient[name][0].any()
    assert gradient["position_embedding"][1].any()


def test_batches_that_do_not_fit_are_refused_in_one_sentence():
    batch = tiny_batch()
    with pytest.raises(UserError, match=r"12 values.*built for 13"):
        shapes(tiny_vlbert(feature_dim=13), batch)
    with pytest.raises(UserError, match=r"max_positions is 11, but a batch needs 12"):
        shapes(tiny_vlbert(max_positions=11), batch)
    with pytest.raises(UserError, match=r"cross_layers is 0"):
        tiny_lxmert(cross_layers=0)
