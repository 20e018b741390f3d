"""Both models against independent PyTorch implementations (tests/peers), by stored values."""

import jax
import numpy as np
import pytest
from models.tiny_models import quick_jit
from peers.weights import FIXTURE, lxmert_params, unflatten, vlbert_params

from mmgen.core.optim import make_optimizer
from mmgen.models.lxmert import make_lxmert
from mmgen.models.vlbert import make_vlbert
from mmgen.tasks.masked_span import make_masked_span_task

HEADS = 2
SHARED = {"vocabulary_rows": 40, "max_positions": 24, "feature_dim": 12, "heads": HEADS}
VLBERT = {**SHARED, "layers": 2, "hidden": 16, "mlp": 32}
LXMERT = {**SHARED, "layers": 2, "visual_layers": 1, "cross_layers": 2, "hidden": 8, "mlp": 16}


@pytest.fixture(scope="module")
def stored():
    with np.load(FIXTURE) as file:
        return dict(file)


def stored_batch(stored):
    prefix = "batch/"
    return {name.removeprefix(prefix): v for name, v in stored.items() if name.startswith(prefix)}


def mean_loss(task, batch):
    def mean(params):
        (total, count), _ = task.loss(params, batch, None)
        return total / count

    return mean


def assert_trees_close(actual, expected, tolerance):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for (path, value), reference in zip(
        jax.tree_util.tree_leaves_with_path(actual), jax.tree.leaves(expected), strict=True
    ):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        np.testing.assert_allclose(value, reference, rtol=0, atol=tolerance, err_msg=name)


def vlbert_tree(stored, key):
    return vlbert_params(unflatten(stored["vlbert/layout"], stored[key]), HEADS)


def test_vlbert_release_has_the_peers_loss_gradients_and_three_updates(stored):
    task = make_masked_span_task(make_vlbert(**VLBERT, profile="release"))
    loss = quick_jit(jax.value_and_grad(mean_loss(task, stored_batch(stored))))
    optimizer = make_optimizer("adam_release", 1e-2, eps=1e-4)
    update = quick_jit(optimizer.update)
    params = vlbert_tree(stored, "vlbert/weights")
    opt_state = jax.tree.map(np.asarray, optimizer.init(params))
    value, grads = loss(params)
    assert value == pytest.approx(float(stored["vlbert/release/loss"]), abs=1e-5)
    assert_trees_close(grads, vlbert_tree(stored, "vlbert/release/grads"), 1e-5)
    for _ in range(3):
        updates, opt_state = update(loss(params)[1], opt_state, params)
        params = jax.tree.map(np.add, params, updates)
    assert_trees_close(params, vlbert_tree(stored, "vlbert/release/updated"), 1e-5)


def test_vlbert_paper_keeps_the_whole_image_out_of_the_objects(stored):
    task = make_masked_span_task(make_vlbert(**VLBERT, profile="paper"))
    value = quick_jit(mean_loss(task, stored_batch(stored)))(vlbert_tree(stored, "vlbert/weights"))
    assert value == pytest.approx(float(stored["vlbert/paper/loss"]), abs=1e-5)
    assert abs(stored["vlbert/paper/loss"] - stored["vlbert/release/loss"]) > 0.01


def lxmert_tree(stored, key, dead_parameters):
    named = unflatten(stored["lxmert/layout"], stored[key])
    return lxmert_params(named, HEADS, dead_parameters=dead_parameters)


def test_lxmert_release_has_the_peers_loss_and_gradients(stored):
    model = make_lxmert(**LXMERT, profile="release")
    task = make_masked_span_task(model)
    loss = quick_jit(jax.value_and_grad(mean_loss(task, stored_batch(stored))))
    value, grads = loss(lxmert_tree(stored, "lxmert/weights", True))
    grads = jax.tree.map(np.multiply, grads, model.gradient_mask(grads))
    assert value == pytest.approx(float(stored["lxmert/release/loss"]), abs=1e-5)
    assert_trees_close(grads, lxmert_tree(stored, "lxmert/release/grads", True), 1e-5)


def test_lxmert_paper_has_the_peers_loss(stored):
    task = make_masked_span_task(make_lxmert(**LXMERT, profile="paper"))
    batch = stored_batch(stored)
    batch["mask"] = batch["mask"] & batch["object_mask"].any(-1)
    value = quick_jit(mean_loss(task, batch))(lxmert_tree(stored, "lxmert/weights", False))
    assert value == pytest.approx(float(stored["lxmert/paper/loss"]), abs=1e-5)
